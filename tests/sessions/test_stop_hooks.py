"""Whoever closes finds, when the call returns, that every stop hook has run to its end."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest

from apps import app_with
from intermission import Actor, ActorRef, ActorSystem, Runner
from intermission.testing import Gate, ScriptedModel
from intermission_storage import MemoryEventLog
from loops import PATIENCE

Way = Callable[[Runner, ActorRef["Stopping"]], object]


class Stopping(Actor):
    """Its stop hook waits at a gate, then notes that it has run."""

    def __init__(self, gate: Gate, done: list[str]) -> None:
        super().__init__()
        self.gate = gate
        self.done = done

    def on_stop(self) -> None:
        """See `Actor`."""
        self.gate.wait()
        self.done.append("stopped")


def leave(closes: Runner | ActorSystem) -> None:
    """Leave the block of something that closes itself there."""
    with closes:
        pass


async def aleave(runner: Runner) -> None:
    """As `leave`, on an event loop."""
    async with runner:
        pass


def twice(runner: Runner) -> None:
    """Close while somebody else does."""
    other = threading.Thread(target=runner.close)
    other.start()
    runner.close()
    other.join(PATIENCE)


WAYS: dict[str, Way] = {
    "Runner.close": lambda runner, _: runner.close(),
    "Runner.close with no grace": lambda runner, _: runner.close(0),
    "two at once": lambda runner, _: twice(runner),
    "with Runner": lambda runner, _: leave(runner),
    "Runner.aclose": lambda runner, _: asyncio.run(runner.aclose()),
    "async with Runner": lambda runner, _: asyncio.run(aleave(runner)),
    "ActorSystem.close": lambda runner, _: runner.system.close(),
    "with ActorSystem": lambda runner, _: leave(runner.system),
    "ActorRef.stop": lambda _, ref: ref.stop(),
}


@pytest.mark.scenario("D11")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_close_returns_when_the_stop_hooks_are_done(way: Way) -> None:
    gate, done, seen = Gate(), list[str](), list[list[str]]()
    runner = Runner(app_with(ScriptedModel()), log=MemoryEventLog())
    ref = runner.system.start(Stopping, gate, done)

    def close() -> None:
        way(runner, ref)
        seen.append(list(done))

    closer = threading.Thread(target=close)
    closer.start()
    gate.arrived()
    closer.join(0.3)  # long enough for one that does not wait, or not for long
    assert seen == []
    gate.open()
    closer.join(PATIENCE)
    runner.close()
    assert seen == [["stopped"]]


@pytest.mark.scenario("D11")
def test_a_signal_that_closes_goes_its_way_when_the_stop_hooks_are_done() -> None:
    gate, done, seen, came = Gate(), list[str](), list[list[str]](), threading.Event()

    def handle(*_: object) -> None:
        seen.append(list(done))
        came.set()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        runner = Runner(app_with(ScriptedModel()), log=MemoryEventLog())
        runner.system.start(Stopping, gate, done)
        runner.close_on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        gate.arrived()
        assert seen == []
        gate.open()
        # Python calls a handler between two steps of the main thread, and not while that waits for a lock.
        assert any(came.wait(0.1) for _ in range(int(PATIENCE / 0.1)))
    finally:
        signal.signal(signal.SIGTERM, before)
    runner.close()
    assert seen == [["stopped"]]
