"""`Together`: blocking calls at the same time, each on a worker of its own."""

import _thread
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from intermission.kernel.scope import CancelScope
from intermission.runs.calls import Blocking, CallGivenUpError, OpenCall, Outcome
from intermission.runs.signals import RunOver

if TYPE_CHECKING:
    from intermission.runs.strand import Strand

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
    """Calls that are made at the same time.

    Args:
        blockings: The calls.
        settled: Called with a call's place and its outcome, on whatever thread, for each call once; after
            the strand has left, for none.
    """

    def __init__(self, blockings: Sequence[Blocking], settled: Callable[[int, Outcome], None]) -> None:
        self._blockings = blockings
        self._settled = settled
        self._error: Exception | None = None

    def wait(self, strand: "Strand") -> None:
        """Make the calls, and return when all are settled.

        Raises:
            RunOver: The strand's scope was cancelled meanwhile.
            Exception: The first that a call's settling raised.
        """
        environment = strand.environment
        latch = Latch(len(self._blockings), strand.scope)
        for index, blocking in enumerate(self._blockings):

            def settle(outcome: Outcome, index: int = index) -> None:
                try:
                    self._settled(index, outcome)
                except Exception as error:  # noqa: BLE001 - raised by the strand, when all are settled
                    self._error = self._error or error
                latch.arrive()

            call = OpenCall(
                environment.run, environment.services, strand.scope, blocking, go_on=settle, leave=_leave
            )
            environment.submit(self._perform, call, settle, refused=lambda c=call, s=settle: _refuse(c, s))
        latch.wait()
        if strand.scope.cancelled:
            raise RunOver
        if self._error is not None:
            raise self._error

    @staticmethod
    def _perform(call: OpenCall, settle: Callable[[Outcome], None]) -> None:
        outcome = call.perform()
        if outcome is not None:
            settle(outcome)


def _leave() -> None:
    """The strand waits on its scope itself."""


def _refuse(call: OpenCall, settle: Callable[[Outcome], None]) -> None:
    call.abandon()
    settle(Outcome(error=CallGivenUpError("overload", "no worker was free in time")))
