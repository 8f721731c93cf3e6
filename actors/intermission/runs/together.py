"""`Together`: calls of one strand that overlap, on workers of their own and on the loop of async tools."""

import _thread
import threading
from collections.abc import Callable
from functools import partial

from intermission.kernel.cancel_hooks import CancelHandle
from intermission.kernel.scope import CancelScope
from intermission.runs.async_calls import LATER
from intermission.runs.calls import Blocking, CallGivenUpError, OpenCall, Outcome
from intermission.runs.line import Line
from intermission.runs.signals import RunOver

__all__ = ["Latch", "Together"]


class Latch:
    """Lets one thread wait until a count of others have arrived, or a scope is cancelled."""

    def __init__(self, count: int, scope: CancelScope) -> None:
        self._guard = _thread.allocate_lock()
        self._count = count
        self._released = False
        self._waiting = _thread.allocate_lock()
        self._waiting.acquire()
        self._hook = scope.on_cancel_now(self._release)

    def arrive(self) -> None:
        """One more is there."""
        with self._guard:
            self._count -= 1
            done = self._count <= 0
        if done:
            self._release()

    def wait(self) -> None:
        """Return when all have arrived, or the scope is cancelled."""
        with self._waiting:
            pass
        self._hook.remove()

    def _release(self) -> None:
        with self._guard:
            if self._released:
                return
            self._released = True
        self._waiting.release()


class Together:
    """Calls of a strand that overlap. No thread waits for them: the last one to end has the strand go on.

    Args:
        strand: Whose calls they are.
        count: How many.
        settled: Called with a call's place, its outcome, whether it is the last one, and whether the strand
            itself settles it; on whatever thread, for each call once, one at a time.
        failed: Called after `settled` has raised while others are open.

    Attributes:
        error: The first that `settled` raised. The strand gets it when all are settled.
    """

    def __init__(
        self,
        strand: Line,
        count: int,
        settled: Callable[[int, Outcome, bool, bool], None],
        failed: Callable[[], None],
    ) -> None:
        self.error: Exception | None = None
        self._strand = strand
        self._open = count
        self._settled = settled
        self._failed = failed
        # Reentrant: a signal handler may give up a call wherever it hits.
        self._lock = threading.RLock()
        self._suspended: list[Line] = []  # whoever takes the strand out has it go on
        self._hook: CancelHandle | None = None

    def settler(self, index: int) -> Callable[[Outcome], None]:
        """Return what is to be called with the outcome of the call at a place."""
        return partial(self.settle, index)

    def settle(self, index: int, outcome: Outcome, *, here: bool = False) -> None:
        """Take the outcome of the call at a place; `here` is said by the strand, between two effects."""
        error: Exception | None = None
        with self._lock:
            self._open -= 1
            last = self._open == 0
            try:
                self._settled(index, outcome, last, here)
            except RunOver:
                pass  # the strand finds that out itself
            except Exception as raised:  # noqa: BLE001 - raised by the strand, when all are settled
                error = raised
                self.error = self.error or raised
        if error is not None and not last:
            self._failed()
        if last:
            self._resume()

    def submit(self, index: int, blocking: Blocking) -> None:
        """Make a call on a worker of its own."""
        strand, settle = self._strand, self.settler(index)
        environment = strand.environment
        call = OpenCall(
            environment.run, environment.services, strand.scope, blocking, go_on=settle, leave=_leave
        )
        environment.submit(_perform, call, settle, refused=partial(_refuse, call, settle))

    def suspend(self) -> Outcome | None:
        """Return an outcome if all are settled, else `None`: somebody goes on with the strand when they are.

        What the strand owes is stored meanwhile.
        """
        hook = self._hook = self._strand.scope.on_cancel_now(self._left)
        with self._lock:
            if self._open == 0:
                hook.remove()
                return Outcome(error=self.error)
            self._strand.journal_owed()
            self._suspended.append(self._strand)
        if self._strand.scope.cancelled:
            self._left()
        return None

    def _resume(self) -> None:
        strand = self._take_strand()
        if strand is not None:
            if self._hook is not None:
                self._hook.remove()
            strand.resume(Outcome(error=self.error))

    def _left(self) -> None:
        strand = self._take_strand()
        if strand is not None:
            strand.leave()

    def _take_strand(self) -> Line | None:
        try:
            return self._suspended.pop()
        except IndexError:
            return None


def _perform(call: OpenCall, settle: Callable[[Outcome], None]) -> None:
    outcome = call.perform()
    if outcome is not None and outcome.value is not LATER:
        settle(outcome)


def _leave() -> None:
    """The strand finds out itself."""


def _refuse(call: OpenCall, settle: Callable[[Outcome], None]) -> None:
    call.abandon()
    settle(Outcome(error=CallGivenUpError("overload", "no worker was free in time", begun=False)))
