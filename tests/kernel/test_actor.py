import threading
from typing import Any

import pykka
import pytest

from intermission.kernel.actor import Actor, ActorCrashError


class Recorder(Actor):
    """Answers with its thread; raises what it is told to raise."""

    def on_receive(self, message: object) -> threading.Thread:
        if isinstance(message, BaseException):
            raise message
        return threading.current_thread()


def test_a_system_exit_in_one_actor_stops_no_other() -> None:
    crashing, neighbour = Recorder.start(), Recorder.start()
    with pytest.raises(ActorCrashError) as caught:
        crashing.ask(SystemExit(3), timeout=30)

    assert isinstance(caught.value.__cause__, SystemExit)
    assert neighbour.is_alive()
    crashing.stop()
    neighbour.stop()


def test_an_actor_runs_on_a_daemon_thread() -> None:
    actor = Recorder.start()
    thread: Any = actor.ask("who?", timeout=30)
    assert thread.daemon
    actor.stop()


def test_messages_of_one_sender_are_handled_in_their_order() -> None:
    seen: list[object] = []

    class Collector(Actor):
        def on_receive(self, message: object) -> None:
            seen.append(message)

    actor = Collector.start()
    for number in range(1000):
        actor.tell(number)
    actor.stop()

    assert seen == list(range(1000))


def test_the_pykka_hooks_that_the_actor_base_overrides_are_there() -> None:
    assert callable(pykka.ThreadingActor._handle_receive)  # pyright: ignore[reportPrivateUsage] - this is the point
    assert pykka.ThreadingActor.use_daemon_thread is False
