"""Actors of the program that wait for runs, sessions or the runner's end: they hold up nobody else."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from apps import KEY, Key, app_with
from intermission import Actor, Run, Runner, RunStatus
from intermission.testing import FaultyLog, Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

OTHER = Key(user_id="u", session_id="other")


class Calling(Actor):
    """Calls what it is told, and answers what that returns."""

    def on_receive(self, message: Callable[[], Any]) -> Any:
        """See `Actor.on_receive`."""
        return message()


WAYS: dict[str, Callable[[Run], object]] = {
    "result": lambda run: run.result(PATIENCE),
    "iterating": lambda run: [event.text for event in run],
    "wait_terminated": lambda run: run.wait_terminated(PATIENCE),
    "cancel": lambda run: run.cancel(wait=True, timeout=PATIENCE),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_while_an_actor_waits_for_a_run_the_other_actors_and_the_sessions_go_on(way: str) -> None:
    gate = Gate()
    model = ScriptedModel(text(gate, "one"), default="ok")
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        waiting, other = runner.system.start(Calling), runner.system.start(Calling)
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        reply = waiting.ask(lambda: WAYS[way](run), block=False)
        assert other.ask(lambda: "here", PATIENCE) == "here"
        assert runner.run(**OTHER, message="b").result(PATIENCE).status is RunStatus.COMPLETED
        gate.open()
        reply.get(timeout=PATIENCE)


def test_while_an_actor_starts_a_run_that_is_not_stored_yet_the_other_actors_go_on() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        gate = log.hold("event")
        starting, other = runner.system.start(Calling), runner.system.start(Calling)
        reply = starting.ask(lambda: runner.run(**KEY, message="a").start(), block=False)
        gate.arrived()
        assert other.ask(lambda: "here", PATIENCE) == "here"
        gate.open()
        assert reply.get(timeout=PATIENCE).answer(PATIENCE) == "ok"


def test_while_an_actor_changes_a_session_that_is_slow_to_be_stored_the_other_actors_go_on() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        runner.sessions.create(**KEY)
        gate = log.hold("state_set")
        changing, other = runner.system.start(Calling), runner.system.start(Calling)
        reply = changing.ask(lambda: runner.sessions.set_state(**KEY, delta={"a": 1}), block=False)
        gate.arrived()
        assert other.ask(lambda: "here", PATIENCE) == "here"
        gate.open()
        reply.get(timeout=PATIENCE)


def test_an_actor_that_waits_for_a_run_does_not_keep_its_runner_from_closing() -> None:
    gate, statuses = Gate(), list[RunStatus]()
    runner = Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog())
    waiting = runner.system.start(Calling)
    waiting.tell(lambda: statuses.append(runner.run(**KEY, message="a").result(PATIENCE).status))
    gate.arrived()
    runner.close(grace=0)
    gate.open()
    assert statuses == [RunStatus.CANCELLED]


def test_an_actor_may_close_its_runner_and_goes_on_then() -> None:
    gate = Gate()
    runner = Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog())
    run = runner.run(**KEY, message="a").start()
    gate.arrived()
    closing = runner.system.start(Calling)
    assert closing.ask(lambda: runner.close(grace=0), PATIENCE) is None
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    gate.open()


def test_an_actor_that_closes_its_runner_while_another_closes_it_returns_at_once() -> None:
    gate, asked, closed = Gate(), Gate(), threading.Event()

    def late() -> None:
        gate.wait()
        runner.close()
        closed.set()

    model = ScriptedModel(text(asked, "one"))
    runner = Runner(app_with(model), log=MemoryEventLog())
    runner.system.start(Calling).tell(late)
    gate.arrived()
    runner.run(**KEY, message="a").start()
    closer = threading.Thread(target=runner.close, args=(PATIENCE,))
    closer.start()
    while not runner._directory._closed:  # pyright: ignore[reportPrivateUsage] - the closer is inside then
        closer.join(0.001)
    gate.open()
    assert closed.wait(PATIENCE)
    runner.cancel(**KEY)
    asked.open()
    closer.join(PATIENCE)
    assert not closer.is_alive()
