"""`Model`: models by name, and what a class must have to be one."""

from collections.abc import Callable

import pytest

from intermission.errors import ModelError, ModelErrorKind
from intermission.models import Anthropic, ChatCompletions, Gemini, Model, Ollama
from intermission.testing import ScriptedModel


def test_a_model_is_made_from_the_name_of_its_provider_and_its_own() -> None:
    model = Model.from_name("openai/org/small")

    assert isinstance(model, ChatCompletions)
    assert model.name == "org/small"


@pytest.mark.parametrize("name", ["", "small", "openai", "openai/", "/small", "other/small", "OpenAI/small"])
def test_a_name_without_a_known_provider_is_an_error_that_lists_those_there_are(name: str) -> None:
    with pytest.raises(ModelError, match=r"known are .*openai/…") as caught:
        Model.from_name(name)

    assert caught.value.kind is ModelErrorKind.CONFIGURATION
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("provider", [Anthropic, ChatCompletions, Gemini, Ollama])
@pytest.mark.parametrize("keyword", ["temperature", "timeout"])
def test_a_keyword_that_no_model_has_is_an_error_that_says_where_it_goes(
    provider: Callable[..., Model], keyword: str
) -> None:
    with pytest.raises(TypeError, match=f"has no keyword {keyword}. .*options={{…}}.* total_timeout"):
        provider("small", **{keyword: 1})


def test_a_class_needs_no_from_name_to_be_a_model() -> None:
    model: Model = ScriptedModel("yes")

    assert not hasattr(model, "from_name")
