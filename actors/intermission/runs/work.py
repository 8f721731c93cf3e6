"""`Work`: what a run has set in motion and what of it has really ended."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from intermission.kernel.cancel_hooks import Force, ScopeHost, hook_name
from intermission_storage.wakeup import Wakeup

__all__ = ["WHAT", "Escalation", "Late", "Piece", "Tally", "Work"]

WHAT: tuple[str, ...] = ("agent", "model", "tool", "process", "call", "callback", "hook")
"""What a piece of work can be."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """One step of force against work of a run.

    Attributes:
        force: Which.
        name: The hook or the process that it was done to.
        at: When, in seconds of the monotonic clock that `CancelReport` uses.
    """

    force: Force
    name: str
    at: float


@dataclass(eq=False, slots=True)
class Piece:
    """One thing that a thread does for a run: a strand, a model call, a tool call, a hook on a cancel.

    Attributes:
        what: `"agent"`, `"model"`, `"tool"`, `"process"`, `"call"`, `"callback"` or `"hook"`.
        name: The agent's, model's, tool's or function's name.
        call_id: The function call's id, for a tool and for a process that one has left behind.
        given_up: When the run went on or ended without it; `None` while it is waited for.
        reason: Why that was.
        on_thread: Whether it has a worker for itself; an async call has none, nor has a process.
    """

    what: str
    name: str
    call_id: str | None = None
    given_up: float | None = None
    reason: str = ""
    began: float = field(default_factory=time.monotonic)
    on_thread: bool = True


class Tally(Protocol):
    """Counts what becomes of the work of all runs."""

    def late(self, what: str) -> None:
        """Work has ended that its run had given up, or after the run was cancelled."""
        ...

    def forced(self, force: Force) -> None:
        """A step of force was taken."""
        ...

    def hook_failed(self, hook: str) -> None:
        """A hook of a cancel has raised."""
        ...


Late: TypeAlias = Callable[[Piece, Any], None]
"""Called with a piece that was given up and has ended, and with its outcome; quick."""


class Work:
    """The pieces of one run that have not ended. One has ended when its thread has left it, not before.

    The pieces of a run that a call of this one waits for are this one's, too.

    Args:
        tally: Counts for all runs.

    Attributes:
        extra: What log lines say of the run.
        outer: The work of the run in whose call this one's run is.
        terminated: When the last piece has ended, by the monotonic clock; `None` if none has.
        holds: Whether the session's next run waits for it.
        released: Whether it is counted that the session is free.
        escalations: Each step of force that was taken against some of it.
        late: Is told of the ends of pieces that were given up, if somebody is.
    """

    __slots__ = (
        "_changed",
        "_lock",
        "_on_idle",
        "_pieces",
        "_tally",
        "escalations",
        "extra",
        "holds",
        "late",
        "outer",
        "released",
        "terminated",
    )

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.RLock()
        self._changed: Wakeup | None = None  # made by who waits
        self._pieces: dict[Piece, bool] = {}  # in the order of their beginnings, and whether they are nested
        self._on_idle: list[Callable[[], None]] = []
        self.extra: Mapping[str, Any] = {}
        self.outer: Work | None = None
        self.terminated: float | None = None
        self.holds = self.released = False
        self.escalations: tuple[Escalation, ...] = ()
        self.late: Late | None = None

    def begin(self, piece: Piece, *, nested: bool = False) -> None:
        """A thread has begun it, or is about to; `nested` in a run that a call of this one waits for."""
        if self.outer is not None:
            self.outer.begin(piece, nested=True)
        with self._lock:
            self._pieces[piece] = nested

    def belongs_to(self, session: str, invocation: str | None, outer: "Work | None") -> None:
        """Say, before anything begins, whose work it is, and the work of which run it is a part of."""
        self.extra = {"session": session, "invocation": invocation}
        self.outer = outer

    def is_of(self, invocation: str) -> None:
        """Say which run it is of, where that is known only when the run begins."""
        self.extra = {**self.extra, "invocation": invocation}

    def with_hooks(self, host: ScopeHost) -> ScopeHost:
        """Return a host like this one for the run's scopes, whose users' hooks are pieces while they run."""
        return ScopeHost(host.timer, host.workers, self)

    def track(self, hook: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
        """See `ScopeOwner`."""
        piece = Piece("hook", hook_name(hook))
        piece.given_up = piece.began  # nobody waits for it to go on
        return partial(self.begin, piece), partial(self.end, piece)

    def hook_failed(self) -> None:
        """See `ScopeOwner`."""
        if self.outer is None:
            self._tally.hook_failed("cancel")
        else:
            self.outer.hook_failed()

    def escalate(self, force: Force, name: str) -> None:
        """See `ScopeOwner`. It is counted once, for the outermost run."""
        with self._lock:
            self.escalations = (*self.escalations, Escalation(force, name, time.monotonic()))
        if self.outer is None:
            self._tally.forced(force)
        else:
            self.outer.escalate(force, name)

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
        late = outcome is not None or piece.given_up is not None
        if late and self.outer is None and piece.what != "hook":
            self._tally.late(piece.what)
        waiting: list[Callable[[], None]] = []
        with self._lock:
            self._pieces.pop(piece, None)
            if not self._pieces:
                self.terminated = time.monotonic()
                if self._changed is not None:
                    self._changed.wake()
                waiting, self._on_idle = self._on_idle, waiting
        for callback in waiting:
            callback()
        if self.outer is not None:
            self.outer.end(piece)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """What has not ended, oldest first."""
        with self._lock:
            return tuple(self._pieces)

    def is_nested(self, piece: Piece) -> bool:
        """Return whether a piece that has not ended is another run's, in a call of this one."""
        return self._pieces.get(piece, False)

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
