"""`watch`: processes that have left the group of their tool call are residual work until they have ended."""

import logging
from collections.abc import Mapping

from intermission.kernel.timer import default_timer
from intermission.processes.groups import Descendant
from intermission.runs.work import Piece, Work

__all__ = ["watch"]

logger = logging.getLogger(__name__)

_AGAIN = 0.2  # seconds between looks: nobody is told of the end of a process that is not one's child


def watch(work: Work, call_id: str, process: Descendant, extra: Mapping[str, object]) -> None:
    """List a process among a run's work until it has ended, and log that it was left.

    Args:
        work: The run's.
        call_id: The call that has started it.
        process: It.
        extra: For the log.
    """
    piece = Piece("process", f"{process.command} (process {process.pid})", call_id)
    work.begin(piece)
    work.give_up(piece, "it has left the process group of its tool call, which is over")
    logger.warning(
        "%s has left the process group of tool call %s, which is over, and goes on",
        piece.name,
        call_id,
        extra=extra,
    )
    _look(work, piece, process)


def _look(work: Work, piece: Piece, process: Descendant) -> None:
    # On the timer that is never closed: it may outlive the runner.
    if process.is_alive:
        default_timer().call_later(_AGAIN, _look, work, piece, process)
    else:
        work.end(piece)
