"""`Actor`: a Pykka actor on the threads of a dispatcher, whose crash stops nobody else."""

import logging
import threading
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeVar, cast

import pykka
from pykka import messages
from pykka._envelope import Envelope

from intermission.kernel.clock import Clock
from intermission.kernel.crash import ActorCrashError, text_of
from intermission.kernel.mailbox import Lane, Mailbox, Pause
from intermission.kernel.ref import NOBODY, ActorRef, Reply, dead
from intermission.kernel.supervision import Restarts, Supervision, Terminated

__all__ = ["Actor", "ActorCrashError", "Cell", "StopNow", "System", "text_of"]

_logger = logging.getLogger("intermission.kernel")
_numbers = count(1)
_STOP_MESSAGE = messages._ActorStop  # pyright: ignore[reportPrivateUsage] - Pykka tells a stop by this class
_PYKKAS_OWN = (_STOP_MESSAGE, messages.ProxyCall, messages.ProxyGetAttr, messages.ProxySetAttr)

A = TypeVar("A", bound="Actor")


class StopNow(_STOP_MESSAGE):
    """Pykka's own stop, ahead of all that waits."""

    lane: ClassVar[Lane] = Lane.CONTROL


class System(Protocol):
    """What an actor sees of its `ActorSystem`, whose module stands on this one."""

    clock: Clock

    def start(
        self, cls: type[A], *args: Any, supervision: Supervision | None = None, **kwargs: Any
    ) -> ActorRef[A]:
        """See `ActorSystem.start`."""
        ...

    def forget(self, cell: "Cell") -> None:
        """See `ActorSystem.forget`."""
        ...

    def close(self, timeout: float = 5.0) -> None:
        """See `ActorSystem.close`."""
        ...


class _Births(threading.local):
    cell: "Cell | None" = None


_births = _Births()
_watching = threading.Lock()


class Cell(Mailbox):
    """What stays of an actor when it restarts: its mailbox, and what the system knows of it.

    One activation after another runs Pykka's loop for a while; `get` leaves the loop when nothing waits. All
    methods are for the thread whose turn it is, but for `make`, `watch` and what `Mailbox` says.
    """

    __slots__ = (
        "_failure",
        "_recipe",
        "_restarts",
        "_started",
        "actor",
        "depth",
        "name",
        "supervision",
        "system",
        "watchers",
        "watching",
    )

    def __init__(self) -> None:
        super().__init__()
        self.system: System | None = None
        self.actor: Actor | None = None
        self.name: str | None = None  # set when the actor has ended
        self.supervision = _STOP
        self.depth = 0
        self.watchers: dict[Cell, None] | None = None
        self.watching: dict[Cell, None] | None = None
        self._started = False
        self._failure: Exception | None = None
        self._recipe: tuple[type[Actor], tuple[Any, ...], dict[str, Any]] | None = None
        self._restarts: Restarts | None = None

    def make(self, cls: "type[Actor]", args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Actor":
        """Make the actor of this cell, or its successor, and return it."""
        before, _births.cell = _births.cell, self
        try:
            actor = cls(*args, **kwargs)
        except BaseException as error:
            if self.actor is None:
                self.give_up(cls.__name__, error)
            raise
        finally:
            _births.cell = before
        self.actor = actor
        self._started = False
        if self.supervision.strategy == "restart" and self._recipe is None:
            self._recipe = (cls, args, kwargs)
            self._restarts = Restarts(self.supervision)
        return actor

    def give_up(self, name: str, error: BaseException) -> None:
        """Leave an actor that was never started; its reference may have got out of its constructor."""
        self.error, self.stopped, self.name = self._exception(error), True, name
        self.actor = self._recipe = self._restarts = None
        self.wake()

    def activate(self) -> None:
        """Start the actor if it is new, let it handle some messages, and see what came of it."""
        if not self.begin_turn():
            return
        again = False
        try:
            again = self._run()
        except BaseException as error:
            _logger.exception("%s failed beyond repair", self.name or self.actor)
            self._end(self._exception(error))
        finally:
            self.end_turn(again=again)

    def fail(self, error: BaseException) -> Exception:
        """Take note of a failure, which ends the activation, and return it as an `Exception`."""
        failure = self._exception(error)
        if self._failure is None:
            self._failure = failure
        self.begin(0)
        if self.supervision.strategy == "stop":
            # Now, and not behind the answer: who was told of the failure finds the actor stopped, and why.
            self.error = self._failure
            self.stopped = True
        return failure

    def drain(self) -> None:
        """Answer all that waits: the actor has stopped."""
        self.begin(-1)
        while not self.empty():
            envelope = self.get()
            if envelope.reply_to is None or envelope.reply_to is NOBODY:
                continue
            if isinstance(envelope.message, messages._ActorStop):  # pyright: ignore[reportPrivateUsage] - see above
                envelope.reply_to.set(None)
            else:
                error = dead(self.name or "an actor", "stopped before it came to the message", self.error)
                envelope.reply_to.set_exception((type(error), error, None))

    def watch(self, target: "Cell", ref: ActorRef[Any]) -> None:
        """Have `Terminated` put here once when the actor of `target`, whose reference is `ref`, has ended."""
        with _watching:
            if target.watchers is None:
                target.watchers = {}
            if self.watching is None:
                self.watching = {}
        self.watching[target] = None
        target.watchers[self] = None
        # Added first, then looked: of the two who may find the entry, one takes it out.
        if target.name is not None:
            target._tell_watchers(ref)

    def unwatch(self, target: "Cell") -> None:
        """Take back `watch`; what is here already stays."""
        if self.watching is not None:
            self.watching.pop(target, None)
            if not self.watching:
                self.watching = None  # an empty one is large, and most actors are idle sessions
        if target.watchers is not None:
            target.watchers.pop(self, None)

    def _run(self) -> bool:
        actor, dispatcher = self.actor, self.dispatcher
        if self.name is not None:
            self.drain()  # somebody put while the actor stopped
            return False
        if actor is None:
            return False  # it is still being made
        if dispatcher.closed and not self.stopped:
            # Whoever closed it has given up waiting for this one.
            if self._started:
                actor._stop()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
            self.stopped = True
        self.begin(dispatcher.throughput)
        try:
            if not self._started and not self.stopped:
                actor._actor_loop_setup()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
                self._started = self._failure is None
            if self._failure is None:
                actor._actor_loop_running()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
        except Pause:
            pass
        except BaseException as error:  # noqa: BLE001 - all that an actor raises, its supervision decides
            self.fail(error)
        failure, self._failure = self._failure, None
        if failure is not None:
            return self._supervise(actor, failure)
        if self.stopped:
            self._end(self.error)
        return False

    def _supervise(self, actor: "Actor", failure: Exception) -> bool:
        _logger.error("%s failed", actor.actor_ref, exc_info=failure)
        _guarded(actor, actor.on_failure, type(failure), failure, failure.__traceback__)
        if self.stopped:
            self._end(failure)
        elif self._restarts is not None:
            return self._restart(failure)
        elif not self._started:
            self._end(failure)  # there is nothing to resume
        return False

    def _restart(self, failure: Exception) -> bool:
        assert self._restarts is not None
        assert self._recipe is not None
        assert self.system is not None
        while self._restarts.allow(self.system.clock.monotonic()):
            try:
                actor = self.make(*self._recipe)
            except BaseException as error:
                failure = self._exception(error)
                _logger.exception("%s could not be made again", self._recipe[0].__name__)
                continue
            actor.actor_ref.renew(actor)
            return True
        self._end(failure)
        return False

    def _end(self, error: Exception | None) -> None:
        actor, system = self.actor, self.system
        assert actor is not None
        assert system is not None
        ref = actor.actor_ref
        self.error, self.stopped, self.name = error, True, str(ref)
        self.actor = self._recipe = self._restarts = None
        actor._actor_loop_teardown()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
        self._tell_watchers(ref)
        while self.watching:
            target, _ = self.watching.popitem()
            if target.watchers is not None:
                target.watchers.pop(self, None)
        # Last: when a system says that an actor is gone, all this has been done.
        system.forget(self)

    def _tell_watchers(self, ref: ActorRef[Any]) -> None:
        while self.watchers:
            try:
                watcher, _ = self.watchers.popitem()
            except KeyError:  # another thread took it
                break
            watching = watcher.watching  # its own thread may let go of it
            if watching is not None:
                watching.pop(self, None)
            watcher.put(Envelope(Terminated(ref, self.error), NOBODY))

    def _exception(self, error: BaseException) -> Exception:
        if isinstance(error, Exception):
            return error
        return ActorCrashError.of(self.name or str(self.actor and self.actor.actor_ref), error)


_STOP = Supervision()


def _guarded(actor: "Actor", hook: Callable[..., None], *args: Any) -> Exception | None:
    try:
        hook(*args)
    except BaseException as error:
        _logger.exception("%s of %s failed", hook.__name__, actor.actor_ref)
        return error if isinstance(error, Exception) else ActorCrashError.of(str(actor.actor_ref), error)
    return None


class Actor(pykka.Actor):
    """Base of all actors: handles one message at a time, on whichever thread of its dispatcher is free.

    Hooks, all of them called there: `on_start` before the first message; `on_receive(message)`, whose result
    answers who asks; `on_failure(type, value, traceback)` when one of these two has raised, before
    supervision decides; `on_stop` when the actor stops and has not failed. None of them may wait for long:
    other actors have no thread meanwhile.

    Actors are made by `ActorSystem.start`. They are not in Pykka's `ActorRegistry`: what others in the
    process do to all actors of Pykka is not meant for them.

    Attributes:
        system: Who started it.
    """

    system: "System"
    _cell: Cell

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Not for callers; see `ActorSystem.start`."""
        cell = _births.cell
        if cell is None:
            raise RuntimeError(
                f"{cls.__name__} cannot be made alone: system.start({cls.__name__}, ...) of an ActorSystem "
                "makes an actor and returns its reference"
            )
        _births.cell = None
        self = super().__new__(cls)
        assert cell.system is not None
        self.system = cell.system
        self._cell = self.actor_inbox = cell
        # All that Pykka wants of it is `is_set`; an Event would weigh as much as the rest.
        self.actor_stopped = cast(threading.Event, cell)
        if cell.actor is None:
            self.actor_urn = f"urn:intermission:actor:{next(_numbers)}"
            self._actor_ref = ActorRef(self)
        else:
            self.actor_urn = cell.actor.actor_urn
            self._actor_ref = cell.actor._actor_ref
        return self

    def __init__(self) -> None:
        # Pykka's constructor would make an Event and draw a random URN; `__new__` has done what it does.
        pass

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise `RuntimeError`: an actor is started by a system."""
        raise RuntimeError(
            f"{cls.__name__}.start() has no system to run in: call system.start({cls.__name__}, ...) "
            "of an ActorSystem"
        )

    @property
    def actor_ref(self) -> ActorRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride] - its own kind of reference
        """The actor's reference; also in `__init__`."""
        return self._actor_ref  # type: ignore[return-value]  # __new__ has made it of this class

    def stop(self) -> None:
        """Stop this actor when it has handled what was sent before; nothing happens if it has stopped."""
        if not self._cell.stopped:
            self._cell.put(Envelope(_STOP_MESSAGE(), NOBODY))

    def watch(self, ref: ActorRef[Any]) -> None:
        """Get `Terminated` in the internal lane, once, when the actor of `ref` has stopped, or has already.

        Watching it twice is watching it once. To be called by the actor itself.
        """
        self._cell.watch(cast(Cell, ref.mailbox), ref)

    def unwatch(self, ref: ActorRef[Any]) -> None:
        """Take back `watch`; a `Terminated` that is on its way still comes. For the actor itself."""
        self._cell.unwatch(cast(Cell, ref.mailbox))

    @staticmethod
    def _create_actor_inbox() -> Cell:
        return Cell()

    @staticmethod
    def _create_future() -> Reply:
        return Reply()

    def _start_actor_loop(self) -> None:
        self._cell.wake()

    def _actor_loop_teardown(self) -> None:
        self._cell.drain()

    def _stop(self) -> None:
        self._cell.stopped = True
        self._cell.error = _guarded(self, self.on_stop)

    def _handle_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self._cell.fail(exception_value)

    def _handle_receive(self, message: Any) -> Any:
        try:
            # Nearly all messages are none of these; asked once, and not once for each of them.
            if isinstance(message, _PYKKAS_OWN):
                return super()._handle_receive(message)
            return self.on_receive(message)
        except Exception as error:
            self._cell.fail(error)
            raise
        except BaseException as error:
            # Pykka takes it for the end of the process and stops every actor in it.
            raise self._cell.fail(error) from error
