"""`warn_of_blocking`: says that a call which blocks stands on the thread of an event loop."""

import asyncio
import logging

__all__ = ["warn_of_blocking"]

logger = logging.getLogger(__name__)

_warned: set[str] = set()


def warn_of_blocking(name: str, twin: str) -> None:
    """Log, once for each name, that a blocking call stands on a thread whose event loop it holds up.

    Args:
        name: The call.
        twin: What to await instead.
    """
    if name in _warned:
        return
    # The one that raises where there is no loop costs ten times as much, and nearly always there is none.
    if asyncio._get_running_loop() is None:  # pyright: ignore[reportPrivateUsage]  # exported all the same
        return
    _warned.add(name)
    logger.warning("%s blocks the event loop of this thread; use %s there", name, twin)
