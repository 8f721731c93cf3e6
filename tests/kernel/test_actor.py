import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pykka
import pytest
from pykka import messages

from intermission.kernel.actor import Actor, ActorCrashError, text_of
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.ref import ActorDeadError, ActorRef
from intermission.kernel.system import ActorSystem
from intermission.testing.sync import PATIENCE, Gate


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem() as system:
        yield system


class Recorder(Actor):
    """Answers with its thread; raises what it is told to raise. Notes what it goes through."""

    def __init__(self, notes: list[object] | None = None) -> None:
        super().__init__()
        self.notes: list[object] = [] if notes is None else notes

    def on_start(self) -> None:
        self.notes.append("start")

    def on_receive(self, message: object) -> threading.Thread:
        if isinstance(message, BaseException):
            raise message
        self.notes.append(message)
        return threading.current_thread()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.notes.append((exception_type, exception_value))

    def on_stop(self) -> None:
        self.notes.append("stop")


class TestLife:
    def test_an_actor_starts_handles_messages_in_their_order_and_stops(self, system: ActorSystem) -> None:
        notes: list[object] = []
        ref = system.start(Recorder, notes)
        for number in range(1000):
            ref.tell(number)
        assert ref.stop()
        assert notes == ["start", *range(1000), "stop"]
        assert not ref.is_alive()

    def test_an_actor_starts_without_a_message(self, system: ActorSystem) -> None:
        started = threading.Event()

        class Starter(Actor):
            def on_start(self) -> None:
                started.set()

        system.start(Starter)
        assert started.wait(PATIENCE)

    def test_actors_run_on_the_daemon_threads_of_the_dispatcher(self, system: ActorSystem) -> None:
        threads = {system.start(Recorder).ask("who?") for _ in range(20)}
        assert len(threads) == 1
        assert all(thread.daemon and thread.name.startswith("intermission-actors") for thread in threads)

    def test_one_thread_at_a_time_is_in_an_actor(self) -> None:
        class Counter(Actor):
            inside = 0

            def on_receive(self, message: object) -> int:
                self.inside += 1
                most = self.inside
                seen.add(most)
                gate.wait()
                self.inside -= 1
                return most

        seen: set[int] = set()
        gate = Gate()
        with ActorSystem(dispatcher=Dispatcher(threads=4)) as system:
            ref = system.start(Counter)
            replies = [ref.ask(number, block=False) for number in range(20)]
            gate.arrived()
            gate.open()
            for reply in replies:
                reply.get(timeout=PATIENCE)
        assert seen == {1}

    def test_an_actor_that_has_much_to_do_lets_others_have_the_thread(self, system: ActorSystem) -> None:
        order: list[str] = []
        gate = Gate()

        class Busy(Actor):
            def on_receive(self, message: object) -> None:
                gate.wait()
                order.append("busy")

        class Other(Actor):
            def on_receive(self, message: object) -> None:
                order.append("other")

        busy, other = system.start(Busy), system.start(Other)
        other.ask("are you started?")
        order.clear()
        last = [busy.ask(number, block=False) for number in range(200)][-1]
        gate.arrived()
        other.tell("now")
        gate.open()
        last.get(timeout=PATIENCE)
        assert order.index("other") in {64, 128}

    def test_constructor_arguments_reach_the_actor_which_knows_its_reference_there(
        self, system: ActorSystem
    ) -> None:
        class Named(Actor):
            def __init__(self, name: str, *, number: int) -> None:
                super().__init__()
                self.told = (name, number, self.system)
                self.actor_ref.tell("from the constructor")

            def on_receive(self, message: object) -> object:
                return (*self.told, message)

        first = system.start(Named, "a", number=3)
        assert first.ask("x") == ("a", 3, system, "x")

    def test_an_activation_while_the_actor_is_being_made_changes_nothing(self, system: ActorSystem) -> None:
        class Early(Recorder):
            def __init__(self, notes: list[object]) -> None:
                super().__init__(notes)
                self.actor_ref.tell("early")
                self.actor_ref.mailbox.wake()
                neighbour.ask("so the dispatcher has looked at it")
                assert notes == []

        neighbour = system.start(Recorder)
        notes: list[object] = []
        system.start(Early, notes).ask("late")
        assert notes == ["start", "early", "late"]

    def test_a_dataclass_can_be_an_actor(self, system: ActorSystem) -> None:
        @dataclass
        class Pair(Actor):
            left: int
            right: list[int] = field(default_factory=lambda: [2])

            def on_receive(self, message: object) -> object:
                return self.left, self.right, self.actor_ref

        one, other = system.start(Pair, 1), system.start(Pair, 1)
        assert one.ask(0) == (1, [2], one)
        assert other.ask(0) == (1, [2], other)
        assert one.stop()
        assert other.is_alive()

    def test_what_a_failing_constructor_gave_away_is_a_dead_actor(self, system: ActorSystem) -> None:
        given: list[ActorRef[Any]] = []
        replies: list[pykka.Future[Any]] = []

        class Broken(Actor):
            def __init__(self) -> None:
                super().__init__()
                given.append(self.actor_ref)
                replies.append(self.actor_ref.ask("early", block=False))
                raise ValueError("no good")

        with pytest.raises(ValueError, match="no good"):
            system.start(Broken)
        with pytest.raises(ActorDeadError) as caught:
            given[0].tell("late")
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(ActorDeadError):
            replies[0].get(timeout=PATIENCE)

    def test_an_actor_lives_without_a_reference_and_goes_when_it_has_stopped(
        self, system: ActorSystem
    ) -> None:
        alive: list[weakref.ref[Actor]] = []

        class Lonely(Actor):
            def on_start(self) -> None:
                alive.append(weakref.ref(self))
                started.set()

            def on_receive(self, message: object) -> None:
                self.stop()

        started = threading.Event()
        ref = system.start(Lonely)
        assert started.wait(PATIENCE)
        mailbox = ref.mailbox
        del ref
        gc.collect()
        actor = alive[0]()
        assert actor is not None
        gc.disable()
        try:
            assert actor.actor_ref.stop()
            system.start(Recorder).ask("so the thread has done with it")
            del actor
            assert alive[0]() is None
            assert mailbox.empty()
        finally:
            gc.enable()

    def test_stopping_twice_is_stopping_once(self, system: ActorSystem) -> None:
        class Tired(Actor):
            def on_receive(self, message: object) -> None:
                self.stop()
                self.stop()

            def on_stop(self) -> None:
                self.stop()
                stops.append(1)

        stops: list[int] = []
        ref = system.start(Tired)
        ref.ask("enough")
        ref.stop()
        assert not ref.stop()
        assert stops == [1]


class TestWithoutASystem:
    def test_start_says_what_to_call(self) -> None:
        with pytest.raises(RuntimeError, match=r"call system\.start\(Recorder, \.\.\.\)"):
            Recorder.start()

    def test_making_one_says_what_to_call(self) -> None:
        with pytest.raises(RuntimeError, match=r"system\.start\(Recorder, \.\.\.\)"):
            Recorder()

    def test_an_actor_that_makes_another_in_its_constructor_is_told_too(self, system: ActorSystem) -> None:
        class Parent(Actor):
            def __init__(self) -> None:
                super().__init__()
                Recorder()

        with pytest.raises(RuntimeError, match=r"system\.start\(Recorder"):
            system.start(Parent)


class TestFailure:
    def test_a_system_exit_in_one_actor_stops_no_other(self, system: ActorSystem) -> None:
        bystander = pykka.ThreadingActor.start()
        crashing, neighbour = system.start(Recorder), system.start(Recorder)
        with pytest.raises(ActorCrashError) as caught:
            crashing.ask(SystemExit(3))
        assert isinstance(caught.value.__cause__, SystemExit)
        assert neighbour.ask("still there?")
        assert bystander.is_alive()
        bystander.stop()

    @pytest.mark.parametrize("asked", [False, True], ids=["told", "asked"])
    @pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()], ids=repr)
    def test_a_failure_is_the_same_whether_the_message_was_told_or_asked(
        self, system: ActorSystem, asked: bool, error: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        notes: list[Any] = []
        ref = system.start(Recorder, notes)
        reply = ref.ask(error, block=False) if asked else None
        if not asked:
            ref.tell(error)
        end = _death(system, ref)
        kind = type(error) if isinstance(error, Exception) else ActorCrashError
        assert (notes[0], notes[1][0], len(notes)) == ("start", kind, 2)
        assert end is notes[1][1]
        assert [record.getMessage() for record in caplog.records if record.name == "intermission.kernel"] == [
            f"{ref} failed"
        ]
        if reply is not None:
            with pytest.raises(kind):
                reply.get(timeout=PATIENCE)

    def test_who_asked_finds_the_actor_stopped_when_the_failure_arrives(self, system: ActorSystem) -> None:
        for _ in range(50):
            ref = system.start(Recorder)
            with pytest.raises(ValueError, match="bad"):
                ref.ask(ValueError("bad"))
            assert not ref.is_alive()

    @pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3)], ids=repr)
    def test_a_failing_start_stops_the_actor_and_reaches_who_asks(
        self, system: ActorSystem, error: BaseException
    ) -> None:
        gate = Gate()

        class Broken(Recorder):
            def on_start(self) -> None:
                gate.wait()
                raise error

        notes: list[Any] = []
        ref = system.start(Broken, notes)
        waiting = ref.ask("are you there?", block=False)
        gate.open()
        with pytest.raises(ActorDeadError) as caught:
            waiting.get(timeout=PATIENCE)
        cause = caught.value.__cause__
        assert cause is error or (isinstance(cause, ActorCrashError) and cause.__cause__ is error)
        assert _death(system, ref) is cause
        assert notes == [(type(cause), cause)]

    @pytest.mark.parametrize("hook", ["on_failure", "on_stop"])
    @pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3)], ids=repr)
    def test_a_hook_that_fails_at_the_end_keeps_the_actor_from_nothing(
        self, system: ActorSystem, hook: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(Recorder, hook, fail)
        ref = system.start(Recorder)
        ref.tell(LookupError("the first") if hook == "on_failure" else messages._ActorStop())  # pyright: ignore[reportPrivateUsage] - the message of Pykka's stop
        end = _death(system, ref)
        assert isinstance(end, LookupError if hook == "on_failure" else (ValueError, ActorCrashError))
        assert system.start(Recorder).ask("still there?")

    def test_an_error_without_a_text_is_named_by_its_type(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise SystemExit

        assert text_of(Mute()) == "Mute (its text cannot be read)"


def _death(system: ActorSystem, ref: ActorRef[Any]) -> Exception | None:
    """Wait until an actor has ended, and return why."""
    ended = threading.Event()
    errors: list[Exception | None] = []

    class Watcher(Actor):
        def on_start(self) -> None:
            self.watch(ref)

        def on_receive(self, message: Any) -> None:
            errors.append(message.error)
            ended.set()

    system.start(Watcher)
    assert ended.wait(PATIENCE)
    return errors[0]
