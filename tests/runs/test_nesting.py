"""Runs inside the calls of runs: those that may be waited for, and those that never would end."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from apps import KEY, Key, app_with, runs_in_order
from async_gates import AsyncGate
from intermission import Run, Runner, RunStatus
from intermission.kernel.waits import ReentrantRunError
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

OTHER = Key(user_id="u", session_id="other")


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def iterate(run: Run) -> str:
    """Wait for a run in a loop."""
    return "".join(event.text for event in run)


def block(run: Run) -> str:
    """Wait for a run in a block."""
    with run:
        return run.answer(PATIENCE)


def on_a_loop(run: Run) -> str:
    """Wait for a run on an event loop."""
    return asyncio.run(run.aanswer(PATIENCE))


def iterate_on_a_loop(run: Run) -> str:
    """Wait for a run in a loop of a task."""

    async def collect() -> str:
        return "".join([event.text async for event in run])

    return asyncio.run(collect())


WAYS = pytest.mark.parametrize("wait", [Run.answer, iterate, block, on_a_loop, iterate_on_a_loop])


@WAYS
def test_a_tool_may_run_another_session_and_wait_for_it(wait: Callable[[Run], str]) -> None:
    answers, log = list[str](), MemoryEventLog()

    def nest() -> str:
        answers.append(wait(runner.run(**OTHER, message="inner")))
        return answers[0]

    model = ScriptedModel(calls(("nest", {})), "inner", "outer")
    with Runner(app_with(model, nest), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "outer"
    assert answers == ["inner"]


@WAYS
def test_a_tool_that_would_wait_for_its_own_session_is_refused_and_nothing_is_begun(
    wait: Callable[[Run], str],
) -> None:
    errors, log = list[str](), MemoryEventLog()

    def nest() -> str:
        with pytest.raises(ReentrantRunError) as caught:
            wait(runner.run(**KEY, message="inner"))
        errors.append(str(caught.value))
        return "refused"

    model = ScriptedModel(calls(("nest", {})), default="ok")
    with Runner(app_with(model, nest), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
        assert len(errors) == 1
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert len(runs_in_order(log)) == 2


@WAYS
def test_a_circle_of_two_sessions_is_refused_where_it_would_close(wait: Callable[[Run], str]) -> None:
    errors, log = list[str](), MemoryEventLog()

    def nest(session: str) -> str:
        try:
            return wait(runner.run(user_id="u", session_id=session, message="inner"))
        except ReentrantRunError as error:
            errors.append(str(error))
            return "refused"

    model = ScriptedModel(
        calls(("nest", {"session": "other"})), calls(("nest", {"session": "s"})), default="ok"
    )
    with Runner(app_with(model, nest), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    assert len(errors) == 1
    assert len(runs_in_order(log)) == 1


def test_an_async_tool_that_would_wait_for_its_own_session_is_refused() -> None:
    errors = list[ReentrantRunError]()

    async def nest() -> str:
        try:
            return await runner.run(**KEY, message="inner").aanswer()
        except ReentrantRunError as error:
            errors.append(error)
        return await runner.run(**OTHER, message="inner").aanswer()

    model = ScriptedModel(calls(("nest", {})), default="ok")
    with Runner(app_with(model, nest), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
        assert runner.run(**OTHER, message="next").answer(PATIENCE) == "ok"
    assert len(errors) == 1


@WAYS
def test_a_run_in_a_call_is_cancelled_with_the_outer_run(wait: Callable[[Run], str], gate: Gate) -> None:
    inner = list[Run]()

    def nest() -> str:
        inner.append(runner.run(**OTHER, message="inner"))
        return wait(inner[0])

    model = ScriptedModel(calls(("nest", {})), text(gate, "inner"), default="ok")
    with Runner(app_with(model, nest), log=MemoryEventLog()) as runner:
        outer = runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert outer.cancel("enough").accepted
        assert inner[0].result(PATIENCE).status is RunStatus.CANCELLED
        assert outer.result(PATIENCE).status is RunStatus.CANCELLED
        gate.open()
        assert outer.wait_terminated(PATIENCE)
        for key in (KEY, OTHER):
            assert runner.run(**key, message="next").answer(PATIENCE) == "ok"


def test_to_wait_in_a_call_for_the_end_of_its_own_run_is_refused_but_the_cancel_stands() -> None:
    errors, own = list[ReentrantRunError](), list[Run]()

    def nest() -> str:
        try:
            own[0].cancel("enough", wait=True)
        except ReentrantRunError as error:
            errors.append(error)
        return "done"

    model = ScriptedModel(calls(("nest", {})), default="ok")
    with Runner(app_with(model, nest), log=MemoryEventLog()) as runner:
        own.append(runner.run(**KEY, message="hi"))
        assert own[0].result(PATIENCE).status is RunStatus.CANCELLED
        assert own[0].wait_terminated(PATIENCE)
        assert own[0].result(0).reason == "enough"
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert len(errors) == 1


def test_what_a_call_leaves_running_is_in_no_call_once_that_is_over() -> None:
    gate, tasks, texts = AsyncGate(), list[asyncio.Task[None]](), list[str]()
    done = threading.Event()

    async def later() -> None:
        await gate.wait()
        texts.append(await runner.run(**KEY, message="later").aanswer())
        done.set()

    async def remind() -> str:
        tasks.append(asyncio.create_task(later()))
        return "I will"

    model = ScriptedModel(calls(("remind", {})), "I will", "now")
    with Runner(app_with(model, remind), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "I will"
        gate.open()
        assert done.wait(PATIENCE)
    assert texts == ["now"]


def test_a_call_that_outlives_its_run_may_wait_for_its_session_but_its_new_runs_are_cancelled(
    gate: Gate,
) -> None:
    statuses, done = list[RunStatus](), threading.Event()

    def tool() -> str:
        gate.wait()
        statuses.append(runner.run(**KEY, message="of the call").result(PATIENCE).status)
        statuses.append(runner.run(**KEY, message="detached").start().result(PATIENCE).status)
        done.set()
        return "done"

    model = ScriptedModel(calls(("tool", {})), default="now")
    with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
        outer = runner.run(**KEY, message="hi").start()
        gate.arrived()
        outer.cancel()
        assert outer.result(PATIENCE).status is RunStatus.CANCELLED
        gate.open()
        assert done.wait(PATIENCE)
        assert outer.wait_terminated(PATIENCE)
    assert statuses == [RunStatus.CANCELLED, RunStatus.COMPLETED]


def test_a_run_may_wait_for_one_of_another_runner_whose_session_has_the_same_name() -> None:
    with Runner(app_with(ScriptedModel(text("inner"))), log=MemoryEventLog()) as other:

        def ask() -> str:
            return other.run(**KEY, message="hi").answer(30)

        model = ScriptedModel(calls(("ask", {})), text("outer"))
        with Runner(app_with(model, ask), log=MemoryEventLog()) as runner:
            assert runner.run(**KEY, message="hi").answer(30) == "outer"

    response = model.requests[1].contents[-1].parts[0].function_response
    assert response is not None
    assert response.response == {"result": "inner"}
