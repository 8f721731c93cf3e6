"""What is kept of an agent's answer, and what it must look like."""

import logging
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from apps import KEY, app_of
from intermission import Content, FunctionCall, LlmAgent, Part, Runner
from intermission.agents.schemas import Schema
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from play import Play

MODEL = ScriptedModel()


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


@dataclass
class Place:
    """A place."""

    city: str


def kept(answer: Content | str, **more: Any) -> dict[str, Any]:
    """The state that an agent leaves, which began with a draft."""
    play = Play(answer, state={"draft": "old"})
    play.run(LlmAgent("agent", MODEL, output_key="draft", **more))
    return play.state


def test_the_final_answer_is_kept_under_the_output_key() -> None:
    assert kept("Rome") == {"draft": "Rome"}


def test_the_texts_of_an_answer_are_joined_without_thoughts() -> None:
    parts = (Part(text="hm", thought=True), Part(text="Ro"), Part(text="me"))
    assert kept(Content("model", parts)) == {"draft": "Rome"}


@pytest.mark.parametrize("parts", [(Part(text="hm", thought=True),), (Part(text=""),), ()])
def test_an_answer_without_text_leaves_what_was_kept_before(parts: tuple[Part, ...]) -> None:
    assert kept(Content("model", parts)) == {"draft": "old"}


def test_what_is_said_beside_calls_is_not_kept() -> None:
    play = Play(Content.model("One moment", calls=[FunctionCall("", "look")]), "Rome")

    def look() -> None:
        """Look."""
        assert "draft" not in play.state

    play.run(LlmAgent("agent", MODEL, output_key="draft", tools=[look]))
    assert play.state == {"draft": "Rome"}


def test_an_answer_with_a_schema_is_kept_as_a_value() -> None:
    text = '{"city": "Rome", "degrees": "21"}'

    assert kept(text, output_schema=Forecast) == {"draft": {"city": "Rome", "degrees": 21}}
    assert kept(f"```json\n{text}\n```", output_schema=Forecast) == {"draft": {"city": "Rome", "degrees": 21}}
    assert kept('["a", "b"]', output_schema=list[str]) == {"draft": ["a", "b"]}
    assert kept(text, output_schema={"type": "object"}) == {"draft": {"city": "Rome", "degrees": "21"}}


@pytest.mark.parametrize("text", ["Rome, 21", '{"city": "Rome"}', "{", "```\nRome\n```"])
def test_an_answer_that_does_not_fit_is_kept_as_text_and_the_log_says_why_but_not_what(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "intermission"):
        assert kept(text, output_schema=Forecast) == {"draft": text}
    (record,) = caplog.records
    assert "does not fit its output_schema" in record.getMessage()
    assert "Rome" not in record.getMessage()


def test_the_model_is_told_the_schema_and_the_settings() -> None:
    play = Play("{}")
    play.run(LlmAgent("agent", MODEL, output_schema=Forecast, generate_config={"temperature": 0}))

    assert play.requests[0].output_schema == Forecast.model_json_schema()
    assert play.requests[0].generate_config == {"temperature": 0}


def test_what_has_no_schema_is_refused_when_the_agent_is_made() -> None:
    class Odd:
        pass

    with pytest.raises(TypeError, match="output_schema of agent 'agent'"):
        LlmAgent("agent", MODEL, output_schema=Odd)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [(Place, '{"city": "Rome"}', {"city": "Rome"}), (int, "7", 7), (dict[str, int], "{}", {})],
)
def test_dataclasses_and_plain_types_are_schemas_too(schema: Any, text: str, value: Any) -> None:
    assert Schema(schema, "it").read(text) == value


def test_what_is_kept_is_in_the_session_with_the_answer() -> None:
    model, log = ScriptedModel(calls(("look", {})), "Rome", default="Oslo"), MemoryEventLog()

    def look() -> str:
        """Look."""
        return "there"

    with Runner(app_of(LlmAgent("agent", model, output_key="user:city", tools=[look])), log=log) as runner:
        for city in ("Rome", "Oslo"):
            events = list(runner.run(**KEY, message="Where?"))
            assert events[-1].actions.state_delta == {"user:city": city}
            assert runner.sessions.get(**KEY).state == {"user:city": city}
