"""Where hooks run, what they hold up, and what a cancel does to them."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apps import KEY, Key, kinds
from hooks import BOTH_KINDS, app_plugged, doing, plugin
from intermission import App, CancelScope, LlmAgent, RunConfig, Runner, RunResult, RunStatus
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog
from races import Raced, at_once, check, check_usable
from scale import rounds

ROUNDS = rounds(50, 500)

IN_A_RUN = (
    "on_user_message_callback",
    "before_run_callback",
    "on_event_callback",
    "after_run_callback",
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
)
"""The hooks that a run waits for."""


def app(hook: str, function: Callable[..., Any], kind: str = "plain") -> App:
    """An app with one hook, whose model says "ok"."""
    agent = LlmAgent("agent", ScriptedModel(default=text("o", "k")))
    return app_plugged(agent, plugin("plugin", kind, **{hook: function}))


@pytest.mark.parametrize("hook", [*IN_A_RUN, "on_run_end"])
def test_a_plain_hook_runs_on_a_worker_and_an_async_one_on_the_loop(hook: str) -> None:
    threads: list[str] = []
    done = threading.Event()

    def where(*_: Any, **__: Any) -> None:
        threads.append(threading.current_thread().name)
        done.set()

    for kind in ("plain", "async"):
        done.clear()
        with Runner(app(hook, where, kind), log=MemoryEventLog()) as runner:
            assert runner.run(**KEY, message="hi").answer() == "ok"
            assert done.wait(30)
    # A worker that is in a call of a run is called by its session.
    assert threads[0].startswith("intermission-worker-" if hook == "on_run_end" else "intermission-run-")
    assert "loop" in threads[-1]


@pytest.mark.scenario("J4")
@pytest.mark.parametrize("hook", [*IN_A_RUN, "on_run_end"])
def test_a_hook_that_blocks_holds_up_no_other_session(hook: str) -> None:
    gate, mine = Gate(), threading.Event()

    def block(*_: Any, **__: Any) -> None:
        if not mine.is_set():
            mine.set()
            gate.wait()

    with Runner(app(hook, block), log=MemoryEventLog()) as runner:
        held = runner.run(**KEY, message="hi")
        held.begin()
        gate.arrived()
        others = [runner.run(user_id="u", session_id=f"other {number}", message="hi") for number in range(20)]
        began = time.monotonic()
        for run in others:
            run.begin()
        assert [run.answer(30) for run in others] == ["ok"] * 20
        took = time.monotonic() - began
        gate.open()
        assert held.answer(30) == "ok"
    assert took < 10  # it is far below a second on a machine at rest


async def _awaited(context: Any, begun: threading.Event, ended: threading.Event) -> None:
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


@BOTH_KINDS
@pytest.mark.parametrize("hook", IN_A_RUN)
def test_a_cancel_ends_the_run_at_once_and_reaches_the_hook(hook: str, kind: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def wait(*_: Any, **keywords: Any) -> Any:
        if kind == "async":
            return _awaited(keywords, begun, ended)
        scope = CancelScope.current()
        assert scope is not None
        begun.set()
        try:
            scope.sleep(60)
        finally:
            ended.set()

    log = MemoryEventLog()
    with Runner(app(hook, wait), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        run.begin()
        assert begun.wait(30)
        assert run.cancel("enough").accepted
        assert run.result(30).status is RunStatus.CANCELLED
        assert ended.wait(30)
        assert run.wait_terminated(30)
    assert kinds(log)[-2:] == ["cancel_requested", "run_ended"]


@pytest.mark.parametrize("hook", IN_A_RUN)
def test_a_hook_that_does_not_heed_the_cancel_is_residual_work_until_it_returns(hook: str) -> None:
    gate = Gate()
    with Runner(app(hook, doing(gate.wait)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.begin()
        gate.arrived()
        run.cancel("enough")
        assert run.result(30).status is RunStatus.CANCELLED
        assert not run.wait_terminated(0)
        (work,) = [one for one in runner.residual() if one.what == "callback"]
        assert (work.invocation_id, "hook" in work.name) == (run.invocation_id, True)
        gate.open()
        assert run.wait_terminated(30)
        assert runner.residual() == []


@BOTH_KINDS
@pytest.mark.parametrize("hook", IN_A_RUN)
def test_a_cancel_that_meets_a_hook_has_one_outcome(hook: str, kind: str) -> None:
    log = MemoryEventLog()
    reached: list[threading.Event] = []

    def reach(*_: Any, **__: Any) -> None:
        reached[-1].set()

    made = app(hook, reach, kind)
    with Runner(made, log=log, config=RunConfig(streaming=True)) as runner:
        for number in range(ROUNDS // 5 + 1):
            key: Key = {"user_id": "u", "session_id": "s"}
            reached.append(threading.Event())
            one, there = Raced(runner.run(**key, message="hi")), reached[-1]

            def cancel(one: Raced = one, there: threading.Event = there, wait: bool = number % 3 > 0) -> None:
                assert not wait or there.wait(30)
                one.cancel()

            at_once(one.consume, cancel)
            check(log, one)
        reached.append(threading.Event())
        check_usable(runner)


def tell(told: list[str], _: Any, result: RunResult) -> None:
    told.append(result.status)


def test_a_cancel_that_meets_the_close_and_the_hook_of_the_end_leaves_no_end_untold() -> None:
    for _ in range(ROUNDS // 5 + 1):
        log, told = MemoryEventLog(), list[str]()
        made = app_plugged(
            LlmAgent("agent", ScriptedModel(default="ok")),
            plugin(on_run_end=partial(tell, told)),
        )
        runner = Runner(made, log=log)
        one = Raced(runner.run(**KEY, message="hi"))
        at_once(one.consume, one.cancel, runner.close)
        runner.close()
        ends = kinds(log).count("run_ended")
        assert ends == kinds(log).count("run_started") == len(told) == kinds(log).count("run_end_delivered")
