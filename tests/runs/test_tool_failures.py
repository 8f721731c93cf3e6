"""What the failure of a tool does to its run and to the other calls of its turn."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from apps import KEY, app_with, kinds, records
from async_gates import AsyncGate
from intermission import RunConfig, Runner, RunStatus, ToolContext, ToolFailedError
from intermission.config import OnToolFailure, ToolExecution
from intermission.kernel.actor import ActorCrashError
from intermission.runs.calls import Blocking
from intermission.runs.result import RunResult
from intermission.runs.together import Together
from intermission.testing import Gate, ScriptedModel, calls
from intermission.tools import ToolArgumentError
from intermission_storage import Kind, MemoryEventLog
from pools import until
from turns import PATIENCE, answers, assert_legal, responses

FAILED = {"status": "error", "message": "The tool failed.", "outcome": "finished"}
NOT_RUN = {
    "status": "not_run",
    "outcome": "not_started",
    "message": "not run: another call of its turn failed",
}
MODES = list(dict.fromkeys(ToolExecution))
POLICIES = list(OnToolFailure)


class Turn:
    """`a` returns, `b` raises behind a gate, `c` waits behind another; all on the loop."""

    def __init__(self) -> None:
        self.fails, self.waits = AsyncGate(), AsyncGate()
        self.returned, self.left = threading.Event(), threading.Event()

    async def a(self, tool_context: ToolContext) -> str:
        """Return."""
        tool_context.state["a"] = 1
        self.returned.set()
        return "a"

    async def b(self, tool_context: ToolContext) -> str:
        """Raise."""
        tool_context.state["b"] = 1
        await self.fails.wait()
        raise ValueError("the password is 1234")

    async def c(self) -> str:
        """Wait."""
        try:
            await self.waits.wait()
        finally:
            self.left.set()
        return "c"

    def run(self, config: RunConfig, during: Callable[[], None]) -> tuple[RunResult, ScriptedModel, Any]:
        """Run the three, then another message; return the first one's result, and the session's state."""
        model = ScriptedModel(calls(("a", {}), ("b", {}), ("c", {})), "again")
        with Runner(app_with(model, self.a, self.b, self.c), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hi", config=config).start()
            self.fails.arrived()
            during()
            result = run.result(PATIENCE)
            assert run.wait_terminated(PATIENCE)
            assert runner.residual() == []
            session = runner.sessions.get(**KEY)
            assert session is not None
            assert runner.run(**KEY, message="again").answer(PATIENCE) == "again"
        assert_legal(model.requests[-1])
        assert responses(model) == answers(result)
        return result, model, session.state


@pytest.mark.scenario("A13")
@pytest.mark.parametrize("mode", [ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE])
def test_the_failure_of_one_cancels_those_under_way_and_keeps_those_that_have_ended(
    mode: ToolExecution,
) -> None:
    turn = Turn()

    def during() -> None:
        turn.waits.arrived()
        assert turn.returned.wait(PATIENCE)
        turn.fails.open()

    result, _, state = turn.run(RunConfig(tool_execution=mode), during)

    assert turn.left.is_set()
    assert result.status is RunStatus.FAILED
    first, second, third = answers(result)
    assert (first, second) == ({"result": "a"}, FAILED)
    assert (third["status"], third["outcome"]) == ("stopped", "unknown")
    assert "another call of its turn failed" in third["message"]
    assert state == {"a": 1}


@pytest.mark.scenario("A13")
@pytest.mark.parametrize("mode", [ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE])
def test_the_failure_of_one_may_wait_for_those_under_way(mode: ToolExecution) -> None:
    turn = Turn()

    def during() -> None:
        turn.waits.arrived()
        turn.fails.open()
        turn.waits.open()

    result, _, _ = turn.run(RunConfig(tool_execution=mode, on_tool_failure="await_siblings"), during)

    assert result.status is RunStatus.FAILED
    assert answers(result) == [{"result": "a"}, FAILED, {"result": "c"}]


@pytest.mark.scenario("A13")
@pytest.mark.parametrize("policy", POLICIES)
def test_what_has_not_begun_when_one_fails_does_not_begin(policy: OnToolFailure) -> None:
    turn = Turn()
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL, on_tool_failure=policy)
    result, _, _ = turn.run(config, turn.fails.open)

    assert answers(result) == [{"result": "a"}, FAILED, NOT_RUN]
    assert not turn.left.is_set()


@pytest.mark.scenario("A13")
@pytest.mark.parametrize("policy", POLICIES)
def test_blocking_calls_behind_one_that_is_under_way_when_another_fails_do_not_begin(
    policy: OnToolFailure,
) -> None:
    gate, fails, begun, log = Gate(), AsyncGate(), list[str](), MemoryEventLog()

    def block(name: str) -> str:
        begun.append(name)
        gate.wait()
        return name

    async def fail() -> None:
        await fails.wait()
        raise ValueError("no")

    model = ScriptedModel(calls(("block", {"name": "a"}), ("fail", {}), ("block", {"name": "b"})))
    with Runner(app_with(model, block, fail), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(on_tool_failure=policy)).start()
        gate.arrived()
        fails.open()
        if policy is OnToolFailure.AWAIT_SIBLINGS:
            until(lambda: Kind.CALL_FINISHED in kinds(log))
            gate.open()
        result = run.result(PATIENCE)
        gate.open()
        assert run.wait_terminated(PATIENCE)

    first, second, third = answers(result)
    assert (second, third, begun) == (FAILED, NOT_RUN, ["a"])
    assert (first == {"result": "a"}) is (policy is OnToolFailure.AWAIT_SIBLINGS)
    assert (first.get("status") == "stopped") is (policy is OnToolFailure.CANCEL_SIBLINGS)


@pytest.mark.scenario("A13")
def test_a_call_that_begins_at_the_moment_of_the_failure_is_given_up_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submitting, waiting, fails, log = Gate(), Gate(), AsyncGate(), MemoryEventLog()
    submit = Together.submit

    def late(self: Together, index: int, blocking: Blocking) -> None:
        submitting.wait()
        submit(self, index, blocking)

    def block() -> None:
        waiting.wait()

    async def fail() -> None:
        await fails.wait()
        raise ValueError("no")

    monkeypatch.setattr(Together, "submit", late)
    config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    model = ScriptedModel(calls(("fail", {}), ("block", {})))
    with Runner(app_with(model, fail, block), log=log, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        submitting.arrived()
        fails.open()
        until(lambda: Kind.CALL_FINISHED in kinds(log))
        submitting.open()
        result = run.result(PATIENCE)
        waiting.open()
        assert run.wait_terminated(PATIENCE)

    first, second = answers(result)
    assert (first, second["status"]) == (FAILED, "stopped")


def test_the_error_of_the_run_names_the_tool_and_its_cause_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise ValueError("the password is 1234")

    model = ScriptedModel(calls(("fail", {})))
    log = MemoryEventLog()
    with caplog.at_level(logging.ERROR, "intermission"), Runner(app_with(model, fail), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(ToolFailedError, match="async tool 'fail' failed: ValueError") as raised:
            run.answer(PATIENCE)
        (call,) = [call for event in run.result().events for call in event.function_calls]

    assert (raised.value.tool, raised.value.call_id) == ("fail", call.id)
    assert isinstance(raised.value.__cause__, ValueError)
    assert answers(run.result()) == [FAILED]
    (logged,) = [one for one in caplog.records if one.name.startswith("intermission.runs.tool")]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is raised.value.__cause__


def test_the_responses_are_stored_before_the_end_of_the_run_and_once() -> None:
    async def fail() -> None:
        raise ValueError("no")

    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(calls(("fail", {}), ("fail", {}))), fail), log=log) as runner:
        runner.run(**KEY, message="hi").result(PATIENCE)

    found = [record.kind for record in records(log)]
    assert [record.data.get("author") for record in records(log)][-2:] == ["agent", None]
    assert found[-2:] == [Kind.EVENT, Kind.RUN_ENDED]
    assert found.count(Kind.CALL_FINISHED) == 2
    assert found.count(Kind.EVENT) == 3


@pytest.mark.parametrize("how", ["future", "coroutine"])
def test_the_error_of_a_future_or_a_coroutine_that_a_plain_function_returns_fails_the_run(how: str) -> None:
    async def fail_later() -> None:
        raise ValueError("no")

    def fail() -> Any:
        if how == "coroutine":
            return fail_later()
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        future.set_exception(ValueError("no"))
        return future

    app = app_with(ScriptedModel(calls(("fail", {}))), fail)
    with (
        Runner(app, log=MemoryEventLog()) as runner,
        pytest.raises(ToolFailedError, match="ValueError: no"),
    ):
        runner.run(**KEY, message="hi").answer(PATIENCE)


def test_wrong_arguments_are_answered_however_the_tool_says_so() -> None:
    async def look(where: str) -> str:
        await asyncio.sleep(0)
        raise ToolArgumentError(f"there is no {where}")

    model = ScriptedModel(calls(("look", {"where": "here"}), ("look", {})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    first, second = responses(model)
    assert first == {"status": "error", "message": "Wrong arguments: there is no here"}
    assert second == {"status": "error", "message": "Wrong arguments: where: Field required"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ('{"where": "here"}', {"result": "here"}),
        ("nonsense", "Wrong arguments: they are of type str; give an object"),
        ("[1]", "Wrong arguments: they are of type list; give an object"),
        ("", "Wrong arguments: where: Field required"),
    ],
)
def test_arguments_may_be_given_as_a_string_of_json(args: Any, told: Any) -> None:
    def look(where: str) -> str:
        return where

    model = ScriptedModel(calls(("look", args)), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    (response,) = responses(model)
    assert told in (response, response.get("message"))


def test_a_tool_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    def look() -> str:
        return "seen"

    async def listen() -> str:
        return "heard"

    model = ScriptedModel(calls(("smell", {}), ("look", {}), ("listen", {})), "done")
    with Runner(app_with(model, look, listen), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    message = "There is no tool named 'smell'. The tools are: look, listen."
    assert responses(model) == [
        {"status": "error", "message": message},
        {"result": "seen"},
        {"result": "heard"},
    ]


@pytest.mark.scenario("A15")
@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_error_of_an_async_tools_own_fails_the_run_and_cancels_nothing(
    mode: ToolExecution,
) -> None:
    async def look() -> str:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        await asyncio.sleep(0)
        inner.cancel()
        await inner
        return "never"

    model = ScriptedModel(calls(("look", {})))
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode))
        with pytest.raises(ToolFailedError, match="async tool 'look' failed: CancelledError"):
            run.answer(PATIENCE)

    assert (run.status, run.cancel_report) == (RunStatus.FAILED, None)


@pytest.mark.scenario("A15")
def test_a_cancelled_error_of_a_plain_tools_own_is_answered_and_cancels_nothing() -> None:
    def look() -> str:
        raise asyncio.CancelledError

    model = ScriptedModel(calls(("look", {})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"status": "error", "message": "The tool failed."}]


@pytest.mark.scenario("A15")
def test_a_cancel_of_a_tool_that_catches_everything_and_loops_returns_in_time() -> None:
    begun, release = threading.Event(), threading.Event()

    async def stubborn() -> str:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.001)
            except BaseException:  # noqa: BLE001 - it is what must do no harm
                continue
        return "ok"

    model = ScriptedModel(calls(("stubborn", {})))
    with Runner(app_with(model, stubborn), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        receipt = run.cancel("enough", wait=True, timeout=0.05)
        assert [work.name for work in receipt.still_running] == ["stubborn"]
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        release.set()
        assert run.wait_terminated(PATIENCE)

    assert [event for event in run.result().events if event.function_responses] == []
    assert len(model.requests) == 1


def test_a_system_exit_of_a_tool_fails_the_run_and_its_call_is_answered() -> None:
    def leave() -> None:
        raise SystemExit(3)

    def look() -> str:
        return "seen"

    model = ScriptedModel(calls(("look", {}), ("leave", {}), ("look", {})), "again")
    with Runner(app_with(model, look, leave), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(ActorCrashError, match="SystemExit: 3"):
            run.answer(PATIENCE)
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "again"

    unknown = {"status": "error", "message": "The tool failed.", "outcome": "unknown"}
    assert answers(run.result()) == [{"result": "seen"}, unknown, NOT_RUN]


def test_a_way_to_treat_the_other_calls_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="'leave_them' is not a valid OnToolFailure"):
        RunConfig(on_tool_failure="leave_them")
