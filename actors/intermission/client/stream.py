"""`AgentStream`: a turn whose events are given to a listener, on one thread of its own."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, Protocol

from intermission.client import turns
from intermission.client.errors import CancelledError, ListenerError, ValidationError
from intermission.client.result import LlmResult
from intermission.client.turns import TurnResult
from intermission.client.waits import wait_until
from intermission.errors import SessionClosedError
from intermission.events import Event
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.kernel.waits import ReentrantRunError
from intermission.runs.result import CancelSource
from intermission.runs.run import Run, lifecycle_of
from intermission.runs.waiting import Deadline, waiting
from intermission_storage.wakeup import Wakeup

__all__ = ["AgentStream", "Listener"]

logger = logging.getLogger(__name__)

_CANCELS: Final = (Cancelled, CancelledError, asyncio.CancelledError, concurrent.futures.CancelledError)


class Listener(Protocol):
    """Who listens to a stream. All calls come from one thread, which is none of yours, one after another.

    Beside `on_event` it may have two methods for the end, of which one is called, once, after all events:
    `on_complete(result)`, with the `TurnResult` of a turn that is a success, and `on_error(error)`.
    """

    def on_event(self, event: Event) -> object:
        """Take an event.

        What it raises ends the turn as failed. `CancelScope.current()` is a scope for the listener alone: to
        cancel it, or to raise `Cancelled`, cancels the turn.
        """
        ...


class AgentStream:
    """A turn under way, whose events a listener is given. `AgentClient.stream` and its kin make it.

    A listener that is slow holds up nobody: beyond a thousand events partials are dropped, with one marker
    for the gap, and stored events are read back from the log.

    Args:
        run: The turn; its session has taken it.
        listener: Who listens.
        over: Called when the thread is at its end.
    """

    def __init__(self, run: Run, listener: Listener, over: Callable[["AgentStream"], object]) -> None:
        self._run = run
        self._turn = lifecycle_of(run)
        self._listener = listener
        self._over = over
        self._dropped = False  # events are given no more
        self._fatal = False
        self._scope = CancelScope.child_of(None)
        self._context = copy_context()
        self._context.run(self._scope.cover)
        self._changed = Wakeup()
        self._result: LlmResult[TurnResult] | None = None
        name = f"intermission-stream-{self._turn.invocation_id or self.session_id}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @property
    def session_id(self) -> str:
        """The session of the turn."""
        return self._turn.key.session_id

    @property
    def invocation_id(self) -> str | None:
        """The turn's id; `None` while it waits to go on with one that its answers tell."""
        return self._turn.invocation_id

    @property
    def is_done(self) -> bool:
        """Whether the listener has returned from its last call, and the result is there."""
        return self._result is not None

    def cancel(self, reason: str = "") -> None:
        """Cancel the turn, and return when it has ended; after five seconds with a warning in the log.

        Of the events the listener gets no more than the one in hand, then its last call: `on_error` with the
        cancellation, or `on_complete` if the turn was over before. Any thread may call this, the listener's
        too, any number of times. A cancel of the caller's own scope does not shorten the wait.
        """
        warn_of_blocking("AgentStream.cancel", "asyncio.to_thread with it")
        self._dropped = True
        if self._is_here():
            turns.end(self._turn, reason)

    def result(self, timeout: float | None = None) -> LlmResult[TurnResult]:
        """Wait until the listener has returned from its last call; return what the turn came to.

        It is the same object each time. If the scope of who waits is cancelled meanwhile, a failed result is
        returned that says so; the turn goes on, and can be waited for again. In the listener, and in a tool
        that the turn waits for, who would wait for themselves, it is a failed result at once.

        Args:
            timeout: Seconds to wait; `None` waits as long as it takes.

        Raises:
            TimeoutError: It was not there in time. The turn goes on.
            ValueError: `timeout` is NaN.
        """
        warn_of_blocking("AgentStream.result", "asyncio.to_thread with it")
        deadline, scope = Deadline(timeout), CancelScope.current()
        if threading.current_thread() is self._thread:
            error = ValidationError("a listener cannot wait for its own stream: it would wait for itself")
            return LlmResult[TurnResult].failure(error)
        if not self._is_here():
            what = "this process is a fork of the one that has this stream, whose turn goes on there"
            return LlmResult[TurnResult].failure(SessionClosedError(what))
        try:
            with waiting(self._turn):
                wait_until(self._changed, lambda: self.is_done, deadline.left, scope)
        except ReentrantRunError as error:
            return LlmResult[TurnResult].failure(error)
        if self._result is not None:
            return self._result
        if scope is not None and scope.cancelled:
            what = "the wait was cancelled, and the turn goes on"
            return LlmResult[TurnResult].failure(turns.cancelled(what, scope, self._turn))
        raise TimeoutError(f"the stream has not ended within {timeout} s; its turn goes on")

    def _is_here(self) -> bool:
        return self._thread.is_alive() or self._result is not None

    # For the client.

    def start(self) -> None:
        """Begin to give events.

        Raises:
            RuntimeError: The system has no more threads.
        """
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, unless this is it."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    # On the thread.

    def _work(self) -> None:
        try:
            error = self._give_events()
            ended = turns.outcome(self._turn)  # it comes first, whatever the stream ends with
            result = ended if error is None else LlmResult[TurnResult].failure(error)
            if not self._fatal:
                self._give_end(result)
            self._result = result
        finally:
            self._changed.wake()
            self._over(self)

    def _give_events(self) -> Exception | None:
        """Give the events; return what the stream ends with, if that is not the end of the turn."""
        events = iter(self._run)
        while True:
            try:
                event = next(events, None)
            except Exception as error:  # noqa: BLE001 - the error of the turn, or the log cannot be read
                return self._unreadable(error)
            if event is None or self._dropped:
                return None
            try:
                self._context.run(self._listener.on_event, event)
            except _CANCELS as error:
                return self._cancelled(error)
            except Exception as error:  # noqa: BLE001 - it is the turn's failure, and what `on_error` gets
                if self._scope.cancelled:
                    return self._cancelled(error)
                self._turn.fail(error)
                return error
            except BaseException as error:  # noqa: BLE001 - there is nobody above who could take it
                self._fatal = True
                self._turn.cancel(CancelSource.CALLER, "its listener failed fatally")
                return ListenerError(error)
            if self._scope.cancelled:
                return self._cancelled(None)

    def _unreadable(self, error: Exception) -> Exception | None:
        result = self._turn.result
        if result is not None and result.error is error:
            return None
        self._turn.cancel(CancelSource.CONSUMER_LOST, "its events cannot be read back")
        return error

    def _cancelled(self, cause: BaseException | None) -> CancelledError:
        reason = self._scope.reason or (str(cause) if isinstance(cause, Cancelled) else "")
        self._turn.cancel(CancelSource.CALLER, reason)
        error = CancelledError(
            "the listener was cancelled, and its turn with it",
            reason=reason,
            session_id=self.session_id,
            invocation_id=self.invocation_id,
        )
        error.__cause__ = cause
        return error

    def _give_end(self, result: LlmResult[TurnResult]) -> None:
        name, given = (
            ("on_complete", result.get_or_none()) if result.is_success else ("on_error", result.error)
        )
        self._context.run(CancelScope.child_of(None).cover)  # the end is told whatever was cancelled
        try:
            callback: Callable[[Any], object] | None = getattr(self._listener, name, None)
            if callback is not None:
                self._context.run(callback, given)
        except BaseException:  # it is logged, and the outcome stands
            extra = {"session": self.session_id, "invocation": self.invocation_id}
            logger.exception("%s of a listener raised", name, extra=extra)
