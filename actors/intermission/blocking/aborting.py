"""`Aborter`: for waits inside other people's code, which end when something is done to what they wait for."""

import _thread
from collections.abc import Callable

from intermission.kernel.gates import new_gate
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import TimerHandle, default_timer

__all__ = ["Aborter"]

_PATIENCE = 5.0  # seconds; an action takes microseconds, and its thread may have to wait for a processor


class Aborter:
    """From its making to `leave`, a cancel of `scope` calls `action`, and calls it again until then.

    Once is not enough: the code that it shall end may be just before its wait, where there is nothing to end.

    Args:
        scope: The scope.
        action: Called on the canceller's thread or the timer's, maybe by two at a time. It does not block.
        again: Seconds between two calls.
    """

    __slots__ = ("_acting", "_action", "_again", "_alarm", "_handle", "_left", "fired")

    def __init__(self, scope: CancelScope, action: Callable[[], object], again: float) -> None:
        self._action = action
        self._again = again
        self._acting: dict[_thread.LockType, None] = {}
        self._alarm: TimerHandle | None = None
        self._left = False
        self.fired = False
        self._handle = scope.on_cancel_now(self._fire)

    def leave(self) -> bool:
        """Return whether `action` was called. It is over, and is never called again."""
        self._handle.remove()
        self._left = True
        for gate in list(self._acting):
            gate.acquire(timeout=_PATIENCE)
        if self._alarm is not None:
            self._alarm.cancel()
        return self.fired

    def _fire(self) -> None:
        # First we say that we act, then we look whether it is over; `leave` does it in the other order.
        gate = new_gate()
        self._acting[gate] = None
        try:
            if self._left:
                return
            self.fired = True
            self._action()
        finally:
            self._acting.pop(gate, None)
            gate.release()
        self._alarm = default_timer().call_later(self._again, self._fire)
