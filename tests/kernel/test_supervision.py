import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any, Literal

import pytest

import scale
from intermission.kernel.actor import Actor, ActorCrashError
from intermission.kernel.ref import ActorDeadError, ActorRef
from intermission.kernel.supervision import Supervision, Terminated
from intermission.kernel.system import ActorSystem
from intermission.testing import ManualClock
from intermission.testing.sync import PATIENCE, Gate


@pytest.fixture
def system(clock: ManualClock) -> Iterator[ActorSystem]:
    with ActorSystem(clock=clock) as system:
        yield system


class Counter(Actor):
    """Counts its messages; raises exceptions; waits at gates."""

    def __init__(self, made: list[object], *, first: int = 0) -> None:
        super().__init__()
        made.append(self.actor_ref)
        self.count = first
        if len(made) == 2:
            self.made_as_second = 2

    def on_receive(self, message: object) -> int:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Gate):
            message.wait()
        self.count += 1
        return self.count


class Watcher(Actor):
    """Watches a reference and hands on what it is told."""

    def __init__(self, ref: ActorRef[Any], told: "Queue[Terminated]", times: int = 1) -> None:
        super().__init__()
        self.ref, self.told, self.times = ref, told, times

    def on_start(self) -> None:
        for _ in range(self.times):
            self.watch(self.ref)

    def on_receive(self, message: object) -> object:
        if isinstance(message, Terminated):
            self.told.put(message)
        return None


def fail(ref: ActorRef[Any], error: BaseException | None = None) -> None:
    """Let the actor fail, and return when it has been dealt with."""
    with pytest.raises((ValueError, ActorCrashError)):
        ref.ask(error or ValueError("x"))


class TestStrategies:
    def test_stop_is_what_happens_by_default(self, system: ActorSystem) -> None:
        made: list[object] = []
        ref = system.start(Counter, made)
        fail(ref)
        with pytest.raises(ActorDeadError, match="since it failed: ValueError") as caught:
            ref.ask("x")
        assert isinstance(caught.value.__cause__, ValueError)
        assert len(made) == 1

    def test_resume_keeps_the_actor_as_it_is(self, system: ActorSystem) -> None:
        ref = system.start(Counter, [], supervision=Supervision("resume"))
        for number in range(10):
            assert ref.ask("x") == number + 1
            fail(ref, SystemExit(number))

    @pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3)], ids=repr)
    def test_restart_makes_a_new_actor_with_the_same_reference_and_arguments(
        self, system: ActorSystem, error: BaseException
    ) -> None:
        made: list[object] = []
        ref = system.start(Counter, made, first=10, supervision=Supervision("restart"))
        assert ref.ask("x") == 11
        assert ref.ask("x") == 12
        fail(ref, error)
        assert ref.ask("x") == 11
        assert made == [ref, ref]
        # A proxy looks at the new one for what there is.
        assert ref.proxy().made_as_second.get(timeout=PATIENCE) == 2

    def test_what_waits_is_kept_over_a_restart_and_what_failed_is_not_tried_again(
        self, system: ActorSystem
    ) -> None:
        gate = Gate()
        ref = system.start(Counter, [], supervision=Supervision("restart"))
        ref.tell(gate)
        failing = ref.ask(ValueError("once"), block=False)
        behind = [ref.ask(number, block=False) for number in range(100)]
        gate.open()
        with pytest.raises(ValueError, match="once"):
            failing.get(timeout=PATIENCE)
        assert [future.get(timeout=PATIENCE) for future in behind] == list(range(1, 101))

    @pytest.mark.parametrize("strategy", ["stop", "resume"])
    def test_an_actor_that_cannot_start_is_stopped(
        self, system: ActorSystem, strategy: Literal["stop", "resume"]
    ) -> None:
        ref = system.start(Unready, [], 1, supervision=Supervision(strategy))
        told: Queue[Terminated] = Queue()
        system.start(Watcher, ref, told)
        assert isinstance(told.get(timeout=PATIENCE).error, OSError)

    def test_an_actor_that_cannot_start_is_restarted_until_it_can(self, system: ActorSystem) -> None:
        starts: list[int] = []
        ref = system.start(Unready, starts, 2, supervision=Supervision("restart", max_restarts=2))
        assert ref.ask("x") == "ready"
        assert len(starts) == 3

    def test_a_constructor_that_fails_at_a_restart_counts_as_a_failure(self, system: ActorSystem) -> None:
        class Once(Counter):
            def __init__(self, made: list[object]) -> None:
                super().__init__(made)
                if len(made) > 1:
                    raise LookupError("not again")

        made: list[object] = []
        told: Queue[Terminated] = Queue()
        ref = system.start(Once, made, supervision=Supervision("restart", max_restarts=3))
        system.start(Watcher, ref, told)
        fail(ref)
        end = told.get(timeout=PATIENCE)
        assert isinstance(end.error, LookupError)
        assert made == [ref] * 4

    def test_only_exceptions_lead_to_restarts(self, system: ActorSystem) -> None:
        made: list[object] = []
        ref = system.start(Counter, made, supervision=Supervision("restart"))
        assert ref.stop()
        assert len(made) == 1


class Unready(Actor):
    """Fails to start as often as it is told."""

    def __init__(self, starts: list[int], failures: int) -> None:
        super().__init__()
        self.starts, self.failures = starts, failures

    def on_start(self) -> None:
        self.starts.append(1)
        if len(self.starts) <= self.failures:
            raise OSError("not yet")

    def on_receive(self, message: object) -> str:
        return "ready"


class TestIntensity:
    def test_one_failure_more_than_allowed_stops_the_actor_and_its_watchers_are_told(
        self, system: ActorSystem
    ) -> None:
        told: Queue[Terminated] = Queue()
        ref = system.start(Counter, [], supervision=Supervision("restart", max_restarts=2, within=5))
        system.start(Watcher, ref, told)
        for _ in range(2):
            fail(ref)
            assert ref.ask("x") == 1
        last = ValueError("the last")
        fail(ref, last)
        assert told.get(timeout=PATIENCE) == Terminated(ref, last)
        assert not ref.is_alive()

    def test_failures_that_lie_further_back_do_not_count(
        self, system: ActorSystem, clock: ManualClock
    ) -> None:
        ref = system.start(Counter, [], supervision=Supervision("restart", max_restarts=1, within=5))
        for _ in range(20):
            fail(ref)
            assert ref.ask("x") == 1
            clock.advance(5)

    def test_with_no_restart_allowed_the_first_failure_stops(self, system: ActorSystem) -> None:
        told: Queue[Terminated] = Queue()
        ref = system.start(Counter, [], supervision=Supervision("restart", max_restarts=0))
        system.start(Watcher, ref, told)
        fail(ref)
        assert told.get(timeout=PATIENCE).ref == ref

    def test_a_strategy_that_does_not_exist_and_negative_numbers_are_refused(self) -> None:
        unknown: Any = "retry"
        with pytest.raises(ValueError, match="retry"):
            Supervision(unknown)
        with pytest.raises(ValueError, match="max_restarts"):
            Supervision(max_restarts=-1)
        with pytest.raises(ValueError, match="within"):
            Supervision(within=float("nan"))


class TestDeathWatch:
    def test_each_watcher_is_told_once_after_on_stop(self, system: ActorSystem) -> None:
        done: list[str] = []

        class Stopping(Actor):
            def on_stop(self) -> None:
                done.append("stopped")

        class Asks(Watcher):
            def on_receive(self, message: object) -> object:
                super().on_receive(message)
                return list(done)

        told: Queue[Terminated] = Queue()
        ref = system.start(Stopping)
        watchers = [system.start(Asks, ref, told, times=3) for _ in range(10)]
        for watcher in watchers:
            watcher.ask("are you started?")
        ref.stop()
        ends = [told.get(timeout=PATIENCE) for _ in watchers]
        assert ends == [Terminated(ref, None)] * 10
        assert all(watcher.ask("what was done?") == ["stopped"] for watcher in watchers)
        assert told.empty()

    def test_who_watches_a_dead_actor_is_told_at_once(self, system: ActorSystem) -> None:
        ref = system.start(Counter, [])
        fail(ref)
        told: Queue[Terminated] = Queue()
        system.start(Watcher, ref, told)
        assert isinstance(told.get(timeout=PATIENCE).error, ValueError)

    def test_a_watch_that_meets_the_end_is_told_exactly_once(self, system: ActorSystem) -> None:
        for _ in range(scale.rounds(100, 5000)):
            with ActorSystem() as other:
                ref = other.start(Counter, [])
                told: Queue[Terminated] = Queue()
                start = threading.Barrier(2)
                watcher = system.start(AtABarrier, ref, told, start)
                start.wait(PATIENCE)
                ref.tell(SystemExit(1))
                assert isinstance(told.get(timeout=PATIENCE).error, ActorCrashError)
                watcher.ask("and what else?")
                assert told.empty()

    def test_a_restart_is_no_end(self, system: ActorSystem) -> None:
        ref = system.start(Counter, [], supervision=Supervision("restart"))
        told: Queue[Terminated] = Queue()
        watcher = system.start(Watcher, ref, told)
        watcher.ask("are you started?")
        fail(ref)
        assert ref.ask("x") == 1
        watcher.ask("and what was told?")
        assert told.empty()
        ref.stop()
        assert told.get(timeout=PATIENCE) == Terminated(ref, None)

    def test_a_watcher_that_has_stopped_is_let_go(self, system: ActorSystem) -> None:
        ref = system.start(Counter, [])
        told: Queue[Terminated] = Queue()
        for _ in range(10):
            watcher = system.start(Watcher, ref, told)
            watcher.ask("are you started?")
            watcher.stop()
        system.start(Counter, []).ask("so the thread has done with them")
        watchers = getattr(ref.mailbox, "watchers", None)
        assert watchers == {}

    def test_a_terminated_comes_before_what_users_have_sent(self, system: ActorSystem) -> None:
        order: list[object] = []
        gate = Gate()

        class Notes(Watcher):
            def on_receive(self, message: object) -> None:
                if message == "wait":
                    gate.wait()
                order.append(message)

        with ActorSystem() as other:  # the watcher's thread is held
            ended = other.start(Counter, [])
            watcher = system.start(Notes, ended, Queue[Terminated]())
            watcher.tell("wait")
            gate.arrived()
            watcher.tell("user")
        gate.open()
        watcher.ask("last")
        assert order == ["wait", Terminated(ended, None), "user", "last"]


class AtABarrier(Watcher):
    """Begins to watch when others are ready."""

    def __init__(self, ref: ActorRef[Any], told: "Queue[Terminated]", start: threading.Barrier) -> None:
        super().__init__(ref, told)
        self.start_together = start

    def on_start(self) -> None:
        self.start_together.wait(PATIENCE)
        super().on_start()
