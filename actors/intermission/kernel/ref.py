"""`ActorRef`: how others reach an actor, and what they are told when they cannot."""

import asyncio
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, cast, overload

import pykka
from pykka import messages
from pykka._envelope import Envelope
from typing_extensions import TypeVar

from intermission.errors import IntermissionError
from intermission.kernel.dispatcher import process, seat_here
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.mailbox import Mailbox

__all__ = [
    "NOBODY",
    "ActorDeadError",
    "ActorRef",
    "AskCycleError",
    "AskTimeoutError",
    "Reply",
    "SystemClosedError",
    "SystemForkedError",
    "dead",
    "waiting_for",
]

_ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

A = TypeVar("A", bound=pykka.Actor, default=Any, covariant=False)


class ActorDeadError(IntermissionError, pykka.ActorDeadError):
    """The actor has stopped and did not handle the message. `__cause__` is its failure, if it had one."""


class AskCycleError(IntermissionError):
    """An actor asked itself, or one that waits for it: none of them could ever answer. Use `tell`."""


class AskTimeoutError(IntermissionError, pykka.Timeout):
    """The actor did not answer in time. The message is not taken back; it may still be handled."""


class SystemClosedError(IntermissionError):
    """The actor system is closed, so it starts no more actors."""


class SystemForkedError(IntermissionError):
    """This process was forked from the one that made the actor system; the actors' threads stayed there."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from the one that made the actor system: the threads of its actors are "
            "in that one, and nothing would answer here. Make a new ActorSystem after the fork."
        )


class Reply(pykka.Future[Any]):
    """The answer to one `ask`. It is given once.

    Args:
        target: Whose answer it is; knowing it, a circle of actors that wait for each other is found.
    """

    def __init__(self, target: Mailbox | None = None) -> None:
        # Pykka's constructor makes an object that only futures with a hook need. See `set_get_hook`.
        self._get_hook = None
        self._target = target
        # A lock that whoever answers gives free costs a fifth of a condition.
        self._answer = threading.Lock()
        self._answer.acquire()
        self._value: Any = None
        self._error: _ExcInfo | None = None
        self._given = False
        self._awaiting: list[Callable[[], object]] = []  # wakes each task that awaits it

    def get(self, *, timeout: float | None = None) -> Any:
        """Wait for the answer, and return it or raise the exception that it is.

        Raises:
            AskTimeoutError: There was none within `timeout` seconds.
            AskCycleError: The calling actor waits for itself.
        """
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if not self._given:
            with waiting_for(self._target):
                if not self.wait(timeout):
                    raise AskTimeoutError(f"there was no answer within {timeout} s")
        return self.result()

    def __await__(self) -> Generator[Any, None, Any]:
        """As `get`, without blocking the running event loop. Who gives up the wait takes nothing back."""
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        if self._get_hook is not None:  # what Pykka makes of others has only its `get`
            return await asyncio.to_thread(self.get)
        loop, given = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits on it any more
                loop.call_soon_threadsafe(given.set)

        # Added first, then looked at: who gives it writes first, and looks then who is to be woken.
        self._awaiting.append(wake)
        if not self._given:
            await given.wait()
        return self.result()

    def wait(self, timeout: float | None) -> bool:
        """Wait for the answer for `timeout` seconds, or as long as it takes; return whether it is there."""
        limit = -1.0 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
        if not self._answer.acquire(timeout=limit):
            return False
        self._answer.release()  # for others who wait
        return True

    def result(self) -> Any:
        """Return the answer that is there, or raise the exception that it is."""
        if self._error is None:
            return self._value
        kind, error, trace = self._error
        if error is None:
            assert kind is not None
            error = kind()
        raise error.with_traceback(trace)

    def set(self, value: Any = None) -> None:
        """Answer.

        Raises:
            queue.Full: There is an answer already.
        """
        self._give(value, None)

    def set_exception(self, exc_info: Any = None) -> None:
        """Answer with an exception: the given one, or that being handled.

        Raises:
            queue.Full: There is an answer already.
        """
        self._give(None, exc_info or sys.exc_info())

    def set_get_hook(self, func: Callable[[float | None], Any]) -> None:
        """See `pykka.Future.set_get_hook`.

        Raises:
            queue.Full: There is an answer already.
        """
        if self._given:
            raise queue.Full
        super().__init__()
        super().set_get_hook(func)

    def _give(self, value: Any, error: _ExcInfo | None) -> None:
        if self._given or self._get_hook is not None:
            raise queue.Full
        self._value, self._error = value, error
        self._given = True
        self._answer.release()
        for wake in self._awaiting:
            wake()


class _Nobody(pykka.Future[Any]):
    def set(self, value: Any = None) -> None:
        pass

    def set_exception(self, exc_info: Any = None) -> None:
        pass


NOBODY = _Nobody()
"""Where the answer to a `tell` goes. With it, Pykka treats a failure under `tell` as one under `ask`."""


@contextmanager
def waiting_for(target: Mailbox | None) -> Generator[None]:
    """Mark the calling actor, if it is one, as waiting for another; give its dispatcher a thread meanwhile.

    Raises:
        AskCycleError: The other one waits for this one, or is it.
    """
    seat = seat_here()
    waiting = seat and seat.item
    if seat is None or target is None or not isinstance(waiting, Mailbox):
        yield
        return
    # Marked first, then looked for: of several who close a circle at once, one at least sees it.
    waiting.blocked_on = target
    try:
        if target.waits_for(waiting):
            raise AskCycleError(
                "an actor asked itself, or one that waits for it, directly or through others: no one of them "
                "could ever answer. Use tell, and let the answer be a message."
            )
        with seat.dispatcher.blocking():
            yield
    finally:
        waiting.blocked_on = None


class ActorRef(pykka.ActorRef[A]):
    """The address of an actor, given out by `ActorSystem.start`. It stays the same when the actor restarts.

    It may be used from any thread, and `tell` also in finalisers and signal handlers.
    """

    def __init__(self, actor: A) -> None:
        super().__init__(actor)
        # The same as `actor_inbox`, with more to it than Pykka asks.
        self.mailbox = cast(Mailbox, actor.actor_inbox)

    def renew(self, actor: A) -> None:
        """Make `actor` the one that a proxy of this reference looks at: it has taken the other's place."""
        self._actor_weakref = weakref.ref(actor)

    def is_alive(self) -> bool:
        """Return whether the actor has not stopped yet."""
        return not self.mailbox.stopped

    def tell(self, message: Any) -> None:
        """Send a message, and do not wait.

        Raises:
            ActorDeadError: The actor has stopped.
            SystemForkedError: See there.
        """
        mailbox = self.mailbox
        if mailbox.stopped or mailbox.dispatcher.mark is not process.mark:
            raise self._unreachable()
        mailbox.put(Envelope(message, NOBODY))

    def tell_here(self, message: Any) -> None:
        """As `tell`; if the actor is idle, it handles the message, and what comes meanwhile, on this thread.

        Raises:
            ActorDeadError, SystemForkedError: As `tell`.
        """
        mailbox = self.mailbox
        if mailbox.stopped or mailbox.dispatcher.mark is not process.mark:
            raise self._unreachable()
        mailbox.put_here(Envelope(message, NOBODY))

    @overload
    def ask(
        self, message: Any, timeout: float | None = 30.0, *, block: Literal[False]
    ) -> "pykka.Future[Any]": ...

    @overload
    def ask(self, message: Any, timeout: float | None = 30.0, *, block: Literal[True]) -> Any: ...

    @overload
    def ask(self, message: Any, timeout: float | None = 30.0, *, block: bool = True) -> Any: ...

    def ask(self, message: Any, timeout: float | None = 30.0, *, block: bool = True) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it takes all that Pykka's does, and more
        """Send a message, and wait for what the actor's `on_receive` returns.

        An actor may ask another one; its dispatcher has one more thread meanwhile. That is slower than `tell`
        and a message back, and the actor does nothing else until it is answered.

        Args:
            message: Anything.
            timeout: Seconds to wait; `None` waits for as long as it takes.
            block: With `False` a future is returned at once; its `get` waits, and has a `timeout` of its own.
                On an event loop, await it.

        Raises:
            AskTimeoutError: No answer came in time.
            ActorDeadError: The actor has stopped, before or while the message waited.
            AskCycleError: The asking actor would wait for itself. Nothing was sent.
            SystemForkedError: See there.
            Exception: What the actor's handler raised; `ActorCrashError` for what is no `Exception`.
        """
        mailbox = self.mailbox
        reply = Reply(mailbox)
        if mailbox.stopped or mailbox.dispatcher.mark is not process.mark:
            error = self._unreachable()
            if block:
                raise error
            reply.set_exception((type(error), error, None))
            return reply
        if not block:
            mailbox.put(Envelope(message, reply))
            return reply
        if seat_here() is None:
            warn_of_blocking("ActorRef.ask", "block=False, and await what it returns,")
            mailbox.put(Envelope(message, reply))
            answered = reply.wait(timeout)
        else:
            with waiting_for(mailbox):
                mailbox.put(Envelope(message, reply))
                answered = reply.wait(timeout)
        if not answered:
            raise AskTimeoutError(
                f"{self} did not answer {type(message).__name__} within {timeout} s. "
                "The message is not taken back; it may still be handled."
            )
        return reply.result()

    def stop_here(self) -> None:
        """As `stop(block=False)`; if the actor is idle, it stops on this thread, now. If it has: nothing."""
        mailbox = self.mailbox
        if not mailbox.stopped and mailbox.dispatcher.mark is process.mark:
            mailbox.put_here(Envelope(messages._ActorStop(), NOBODY))  # pyright: ignore[reportPrivateUsage] - as Pykka's `stop` does

    def _unreachable(self) -> IntermissionError:
        if self.mailbox.dispatcher.forked:
            return SystemForkedError()
        return dead(str(self), "has stopped, and takes no messages", self.mailbox.error)


def dead(who: str, what: str, cause: Exception | None) -> ActorDeadError:
    """Return the error that says that `who` has stopped, and why."""
    because = f", since it failed: {type(cause).__name__}" if cause else ""
    error = ActorDeadError(f"{who} {what}{because}. The message was not handled.")
    error.__cause__ = cause
    return error
