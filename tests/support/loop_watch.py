"""`LoopWatch`: what a thread with an event loop does that may make it wait. `heartbeat`: how long it did."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import CodeType, FrameType
from typing import Any, Self

from intermission.kernel import gates
from intermission.kernel.promise import Promise
from intermission.kernel.ref import Reply
from intermission_storage import LmdbEventLog, MemoryEventLog
from intermission_storage.wakeup import Latch

__all__ = ["STALL", "LoopWatch", "heartbeat"]

STALL = 1.0  # seconds that a step of a loop may take on a busy machine; measured, it takes some milliseconds
_BEAT = 0.001  # seconds

_LOG = ["append", "submit", "delete", "read", "follow", "head", "streams", "index", "close"]
_FUNCTIONS: list[Any] = [
    *(Latch.wait, Promise[Any].wait, Reply.wait, gates.hold),
    *(threading.Condition.wait, threading.Condition.wait_for, threading.Thread.join),
    *(getattr(log, name) for log in (LmdbEventLog, MemoryEventLog) for name in _LOG),
]
_WAITS: dict[CodeType, str] = {one.__code__: one.__qualname__ for one in _FUNCTIONS}
_SYSTEM = frozenset(
    {
        *("fsync", "fdatasync", "getaddrinfo", "connect", "recv", "recv_into", "sendall", "accept"),
        *("lockf", "flock", "waitpid", "sleep"),
    }
)
_BETWEEN = {threading.Thread.start.__code__, threading.Semaphore.acquire.__code__}
"""Who starts a thread waits until it is there, and an executor looks for an idle one, for 0 seconds."""


class LoopWatch:
    """Notes each wait, each use of the log and each call of the system that may block on the thread that
    enters it.

    Attributes:
        seen: What there was, each with who called it.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            name = _WAITS.get(frame.f_code)
            if name is not None and not _is_let_pass(frame):
                self.seen.append(f"{name} from {_place(frame.f_back)}")
        elif event == "c_call" and arg.__name__ in _SYSTEM and _is_ours(frame):
            self.seen.append(f"{arg.__qualname__} from {_place(frame)}")


def _is_ours(frame: FrameType) -> bool:
    # asyncio's own calls are on sockets that do not block.
    return not frame.f_globals.get("__name__", "").startswith(("asyncio", "selectors"))


def _is_let_pass(frame: FrameType) -> bool:
    above: FrameType | None = frame
    for _ in range(4):
        above = None if above is None else above.f_back
        if above is not None and above.f_code in _BETWEEN:
            return True
    return False


def _place(frame: FrameType | None) -> str:
    places = list[str]()
    while frame is not None and len(places) < 4:
        places.append(f"{frame.f_globals.get('__name__')}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places)


@asynccontextmanager
async def heartbeat() -> AsyncGenerator[list[float]]:
    """Assert that no step of the loop takes long meanwhile; yield how long each has taken.

    A thread that has nothing else to do beats beside it: where that one is late, too, it is the machine.
    """
    steps, over = list[float](), threading.Event()

    async def beat() -> None:
        while not over.is_set():
            before = time.monotonic()
            await asyncio.sleep(_BEAT)
            steps.append(time.monotonic() - before)

    def control() -> float:
        latest, never = 0.0, threading.Event()
        while not over.is_set():
            before = time.monotonic()
            never.wait(_BEAT)
            latest = max(latest, time.monotonic() - before)
        return latest

    heart, beside = asyncio.ensure_future(beat()), asyncio.ensure_future(asyncio.to_thread(control))
    try:
        yield steps
    finally:
        over.set()
        await heart
        latest = await beside
    bound = max(STALL, 5 * latest)
    assert max(steps) < bound, f"a step of {max(steps):.2f} s, of {len(steps)}; {latest:.2f} s beside it"
