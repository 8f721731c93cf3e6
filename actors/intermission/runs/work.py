"""`Work`: what a run has set in motion and what of it has really ended."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from intermission.kernel.cancel_hooks import ScopeHost
from intermission_storage.wakeup import Wakeup

__all__ = ["Late", "Piece", "Work"]


@dataclass(eq=False, slots=True)
class Piece:
    """One thing that a thread does for a run: a strand, a model call, a tool call, a hook on a cancel.

    Attributes:
        what: `"agent"`, `"model"`, `"tool"`, `"call"`, `"callback"` or `"hook"`.
        name: The agent's, model's, tool's or function's name.
        call_id: The function call's id, for a tool.
        given_up: When the run went on or ended without it; `None` while it is waited for.
        reason: Why that was.
    """

    what: str
    name: str
    call_id: str | None = None
    given_up: float | None = None
    reason: str = ""
    began: float = field(default_factory=time.monotonic)


Late: TypeAlias = Callable[[Piece, Any], None]
"""Called with a piece that was given up and has ended, and with its outcome; quick."""


class Work:
    """The pieces of one run that have not ended. One has ended when its thread has left it, not before."""

    __slots__ = ("_changed", "_lock", "_on_idle", "_pieces", "late", "terminated")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed: Wakeup | None = None  # made by who waits
        self._pieces: dict[Piece, None] = {}  # in the order of their beginnings
        self._on_idle: list[Callable[[], None]] = []
        self.terminated: float | None = None
        self.late: Late | None = None  # is told of the ends of pieces that were given up, if somebody is

    def begin(self, piece: Piece) -> None:
        """A thread has begun it, or is about to."""
        with self._lock:
            self._pieces[piece] = None

    def with_hooks(self, host: ScopeHost) -> ScopeHost:
        """Return a host like this one, for scopes whose users' hooks are pieces while they run."""
        return ScopeHost(host.timer, host.workers, self._track)

    def _track(self, hook: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
        piece = Piece("hook", getattr(hook, "__name__", type(hook).__name__))
        piece.given_up = piece.began  # nobody waits for it to go on
        return partial(self.begin, piece), partial(self.end, piece)

    def give_up(self, piece: Piece, reason: str) -> None:
        """The run goes on, or ends, without waiting for it."""
        with self._lock:
            if piece.given_up is None:
                piece.given_up = time.monotonic()
                piece.reason = reason

    def end(self, piece: Piece, outcome: Any = None) -> None:
        """Its thread has left it; `outcome` is what it came to, of one that was given up."""
        if self.late is not None and outcome is not None:
            self.late(piece, outcome)
        with self._lock:
            self._pieces.pop(piece, None)
            if self._pieces:
                return
            self.terminated = time.monotonic()
            if self._changed is not None:
                self._changed.wake()
            waiting, self._on_idle = self._on_idle, []
        for callback in waiting:
            callback()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """What has not ended, oldest first."""
        with self._lock:
            return tuple(self._pieces)

    def is_open(self, piece: Piece) -> bool:
        """Return whether a piece has not ended."""
        return piece in self._pieces

    def wait(self, timeout: float | None) -> bool:
        """Return whether nothing is left within `timeout` seconds."""
        with self._lock:
            if self._changed is None:
                self._changed = Wakeup()
        done = self._changed.wait_until(lambda: not self._pieces, timeout)
        with self._lock:  # whoever has ended the last one is behind it
            return done

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` once nothing is left: at once, or on the thread that ends the last piece."""
        with self._lock:
            if self._pieces:
                self._on_idle.append(callback)
                return
        callback()
