"""`OpenCall`: one blocking call of a run, and the ticket that decides who goes on after it.

The thread that makes the call takes the ticket when it returns. Whoever gives the call up, by a time-out, by
`cancel_call` or because the run is cancelled, takes it before: then the run goes on without the call, and
the thread finds its ticket gone. What it brings is dropped, and until it comes back it is residual work.
"""

import _thread
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from intermission.errors import IntermissionError
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.runs.current import current_call
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.services import Services
from intermission.runs.work import Piece

__all__ = ["Blocking", "CallGivenUpError", "OpenCall", "Outcome"]

logger = logging.getLogger(__name__)


class CallGivenUpError(IntermissionError):
    """The run goes on without a call.

    Attributes:
        status: What the model is told: `"stopped"`, `"timeout"`, or `"overload"` for a call that was not begun.
    """

    def __init__(self, status: str, reason: str) -> None:
        effect = "It was not begun" if status == "overload" else "It may or may not have had its effect"
        super().__init__(f"The call was given up: {reason}. {effect}.")
        self.status = status


class Outcome(NamedTuple):
    """What a call came to."""

    value: Any = None
    error: Exception | None = None


@dataclass(slots=True)
class Blocking:
    """A call that may block.

    Attributes:
        function: Called with the call's scope.
        what: See `Piece`.
        name: See `Piece`.
        call_id: See `Piece`.
        timeout: Seconds until the call is given up; `None` for no limit.
    """

    function: Callable[[CancelScope], Any]
    what: str
    name: str
    call_id: str | None = None
    timeout: float | None = None


class OpenCall:
    """A call that is made, or will be.

    Args:
        run: Whose call it is.
        services: What runs share.
        parent: The scope above the call's.
        blocking: What is to be called.
        go_on: Called, once, with the outcome if the call was given up while the run goes on; on the thread
            that gives it up. It must be quick.
        leave: Called, once, if it was given up because the run, or its branch, is cancelled. As quick.
    """

    __slots__ = (
        "_blocking",
        "_go_on",
        "_leave",
        "_parent",
        "_run",
        "_services",
        "_ticket",
        "piece",
        "scope",
    )

    def __init__(
        self,
        run: Lifecycle,
        services: Services,
        parent: CancelScope,
        blocking: Blocking,
        go_on: Callable[[Outcome], None],
        leave: Callable[[], None],
    ) -> None:
        self._run = run
        self._services = services
        self._parent = parent
        self._blocking = blocking
        self._go_on = go_on
        self._leave = leave
        self._ticket = _thread.allocate_lock()
        self.piece = Piece(blocking.what, blocking.name, blocking.call_id)
        self.scope = CancelScope.child_of(parent)
        run.work.begin(self.piece)
        if blocking.call_id is not None:
            run.calls[blocking.call_id] = self.give_up

    def perform(self) -> Outcome | None:
        """Make the call on this thread; return its outcome, or `None` if it was given up meanwhile."""
        timer = None
        if self._blocking.timeout is not None:
            timer = self._services.timer.call_later(self._blocking.timeout, self._expire)
        hook = self.scope.on_cancel_now(self._cancelled)
        try:
            outcome = self._call()
        finally:
            mine = self._ticket.acquire(blocking=False)
            if timer is not None:
                timer.cancel()
            hook.remove()
            self._end()
        return outcome if mine else None

    def give_up(self, status: str, reason: str) -> bool:
        """Let the run go on without the call, and return whether it had not returned yet."""
        if not self._ticket.acquire(blocking=False):
            return False
        self._run.work.give_up(self.piece, reason)
        self._go_on(Outcome(error=CallGivenUpError(status, reason)))
        self.scope.cancel(reason)
        return True

    def abandon(self) -> None:
        """The call was never begun, and will not be."""
        if self._ticket.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        self.scope.close()
        if self.piece.call_id is not None:
            self._run.calls.pop(self.piece.call_id, None)
        self._run.work.end(self.piece)

    def _call(self) -> Outcome:
        try:
            with current_call(self._run, self.scope):
                self.scope.check()
                return Outcome(self._blocking.function(self.scope))
        except Exception as error:  # noqa: BLE001 - it is the caller's to handle
            return Outcome(error=error)
        except Cancelled:
            # The slot decides whether the run is over, not an exception: an own one here is a failure.
            return Outcome(error=CallGivenUpError("stopped", self.scope.reason or "it cancelled itself"))
        except BaseException as error:  # noqa: BLE001 - a SystemExit of user code must not end a worker
            return Outcome(error=ActorCrashError.of("user code", error))

    def _expire(self) -> None:
        self.give_up("timeout", f"it took longer than {self._blocking.timeout} s")

    def _cancelled(self) -> None:
        # A call whose own scope alone is cancelled was asked to end, and may yet bring something.
        if self._parent.cancelled and self._ticket.acquire(blocking=False):
            self._run.work.give_up(self.piece, self.scope.reason or "the run was cancelled")
            self._leave()
