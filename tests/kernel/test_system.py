import gc
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from intermission.kernel.actor import Actor
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.ref import ActorDeadError, ActorRef, SystemClosedError
from intermission.kernel.system import ActorSystem
from intermission.testing.sync import PATIENCE, Gate


@pytest.fixture
def notes() -> list[str]:
    return []


class Noted(Actor):
    """Notes its end; waits at gates, starts children, calls what it is told to call."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self.name, self.notes = name, notes

    def on_stop(self) -> None:
        self.notes.append(self.name)

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Gate):
            message.wait()
        elif isinstance(message, str):
            return self.system.start(Noted, message, self.notes)
        else:
            message()
        return None


def test_closing_stops_every_actor_and_their_on_stop_has_run(notes: list[str]) -> None:
    system = ActorSystem()
    refs = [system.start(Noted, str(number), notes) for number in range(1000)]
    system.close()
    assert sorted(notes, key=int) == [str(number) for number in range(1000)]
    assert not any(ref.is_alive() for ref in refs)


def test_children_stop_before_those_who_started_them(notes: list[str]) -> None:
    with ActorSystem(dispatcher=Dispatcher(threads=2)) as system:
        for family in "abc":
            parent: ActorRef[Any] = system.start(Noted, f"{family}0", notes)
            for generation in range(1, 4):
                parent = parent.ask(f"{family}{generation}")
    assert [name[1] for name in notes] == list("333222111000")


def test_closing_lets_the_message_in_hand_end_and_answers_what_waits_behind_it(notes: list[str]) -> None:
    system = ActorSystem()
    ref = system.start(Noted, "it", notes)
    gate = Gate()
    in_hand = ref.ask(gate, block=False)
    gate.arrived()
    waiting = [ref.ask("child", block=False) for _ in range(100)]
    closing = threading.Thread(target=system.close)
    closing.start()
    gate.open()
    closing.join(PATIENCE)
    assert in_hand.get(timeout=0) is None
    # Some of them may have been handled before the thread closed.
    for future in waiting:
        with suppress(ActorDeadError, SystemClosedError):
            future.get(timeout=0)
    assert not ref.is_alive()
    assert "it" in notes


def test_a_closed_system_starts_nobody_and_may_be_closed_again() -> None:
    system = ActorSystem()
    system.close()
    system.close()
    with pytest.raises(SystemClosedError, match="Noted was not started"):
        system.start(Noted, "late", [])


def test_a_constructor_during_which_the_system_closes_makes_no_actor() -> None:
    given: list[ActorRef[Any]] = []

    class Closing(Actor):
        def __init__(self) -> None:
            super().__init__()
            given.append(self.actor_ref)
            self.system.close()

    system = ActorSystem()
    with pytest.raises(SystemClosedError):
        system.start(Closing)
    with pytest.raises(ActorDeadError):
        given[0].tell("x")


def test_an_actor_may_close_its_system_and_stops_when_its_handler_returns(notes: list[str]) -> None:
    system = ActorSystem()
    others = [system.start(Noted, f"other{number}", notes) for number in range(3)]
    caller = system.start(Noted, "caller", notes)

    def close() -> None:
        system.close()
        notes.append("closed")

    caller.ask(close)
    for thread in [thread for thread in threading.enumerate() if "intermission-actors" in thread.name]:
        thread.join(PATIENCE)
    assert notes[:3] == ["other2", "other1", "other0"]
    assert notes[3:] == ["closed", "caller"]
    assert not any(ref.is_alive() for ref in (*others, caller))


def test_an_actor_that_is_asked_by_another_may_close_the_system_of_both(
    notes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Asks(Noted):
        def on_receive(self, message: Any) -> Any:
            return message.ask(self.system.close)

    system = ActorSystem()
    asked = system.start(Noted, "asked", notes)
    assert system.start(Asks, "asks", notes).ask(asked) is None
    for thread in [thread for thread in threading.enumerate() if "intermission-actors" in thread.name]:
        thread.join(PATIENCE)
    assert sorted(notes) == ["asked", "asks"]
    assert "still busy" not in caplog.text


def test_an_actor_that_does_not_come_back_holds_up_closing_no_longer_than_told(
    notes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    system = ActorSystem(dispatcher=Dispatcher(threads=1))
    stuck, other = system.start(Noted, "stuck", notes), system.start(Noted, "other", notes)
    gate = Gate()
    stuck.tell(gate)
    gate.arrived()
    behind = stuck.ask("child", block=False)
    system.close(timeout=0.5)
    assert notes == ["other"]
    assert not other.is_alive()
    assert "still busy when their system was closed: Noted" in caplog.text
    gate.open()
    with pytest.raises(ActorDeadError):
        behind.get(timeout=PATIENCE)
    for thread in [thread for thread in threading.enumerate() if "intermission-actors" in thread.name]:
        thread.join(PATIENCE)
    assert notes == ["other", "stuck"]


def test_others_stop_though_all_threads_are_held(notes: list[str]) -> None:
    system = ActorSystem(dispatcher=Dispatcher(threads=1))
    stuck = system.start(Noted, "stuck", notes)
    others = [system.start(Noted, f"{number}", notes) for number in range(20)]
    gate, end = Gate(), threading.Event()
    stuck.tell(gate)
    gate.arrived()

    class Last(Noted):
        def on_stop(self) -> None:
            super().on_stop()
            gate.open()
            end.set()

    system.start(Last, "last", notes)
    system.close()
    assert end.is_set()
    assert not any(ref.is_alive() for ref in (stuck, *others))


def test_two_who_close_at_the_same_time_both_return_when_all_is_closed(notes: list[str]) -> None:
    system = ActorSystem()
    for number in range(100):
        system.start(Noted, str(number), notes)
    start = threading.Barrier(4)
    seen: list[int] = []

    def close() -> None:
        start.wait(PATIENCE)
        system.close()
        seen.append(len(notes))

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == [100] * 4


def test_actors_that_are_started_while_the_system_closes_are_stopped_or_refused(notes: list[str]) -> None:
    for _ in range(20):
        notes.clear()
        system = ActorSystem()
        start = threading.Barrier(3)
        started: list[ActorRef[Any]] = []

        def begin(
            system: ActorSystem = system,
            start: threading.Barrier = start,
            started: list[ActorRef[Any]] = started,
        ) -> None:
            start.wait(PATIENCE)
            try:
                for number in range(1000):
                    started.append(system.start(Noted, str(number), notes))
            except SystemClosedError:
                pass

        threads = [threading.Thread(target=begin) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait(PATIENCE)
        system.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(ref.is_alive() for ref in started)
        assert len(notes) == len(started)


def test_a_hook_that_tells_somebody_who_has_stopped_is_no_reason_to_hang(notes: list[str]) -> None:
    class Talks(Noted):
        def on_stop(self) -> None:
            super().on_stop()
            for peer in peers:
                peer.tell("bye")

    peers: list[ActorRef[Any]] = []
    with ActorSystem() as system:
        peers += [system.start(Talks, str(number), notes) for number in range(10)]
    assert len(notes) == 10


def test_actors_that_never_stop_talking_to_each_other_are_stopped(notes: list[str]) -> None:
    class Talks(Noted):
        def on_receive(self, message: ActorRef[Any]) -> None:
            message.tell(self.actor_ref)

    with ActorSystem() as system:
        one, other = system.start(Talks, "one", notes), system.start(Talks, "other", notes)
        one.tell(other)
    assert sorted(notes) == ["one", "other"]


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    dispatcher = Dispatcher(threads=1)
    yield dispatcher
    dispatcher.close()


def test_live_actors_of_a_dispatcher_that_somebody_else_closed_are_stopped(
    dispatcher: Dispatcher, notes: list[str]
) -> None:
    system = ActorSystem(dispatcher=dispatcher)
    ref = system.start(Noted, "it", notes)
    ref.ask(lambda: None)
    dispatcher.close()
    with pytest.raises(ActorDeadError):
        ref.ask(lambda: None)
    assert notes == ["it"]
    system.close()


def test_a_stopped_actor_leaves_nothing_in_the_system() -> None:
    with ActorSystem() as system:
        for _ in range(10):
            system.start(Noted, "x", []).stop()
        system.start(Noted, "x", []).ask(lambda: None)
        gc.collect()
        cells = [one for one in gc.get_objects() if type(one).__name__ == "Cell" and one.system is system]
        assert len(cells) == 1
