"""`OpenCall`: one call of a run, and the ticket that decides who goes on after it.

The thread that makes the call takes the ticket when it returns. Whoever gives the call up, by a time-out, by
`cancel_call` or because the run is cancelled, takes it before: then the run goes on without the call, and
the thread finds its ticket gone. What it brings is dropped, and until it comes back it is residual work.

A call may go on without its thread, as a task on the loop of async tools. Then the task takes the ticket when
it has ended, and whoever gives the call up cancels the task.
"""

import _thread
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from intermission.errors import (
    IntermissionError,
    ModelError,
    ModelErrorKind,
    ToolFailedError,
    UnrequestedCancelError,
)
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.cancel_hooks import CancelHandle
from intermission.kernel.loop_task import LoopTask
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import TimerHandle
from intermission.runs.async_calls import CANCEL_ERRORS, LATER, Later
from intermission.runs.current import CurrentCall
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import CancelSource
from intermission.runs.services import Services
from intermission.runs.work import Piece

__all__ = ["Blocking", "CallGivenUpError", "OpenCall", "Outcome"]

logger = logging.getLogger(__name__)

_CALLED = {"callback": "the hook ", "call": "the function ", "tool": "tool "}  # by `Piece.what`
_PATIENCE = 5.0  # seconds until a timer that is being closed will not do it any more


class CallGivenUpError(IntermissionError):
    """The run goes on without a call.

    Attributes:
        status: What the model is told: `"stopped"`, `"timeout"`, or `"overload"` for want of a thread.
        outcome: `"not_started"`, or `"unknown"` for one that had begun.
    """

    def __init__(self, status: str, reason: str, *, begun: bool = True) -> None:
        effect = "It may or may not have had its effect" if begun else "It was not begun"
        super().__init__(f"The call was given up: {reason}. {effect}.")
        self.status = status
        self.outcome = "unknown" if begun else "not_started"


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
        detach: Called with the outcome of a call that goes on without its thread; whoever made the call goes
            on at once, with the outcome `LATER`. Without it nobody goes on before the call has ended.
        opened: Called with `OpenCall.give_up` before the call begins.
    """

    function: Callable[[CancelScope], Any]
    what: str
    name: str
    call_id: str | None = None
    timeout: float | None = None
    detach: Callable[[Outcome], None] | None = None
    opened: Callable[[Callable[[str, str, CancelSource | None], bool]], None] | None = None


class OpenCall:
    """A call that is made, or will be.

    Args:
        run: Whose call it is.
        services: What runs share.
        parent: The scope above the call's.
        blocking: What is to be called.
        go_on: Called, once, with the outcome if the call was given up while the run goes on, or has ended
            without its thread; on the thread where that happens. It must be quick.
        leave: Called, once, if it was given up because the run, or its branch, is cancelled. As quick.
    """

    __slots__ = (
        "_begun",
        "_blocking",
        "_decided",
        "_handlers",
        "_hook",
        "_parent",
        "_run",
        "_services",
        "_task",
        "_ticket",
        "_timer",
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
        # Whoever has the ticket writes what was decided, then takes out who is told of it.
        self._handlers = [(go_on, leave)]
        self._decided: tuple[Outcome | None] | None = None
        self._ticket = _thread.allocate_lock()
        self._begun = False
        self._task: LoopTask | None = None
        self._timer: TimerHandle | None = None
        self._hook: CancelHandle | None = None
        self.piece = Piece(blocking.what, blocking.name, blocking.call_id)
        self.scope = CancelScope.child_of(parent)
        run.work.begin(self.piece)
        if blocking.call_id is not None:
            run.calls[blocking.call_id] = self.give_up
        if blocking.opened is not None:
            blocking.opened(self.give_up)

    def perform(self) -> Outcome | None:
        """Make the call on this thread; return its outcome.

        It is `None` if it was given up meanwhile, or goes on without this thread; then others go on, too. But
        if the call has a `detach`, its value is `LATER`.
        """
        self._begun = True
        if self._blocking.timeout is not None:
            self._timer = self._services.timer.call_later(self._blocking.timeout, self._expire)
        self._hook = self.scope.on_cancel_now(self._cancelled)
        outcome, mine = Outcome(), False
        try:
            outcome = self._call()
        finally:
            if not isinstance(outcome.value, Later):
                mine = self._ended()
                self._end(outcome if self._is_late(mine) else None)
        if isinstance(outcome.value, Later):
            return self._go_on_later(outcome.value)
        return outcome if mine else None

    def give_up(self, status: str, reason: str, source: CancelSource | None) -> bool:
        """Let the run go on without the call, and return whether it had not returned yet.

        Args:
            status: What the model is told; see `CallGivenUpError`.
            reason: For the model, and for the call's scope.
            source: For the call's scope.
        """
        settled: list[bool] = []  # by a thread that no interrupt reaches: who has the ticket must use it

        def settle() -> None:
            if not settled:
                settled.append(self._give_up(status, reason, source))
                gate.release()

        gate = _thread.allocate_lock()
        gate.acquire()
        try:
            self._services.timer.call_soon(settle)
        except RuntimeError:  # the runner is closed
            return False
        gate.acquire(timeout=_PATIENCE)
        return settled == [True]

    def _give_up(self, status: str, reason: str, source: CancelSource | None) -> bool:
        if not self._ticket.acquire(blocking=False):
            return False
        self._run.work.give_up(self.piece, reason)
        self.scope.cancel(reason, source=source)
        self._decide(Outcome(error=CallGivenUpError(status, reason, begun=self._begun)))
        return True

    def abandon(self) -> None:
        """The call was never begun, and will not be."""
        if self._ticket.acquire(blocking=False):
            self._end()

    def _ended(self) -> bool:
        """It has really ended, as `_end` will say; return whether nobody has given it up."""
        mine = self._ticket.acquire(blocking=False)
        if self._timer is not None:
            self._timer.cancel()
        hook, self._hook = (
            self._hook,
            None,
        )  # it holds this call: a circle would be left to the garbage collection
        if hook is not None:
            hook.remove()
        return mine

    def _is_late(self, mine: bool) -> bool:
        # Where the run is cancelled, whoever gives its calls up may come behind the call's own return.
        return not mine or self._parent.cancelled

    def _end(self, late: Outcome | None = None) -> None:
        self.scope.close()
        if late is not None and late.error is not None:
            self._log_late(late.error)
        if self.piece.call_id is not None:
            self._run.calls.pop(self.piece.call_id, None)
        self._run.work.end(self.piece, late)

    def _log_late(self, error: Exception) -> None:
        """No run takes note of what a call raises that was given up; what a cancel brings on is no news."""
        if isinstance(error, ToolFailedError | CallGivenUpError):  # whoever made it has logged what it was
            return
        if isinstance(error, ModelError) and error.kind is ModelErrorKind.CANCELLED:
            return
        what, name, extra = self.piece.what, self.piece.name, self._run.work.extra
        logger.error("%s %s raised after it was given up", what, name, exc_info=error, extra=extra)

    def _call(self) -> Outcome:
        thread = threading.current_thread()
        name, thread.name = thread.name, f"intermission-run-{self._run.key.session_id}"  # for who dumps them
        try:
            if self._blocking.what == "tool":  # what it sets is its own
                return self._run.context.copy().run(self._call_here)
            return self._call_here()
        except Exception as error:  # noqa: BLE001 - it is the caller's to handle
            return Outcome(error=error)
        except BaseException as error:  # noqa: BLE001 - a SystemExit of user code must not end a worker
            return self._broken_off(error)
        finally:
            thread.name = name

    def _call_here(self) -> Outcome:
        with CurrentCall(self._run, self.scope, self.piece):
            self.scope.check()
            if self._ticket.locked():
                return Outcome()  # it was given up before it began
            return Outcome(self._blocking.function(self.scope))

    def _broken_off(self, error: BaseException) -> Outcome:
        if not isinstance(error, CANCEL_ERRORS):
            return Outcome(error=ActorCrashError.of("user code", error))
        # The slot decides whether the run is over, not an exception.
        if self.scope.cancelled:  # by the call itself, if it is not dropped
            return Outcome(error=CallGivenUpError("stopped", self.scope.reason or "it cancelled itself"))
        if self.piece.what != "model":
            return Outcome(error=UnrequestedCancelError(_CALLED[self.piece.what] + self.piece.name, error))
        failure = ModelError(
            f"model {self.piece.name} was cancelled, and not by its run", kind=ModelErrorKind.CANCELLED
        )
        failure.__cause__ = error
        return Outcome(error=failure)

    def _go_on_later(self, later: Later) -> Outcome | None:
        """Leave the rest of the call to the loop of async tools."""
        answer: Outcome | None = None
        if self._blocking.detach is not None and self._handlers:
            try:
                self._handlers.pop()
            except IndexError:  # it was given up just now, and others go on
                pass
            else:
                answer = Outcome(LATER)
                self._handlers.append((self._blocking.detach, _nobody))
                if self._decided is not None:
                    self._tell()
        if self._ticket.locked() and later.drop():
            self._ended()
            self._end()
            return answer
        done, name = partial(self._done, later), self._blocking.name
        self.piece.on_thread = False
        try:
            self._task = self._services.loops.start(later.awaitable, done, context=later.context, name=name)
        except RuntimeError as error:
            later.drop()
            self._done(later, None, CallGivenUpError("overload", str(error), begun=False))
            return answer
        if self.scope.cancelled:
            self._task.cancel()
        return answer

    def _done(self, later: Later, value: Any, error: BaseException | None) -> None:
        mine = self._ended()
        self._end(self._outcome(later, value, error) if self._is_late(mine) else None)
        if not mine:
            return
        if self._parent.cancelled:
            self._decide(None)
        else:
            self._decide(self._outcome(later, value, error))

    def _outcome(self, later: Later, value: Any, error: BaseException | None) -> Outcome:
        if isinstance(error, CallGivenUpError):
            return Outcome(error=error)
        # Of a tool it is a failure like any other, if nobody has cancelled it.
        failed = self.piece.what == "tool" and isinstance(error, CANCEL_ERRORS) and not self.scope.cancelled
        if error is not None and not isinstance(error, Exception) and not failed:
            return self._broken_off(error)
        try:
            return Outcome(later.respond(value, error))
        except Exception as raised:  # noqa: BLE001 - it is the caller's to handle
            return Outcome(error=raised)

    def _decide(self, outcome: Outcome | None) -> None:
        """Say, with the ticket in hand, what the call came to; `None` means that its run is left."""
        self._decided = (outcome,)
        self._tell()

    def _tell(self) -> None:
        try:
            go_on, leave = self._handlers.pop()
        except IndexError:  # they are being changed, and are told then
            return
        assert self._decided is not None
        (outcome,) = self._decided
        if outcome is None:
            leave()
        else:
            go_on(outcome)

    def _expire(self) -> None:
        reason = f"it took longer than {self._blocking.timeout} s"
        self._give_up("timeout", reason, CancelSource.DEADLINE)

    def _cancelled(self) -> None:
        # A call whose own scope alone is cancelled was asked to end, and may yet bring something.
        if self._parent.cancelled:
            try:
                self._services.timer.call_soon(self._leave_call)  # a thread that no interrupt reaches
            except RuntimeError:  # the runner is closed
                self._leave_call()
        if self._task is not None:
            self._task.cancel()

    def _leave_call(self) -> None:
        if self._ticket.acquire(blocking=False):
            self._run.work.give_up(self.piece, self.scope.reason or "the run was cancelled")
            self._decide(None)


def _nobody() -> None:
    """Who has gone on already finds out itself that the run is over."""
