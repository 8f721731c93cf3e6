"""Results that cannot be stored, or are too large: the model is told, in every log, and the session lives."""

import asyncio
import io
import logging
import math
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, app_of, app_with, records
from intermission import LlmAgent, Runner, ToolContext
from intermission.models.base import ToolDeclaration
from intermission.testing import ScriptedModel, calls
from intermission.tools import ToolResultError
from intermission.tools.results import MAX_BYTES
from intermission_storage import EventLog, Kind, LmdbEventLog, MemoryEventLog
from turns import PATIENCE, responses

REFUSED = "The tool did its work, but its result cannot be passed on: "


def circle() -> Any:
    """A list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


# Made when they are needed: a text of this size is not kept.
ODD: dict[str, Callable[[], Any]] = {
    "object": object,
    "generator": lambda: (x for x in range(3)),
    "lambda": lambda: lambda: 1,
    "open file": lambda: open(__file__),  # noqa: SIM115 - that it is left open is the point
    "memory file": lambda: io.BytesIO(b"x"),
    "large text": lambda: "x" * 50_000_000,
    "broken text": lambda: "\ud800",
    "large int": lambda: 2**70,
    "circle": circle,
    "inside": lambda: {"a": [object()]},
}


@pytest.fixture(params=["memory", "lmdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[EventLog]:
    """A log of each kind."""
    if request.param == "memory":
        yield MemoryEventLog()
        return
    with LmdbEventLog(tmp_path / "log.lmdb") as opened:
        yield opened


@pytest.mark.scenario("E12")
@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_each_odd_result_is_answered_with_an_error_and_the_session_lives(
    log: EventLog, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []

    def give(what: str) -> Any:
        made.append(ODD[what]())
        return made[-1]

    async def give_later(what: str) -> Any:
        await asyncio.sleep(0)
        return give(what)

    tool = give if kind == "blocking" else give_later
    model = ScriptedModel(calls(*((tool.__name__, {"what": what}) for what in ODD)), "done", "again")
    with caplog.at_level(logging.ERROR, "intermission"), Runner(app_with(model, tool), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
        told = responses(model)
        assert runner.run(**KEY, message="and now?").answer(PATIENCE) == "again"
        stored = [record.data for record in records(log) if record.kind == Kind.CALL_FINISHED]

    assert [one["status"] for one in told] == ["error"] * len(ODD)
    assert all(one["message"].startswith(REFUSED) for one in told)
    assert "takes 50000018 bytes, and the most is 16777216" in told[list(ODD).index("large text")]["message"]
    assert [one["outcome"] for one in stored] == ["finished"] * len(ODD)
    assert len(caplog.records) == len(ODD)
    assert [file.closed for file in made if isinstance(file, io.IOBase)] == [True, True]


@pytest.mark.scenario("E12")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("assign", "what is at state.it has no JSON form"),
        ("append", "what is at state.it has no JSON form"),
        ("large", "state are lost: it takes 50000021 bytes, and the most is 16777216"),
    ],
)
def test_what_a_tool_puts_into_the_state_and_no_log_takes_is_answered_with_an_error_and_dropped(
    log: EventLog, how: str, said: str
) -> None:
    def put(tool_context: ToolContext) -> None:
        state = tool_context.state
        state["other"] = 1
        state["temp:it"] = object()  # this is never stored
        if how == "append":
            state.append("it", object())
        else:
            state["it"] = object() if how == "assign" else "x" * 50_000_000

    def keep(tool_context: ToolContext) -> None:
        tool_context.state["kept"] = 1
        tool_context.state["temp:it"] = object()

    model = ScriptedModel(calls(("put", {}), ("keep", {})), "done")
    with Runner(app_with(model, put, keep), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
        session = runner.sessions.get(**KEY)

    first, second = responses(model)
    assert (first["status"], second) == ("error", {})
    assert said in first["message"]
    assert session is not None
    assert session.state == {"kept": 1}


@pytest.mark.scenario("E12")
def test_a_result_at_the_limit_is_stored(log: EventLog) -> None:
    def give() -> str:
        return "x" * (MAX_BYTES - 18)

    model = ScriptedModel(calls(("give", {})), "done")
    with Runner(app_with(model, give), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"result": give()}]


class Raw:
    """A tool of one's own, which returns what it is told to."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.declaration = ToolDeclaration("raw", "", {"type": "object", "properties": {}})

    def call(self, args: Mapping[str, Any], context: Any) -> Any:
        """See `Tool.call`."""
        return self.result


@pytest.mark.scenario("E12")
@pytest.mark.parametrize(
    "result",
    [object(), 7, None, {"a": math.nan}, {"a": "\ud800"}, {1: 2}],
    ids=lambda result: type(result).__name__,
)
def test_a_tool_of_ones_own_that_returns_no_dict_of_plain_values_is_answered_for(result: Any) -> None:
    model = ScriptedModel(calls(("raw", {})), "done")
    app = app_of(LlmAgent("agent", model, tools=[Raw(result)]))
    with Runner(app, log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    (told,) = responses(model)
    assert told["message"].startswith(REFUSED)


def test_a_callback_on_errors_may_answer_for_a_result_that_cannot_be_passed_on() -> None:
    errors: list[Any] = []

    def failed(tool: Any, args: Any, context: Any, error: Any) -> dict[str, int]:
        errors.append(error)
        return {"instead": 1}

    model = ScriptedModel(calls(("raw", {})), "done")
    agent = LlmAgent("agent", model, tools=[Raw({"it": object()})], on_tool_error_callback=failed)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"instead": 1}]
    assert [type(error) for error in errors] == [ToolResultError]
