"""`wait_until`: waiting for something to be true, which a scope ends, too."""

from collections.abc import Callable

from intermission.kernel.scope import CancelScope
from intermission_storage.wakeup import Wakeup

__all__ = ["wait_until"]


def wait_until(
    changed: Wakeup, is_true: Callable[[], bool], timeout: float | None, scope: CancelScope | None
) -> bool:
    """Return whether it is true, when it is, or the scope is cancelled, or so many seconds have passed.

    A signal handler that cancels the scope ends the wait of the main thread that it interrupts.

    Args:
        changed: Woken when it may have become true.
        is_true: What is waited for.
        timeout: Seconds; `None` waits as long as it takes.
        scope: The scope of who waits; `None` for a wait that no cancel shortens.
    """
    if scope is None:
        return changed.wait_until(is_true, timeout)
    hook = scope.on_cancel_now(changed.wake)
    try:
        changed.wait_until(lambda: is_true() or scope.cancelled, timeout)
    finally:
        hook.remove()
    return is_true()
