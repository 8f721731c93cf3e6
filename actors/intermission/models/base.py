"""`Model`: what an agent asks of a language model, and the values that go to it and come back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage

__all__ = ["Model", "ModelRequest", "ModelResponse", "ToolDeclaration", "provider"]


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What a model is told of a tool.

    Attributes:
        name: The name that it calls the tool by.
        description: What the tool does.
        parameters: JSON schema of the arguments, an object.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


def _no_mapping() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model.

    Attributes:
        contents: The conversation, oldest first.
        instruction: The system instruction, `""` for none.
        tools: The tools that the model may call.
        streaming: Whether partial responses are wanted.
        output_schema: JSON schema that the answer's text must match, if one must.
        generate_config: Further fields of the provider's request, such as `temperature`, by its names.
    """

    contents: tuple[Content, ...]
    instruction: str = ""
    tools: tuple[ToolDeclaration, ...] = ()
    streaming: bool = False
    output_schema: Mapping[str, Any] | None = None
    generate_config: Mapping[str, Any] = field(default_factory=_no_mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A piece of a model's answer, or all of it.

    Attributes:
        content: What the model said. A partial holds only what is new of texts, and calls as far as they are
            known; the last response holds everything.
        partial: Whether more follows.
        usage: The call's tokens, with the last response; `None` if the model did not say.
        finish_reason: Why the model ended, with the last response: `"stop"`, `"tool_calls"`, `"length"` for
            an answer cut off at a limit of tokens, `"content_filter"` for one that was held back,
            `"refusal"`, or a word of the provider's; `None` if it did not say.
    """

    content: Content
    partial: bool = False
    usage: Usage | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of the content, thoughts left out."""
        return self.content.text

    @property
    def error_code(self) -> str | None:
        """The finish reason if the answer is not what was asked for: cut off, held back or a refusal."""
        return self.finish_reason if self.finish_reason in _SHORT_OF_AN_ANSWER else None


_SHORT_OF_AN_ANSWER = frozenset({"length", "content_filter", "refusal"})


class _Named(type(Protocol)):  # type: ignore[misc]  # the metaclass of protocols has no public name
    """Gives `Model` its `from_name`, which no model of one's own has to have."""

    def from_name(cls, name: str) -> "Model":
        """Return the model of a name such as `"openai/gpt-4o-mini"`: a provider and its name for the model.

        Raises:
            ModelError: No provider is called so; the text lists those that are.
        """
        prefix, slash, model = name.partition("/")
        if not (slash and model and prefix in _providers):
            known = ", ".join(f"{known}/…" for known in sorted(_providers))
            raise ModelError(
                f"no provider for the model name {name!r}; known are {known}. For a server that speaks the "
                "OpenAI protocol, make a ChatCompletions with its base_url.",
                kind=ModelErrorKind.CONFIGURATION,
            )
        return _providers[prefix](model)


class Model(Protocol, metaclass=_Named):
    """A language model. Write your own by giving a class these two members."""

    @property
    def name(self) -> str:
        """The model's name, for messages to people."""
        ...

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """Ask the model; called on a thread that may block, never two calls of one run at a time.

        Yields partial responses if the request asks for them, then exactly one that is not partial. The
        texts of the partials, joined, are the text of the last response. A call that a partial shows has
        an id there that is the same in all of them and in the last response; such ids need not be unique
        beyond the response, and a call that no partial shows needs none. The runtime gives its own.

        Raises:
            ModelError: The call failed. Nothing of it is kept.
            Cancelled: `CancelScope.current()` is cancelled. Raised without that, it is made a `ModelError` of
                the kind `cancelled`.
        """
        ...


_providers: dict[str, Callable[[str], Model]] = {}

ModelT = TypeVar("ModelT", bound=Model)


def provider(prefix: str) -> Callable[[type[ModelT]], type[ModelT]]:
    """Make a class of models, given the name of one, known to `Model.from_name` by a prefix."""

    def known(model: type[ModelT]) -> type[ModelT]:
        _providers[prefix] = model
        return model

    return known
