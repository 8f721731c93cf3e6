"""What a thread stands at while it waits: a bare lock that is taken, and that whoever wakes it releases.

Opening one takes no other lock, so a signal handler or a finaliser may do it.
"""

import _thread
import asyncio
import threading
from contextlib import suppress

from intermission.kernel.timer import Timer

__all__ = ["hold", "new_gate", "open_gate", "refuse_in_loop"]


def new_gate() -> _thread.LockType:
    """Return a gate that is shut."""
    gate = _thread.allocate_lock()
    gate.acquire()
    return gate


def open_gate(gate: _thread.LockType) -> None:
    """Let the one who stands at the gate, or will, go on. Again: nothing."""
    with suppress(RuntimeError):  # it is open
        gate.release()


def hold(gate: _thread.LockType, timeout: float | None, timer: Timer) -> None:
    """Stand at the gate until it is open, or for `timeout` seconds by the timer's clock."""
    if timeout is None:
        gate.acquire()
    elif timer.is_steered and timeout > 0:
        alarm = timer.call_later(timeout, open_gate, gate)
        try:
            gate.acquire()
        finally:
            alarm.cancel()
    else:
        gate.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX))


def refuse_in_loop(name: str, instead: str = "asleep() of the scope") -> None:
    """See that this thread runs no event loop.

    Raises:
        RuntimeError: It does; the text names what to await instead.
    """
    # The one that raises where there is no loop costs ten times as much, and nearly always there is none.
    if asyncio._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage]  # exported all the same
        raise RuntimeError(
            f"{name}() would freeze the event loop that runs on this thread; await {instead} instead"
        )
