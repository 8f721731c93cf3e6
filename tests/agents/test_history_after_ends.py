"""Whatever ends a run, wherever: OpenAI, Anthropic and Gemini could take the next request of its session."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple

import pytest

from desk import PATIENCE, Desk
from intermission import RunConfig, RunStatus, ToolExecution
from intermission.testing import Gate, calls, error, text
from intermission.testing.replies import Reply
from intermission_storage import Record

PARALLEL = RunConfig()
ONE_BY_ONE = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
SUBSCRIBE = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
IN_TIME = RunConfig(timeout=10, tool_execution=ToolExecution.SEQUENTIAL)
TOOLS_IN_TIME = RunConfig(tool_timeout=10, tool_execution=ToolExecution.SEQUENTIAL)
ONE_CALL = RunConfig(max_llm_calls=1)
UNKNOWN, NOT_STARTED = "unknown", "not_started"


class End(NamedTuple):
    """How a run is ended, and what the model of the next one is told.

    Attributes:
        reply: See `Desk`.
        config: See `Desk`.
        end: Brings the run to its end.
        status: The status of the run.
        told: What becomes of each call of the turn.
    """

    reply: Any
    config: RunConfig
    end: Callable[[Desk], object]
    status: RunStatus
    told: list[Any]


def cancelled(reply: Any, config: RunConfig, arriving: str, told: list[Any], finished: str = "") -> End:
    def end(desk: Desk) -> None:
        run = desk.start(arriving)
        for name in finished:
            desk.finish(name)
        if finished and config is ONE_BY_ONE:
            following = "abc"[len(finished)]
            desk.blocking[following].arrived()
        run.cancel("enough")

    return End(reply, config, end, RunStatus.CANCELLED, told)


def in_a_commit(ending: str, batch: Any, told: list[Any], open_before: str = "", reply: Any = "ab") -> End:
    def end(desk: Desk) -> None:
        desk.open(open_before)
        desk.hold(batch)
        getattr(desk.run, ending)("enough")

    status = RunStatus.CANCELLED if ending == "cancel" else RunStatus.STOPPED
    return End(reply, ONE_BY_ONE, end, status, told)


def in_the_model(config: RunConfig, ending: str, status: RunStatus, *pieces: str) -> End:
    def end(desk: Desk) -> None:
        run = desk.start()
        desk.speaking.arrived()
        getattr(run, ending)("enough")

    def reply(gate: Gate) -> Reply:
        return text("Hello ", "wor", gate, *pieces)

    return End(reply, config, end, status, [])


def responding(_: str, records: Sequence[Record]) -> bool:
    """Whether a batch holds the responses of a turn."""
    return any("functionResponse" in str(record.data) for record in records)


def stopped(desk: Desk) -> None:
    desk.start("a").stop("enough")


def closing_by(runs: Literal["cancel", "release"], status: RunStatus) -> End:
    def end(desk: Desk) -> None:
        desk.start("a")
        desk.runner.close(grace=0, runs=runs)

    return End("ab", ONE_BY_ONE, end, status, [UNKNOWN, NOT_STARTED])


def late(desk: Desk) -> None:
    desk.start("a")
    desk.clock.advance(10)


def one_of_three(desk: Desk) -> None:
    run = desk.start("xyz")
    _, middle, _ = desk.calls()
    assert run.cancel_call(middle.id, "not this one")
    desk.open("xz")


def left_alone(desk: Desk) -> None:
    desk.open()
    desk.start()


CLOSING = {
    "close in a tool": closing_by("cancel", RunStatus.CANCELLED),
    "release in a tool": closing_by("release", RunStatus.INTERRUPTED),
}
ENDS = {
    **CLOSING,
    "cancel before the model": in_a_commit("cancel", 1, [], reply=text("ok")),
    "cancel in the model": in_the_model(PARALLEL, "cancel", RunStatus.CANCELLED),
    "cancel in a stream": in_the_model(RunConfig(streaming=True), "cancel", RunStatus.CANCELLED),
    "cancel while the calls are stored": in_a_commit("cancel", "call_started", [UNKNOWN, NOT_STARTED]),
    "cancel in the first tool": cancelled("a", PARALLEL, "a", [UNKNOWN]),
    "cancel in an async tool": cancelled("x", PARALLEL, "x", [UNKNOWN]),
    "cancel in the first of three": cancelled("abc", ONE_BY_ONE, "a", [UNKNOWN, NOT_STARTED, NOT_STARTED]),
    "cancel in the second of three": cancelled("abc", ONE_BY_ONE, "a", ["a", UNKNOWN, NOT_STARTED], "a"),
    "cancel in three at once": cancelled("abc", SUBSCRIBE, "abc", [UNKNOWN] * 3),
    "cancel when one of three is done": cancelled("abc", SUBSCRIBE, "abc", [UNKNOWN, "b", UNKNOWN], "b"),
    "cancel when an async one is done": cancelled("xyz", PARALLEL, "xyz", [UNKNOWN, UNKNOWN, "z"], "z"),
    "cancel in tools of both kinds": cancelled("axb", PARALLEL, "ax", [UNKNOWN, UNKNOWN, NOT_STARTED]),
    "cancel while the responses are stored": in_a_commit("cancel", responding, ["a", "b"], "ab"),
    "cancel of one call": End("xyz", PARALLEL, one_of_three, RunStatus.COMPLETED, ["x", UNKNOWN, "z"]),
    "stop before the model": in_a_commit("stop", 1, [], reply=text("ok")),
    "stop while the calls are stored": in_a_commit("stop", "call_started", [NOT_STARTED, NOT_STARTED]),
    "stop while the responses are stored": in_a_commit("stop", responding, ["a", "b"], "ab"),
    "stop in the model": in_the_model(PARALLEL, "stop", RunStatus.COMPLETED, "ld"),
    "stop in the first of two": End("ab", ONE_BY_ONE, stopped, RunStatus.STOPPED, ["a", NOT_STARTED]),
    "deadline in a tool": End("ab", IN_TIME, late, RunStatus.EXPIRED, [UNKNOWN, NOT_STARTED]),
    "time-out of a tool": End("a", TOOLS_IN_TIME, late, RunStatus.COMPLETED, [UNKNOWN]),
    "unknown tool": End(
        calls(("nothing", {}), ("a", {})), PARALLEL, left_alone, RunStatus.COMPLETED, ["error", "a"]
    ),
    "call limit": End("ab", ONE_CALL, left_alone, RunStatus.FAILED, ["a", "b"]),
    "failing model": End(error("service", "broken"), PARALLEL, left_alone, RunStatus.FAILED, []),
}


@pytest.mark.scenario("B1", "B4", "B6", "F5", "F6")
@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("name", ENDS)
def test_the_next_request_is_legal_and_says_what_became_of_each_call(name: str, restart: bool) -> None:
    reply, config, end, status, told = ENDS[name]
    with closing(Desk(reply, config)) as desk:
        end(desk)
        assert desk.go_on(restart=restart or name in CLOSING) == told
        assert desk.run.result(PATIENCE).status is status
        assert max(desk.begun().values()) <= 1
        if status is not RunStatus.COMPLETED:
            assert "Hello" not in str(desk.model.requests[-1].contents)
