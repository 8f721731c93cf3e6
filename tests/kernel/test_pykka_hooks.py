"""What the kernel relies on in Pykka, which does not promise it."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import pykka
import pytest
from pykka._actor import Actor as PykkasActor
from pykka._envelope import Envelope

from intermission.kernel.actor import Actor
from intermission.kernel.system import ActorSystem
from intermission.testing.sync import PATIENCE


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem() as system:
        yield system


class Recorder(Actor):
    """Notes what it goes through, and answers with the message."""

    def __init__(self, notes: list[object] | None = None) -> None:
        super().__init__()
        self.notes: list[object] = [] if notes is None else notes

    def on_start(self) -> None:
        self.notes.append("start")

    def on_receive(self, message: object) -> object:
        self.notes.append(message)
        return message


def test_pykkas_loop_lets_out_what_an_inbox_raises_and_can_be_entered_again() -> None:
    class Leave(BaseException):
        pass

    class Inbox:
        def __init__(self) -> None:
            self.envelopes: list[Envelope[Any]] = []

        def put(self, envelope: Envelope[Any], /) -> None:
            self.envelopes.append(envelope)

        def get(self) -> Envelope[Any]:
            if not self.envelopes:
                raise Leave
            return self.envelopes.pop(0)

        def empty(self) -> bool:
            return not self.envelopes

    class Plain(PykkasActor):
        got: list[object]

        def on_start(self) -> None:
            self.got = []

        def on_receive(self, message: object) -> None:
            self.got.append(message)

        _create_actor_inbox = staticmethod(Inbox)

        @staticmethod
        def _create_future() -> pykka.Future[Any]:
            return pykka.ThreadingFuture()

        def _start_actor_loop(self) -> None:
            actors.append(self)
            self._actor_loop_setup()

    actors: list[Any] = []
    ref = Plain.start()
    actor = actors[0]
    for round_ in (1, 2):
        ref.tell(round_)
        with pytest.raises(Leave):
            actor._actor_loop_running()
    assert actor.got == [1, 2]
    ref.stop(block=False)
    actor._actor_loop_running()
    assert not ref.is_alive()
    late = ref.actor_inbox
    future: pykka.Future[Any] = pykka.ThreadingFuture()
    late.put(Envelope("late", future))
    actor._actor_loop_teardown()
    with pytest.raises(pykka.ActorDeadError):
        future.get(timeout=PATIENCE)


def test_pykka_calls_each_hook_that_the_kernel_gives_it(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    class Traced(Actor):
        pass

    def trace(name: str) -> None:
        hook = getattr(PykkasActor, name)

        def traced(self: Any, *args: Any) -> Any:
            called.append(name)
            return hook(self, *args)

        monkeypatch.setattr(PykkasActor, name, traced)

    for name in ("_actor_loop_setup", "_actor_loop_running", "_handle_receive", "on_receive", "on_start"):
        trace(name)
    ref = system.start(Traced)
    ref.ask("something")
    ref.stop()
    assert called[:2] == ["_actor_loop_setup", "on_start"]
    assert set(called[2:]) == {"_actor_loop_running", "_handle_receive", "on_receive"}


def test_pykka_hands_a_failure_of_on_start_to_the_hook_that_the_kernel_overrides() -> None:
    class Broken(pykka.ThreadingActor):
        def on_start(self) -> None:
            raise ValueError("x")

        def _handle_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            caught.append(exception_value)
            super()._handle_failure(exception_type, exception_value, traceback)
            done.set()

    caught: list[Exception] = []
    done = threading.Event()
    Broken.start()
    assert done.wait(PATIENCE)
    assert isinstance(caught[0], ValueError)


def test_pykkas_stop_calls_the_hook_that_the_kernel_overrides() -> None:
    class Stopping(pykka.ThreadingActor):
        def _stop(self) -> None:
            stopped.set()
            super()._stop()

    stopped = threading.Event()
    Stopping.start().stop()
    assert stopped.is_set()


def test_actors_are_not_in_the_registry_and_broadcasts_and_stop_all_do_not_reach_them(
    system: ActorSystem,
) -> None:
    notes: list[object] = []
    ref = system.start(Recorder, notes)
    assert pykka.ActorRegistry.get_all() == []
    pykka.ActorRegistry.broadcast("everybody")
    pykka.ActorRegistry.stop_all()
    ref.ask("me")
    assert notes == ["start", "me"]


def test_a_proxy_of_pykka_works_on_an_actor(system: ActorSystem) -> None:
    proxy = cast(Any, system.start(Recorder).proxy())
    setattr(proxy, "notes", ["set"])  # noqa: B010 - a type checker would take it for the list that it sets
    assert proxy.notes.get(timeout=PATIENCE) == ["set"]
    assert proxy.on_receive("called").get(timeout=PATIENCE)
    assert proxy.notes.get(timeout=PATIENCE) == ["set", "called"]
