"""`Directory`: which sessions are active. It alone sends to them from outside."""

import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pykka

from intermission.errors import OverloadedError, SessionClosedError
from intermission.kernel.ref import ActorRef
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import CancelSource, RunStatus, Verdict
from intermission.sessions.actor import SessionActor
from intermission.sessions.ends import unwritten
from intermission.sessions.holds import Holds
from intermission.sessions.messages import Forget, LookAtSlot, Passivate, QueueRun, Retire
from intermission_storage.wakeup import Wakeup

__all__ = ["WARM", "WARM_EVENTS", "Directory"]

logger = logging.getLogger(__name__)

WARM = 256
"""Of the sessions with nothing to do, so many hold their events: those that were idle last."""

WARM_EVENTS = 100_000
"""And so many events in all, about 100 MB of short ones; but the one that was idle last holds any number."""


@dataclass(eq=False, slots=True)
class _Entry:
    """An active session: its actor, the runs that it has not taken up yet, and all that have not ended."""

    ref: ActorRef[SessionActor]
    queued: dict[Lifecycle, None] = field(default_factory=dict[Lifecycle, None])
    runs: dict[Lifecycle, None] = field(default_factory=dict[Lifecycle, None])


class Directory:
    """The active sessions of one runner, each started when it is first needed.

    Looking a session up and putting a message into its mailbox is one step under one lock, and so is taking
    it out: no message can meet a session that is going.

    Args:
        start: Starts the actor of a session.
        max_queued: How many runs may wait in one session, besides the one that is under way.
        resident: How many sessions with nothing to do stay in memory; the one idle for longest goes first.

    Attributes:
        holds: See `Registry`.
    """

    def __init__(
        self,
        start: Callable[[SessionKey], ActorRef[SessionActor]],
        *,
        max_queued: int,
        resident: int,
    ) -> None:
        self._start = start
        self._max_queued = max_queued
        self.holds = Holds(self.tell)
        self._resident = resident
        # Re-entrant: a signal handler may cancel a run in the middle of any of these methods.
        self._lock = threading.RLock()
        self._sessions: dict[SessionKey, _Entry] = {}
        self._idle: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._warm: OrderedDict[SessionKey, int] = OrderedDict()  # of those, the last ones, and their events
        self._warm_events = 0  # of all of them
        self._runs: dict[Lifecycle, None] = {}
        self._lingering: dict[Lifecycle, None] = {}  # ended runs whose work has not returned
        self._closed = False
        self._using: dict[object, int] = {}  # who uses the log without a session, and on which thread
        self._changed = Wakeup()  # what a close waits for
        self._hastened = False
        self._pid = os.getpid()

    # What runs do.

    def deliver(self, run: Lifecycle) -> None:
        """Put a run into its session's mailbox.

        Raises:
            OverloadedError: Too many runs wait in the session; nothing of this one was stored.
            SessionClosedError: The directory is closed; nothing of the run was stored.
        """
        with self._lock:
            entry = self._entry(run.key)
            # The first run of those that have not ended is under way, or will be at once; it does not wait.
            # In a session that is held it does, and one may always do that.
            held = self.holds.holds(run.key)
            limit = max(self._max_queued, 1) if held else self._max_queued
            if run not in entry.runs and len(entry.runs) + held > limit:
                open_runs = sum(other.result is None and not other.work.holds for other in entry.runs)
                waiting = open_runs if held else open_runs - 1
                if waiting >= limit:
                    raise OverloadedError(
                        f"{waiting} runs wait in session {run.key.session_id!r} (max_queued): this one was "
                        "not taken, and nothing of it was stored. Start it again when some have ended."
                    )
            # What an interrupt leaves half done is done again with the next start, or undone by a cancel.
            entry.queued[run] = None
            entry.runs[run] = None
            self._runs[run] = None
            try:
                entry.ref.tell(QueueRun(run))
            except pykka.ActorDeadError:  # it has failed this moment; the next one begins from the log
                entry = self._entry(run.key)
                entry.queued[run] = entry.runs[run] = None
                entry.ref.tell(QueueRun(run))

    def cancel(self, run: Lifecycle) -> None:
        """Tell a run's session to look at its slot. A run that no session has seen ends here."""
        if self.tell(run.key, LookAtSlot(run)) or not run.take():
            return
        verdict = run.verdict
        assert verdict is not None
        run.end(unwritten(run, verdict))
        self.forget(run)

    def forget(self, run: Lifecycle) -> None:
        """See `Registry.forget`. What its work has left behind is remembered until it has returned."""
        with self._lock:
            self._runs.pop(run, None)
            entry = self._sessions.get(run.key)
            if entry is not None:
                entry.runs.pop(run, None)
            if not run.work.pieces:
                return
            self._lingering[run] = None
        run.work.when_idle(lambda: self._lingering.pop(run, None))

    # What others do.

    def ask(self, key: SessionKey, message: object) -> ActorRef[SessionActor]:
        """Put a message into a session's mailbox; the session is started if need be. Return who has it.

        Raises:
            SessionClosedError: The directory is closed.
        """
        with self._lock:
            ref = self._entry(key).ref
            ref.tell(message)
            return ref

    def tell(self, key: SessionKey, message: object) -> bool:
        """Put a message into the mailbox of a session that is active, and return whether it is."""
        with self._lock:
            entry = self._sessions.get(key)
            if entry is None:
                return False
            try:
                entry.ref.tell(message)
            except pykka.ActorDeadError:
                return False
            return True

    @contextmanager
    def kept_open(self) -> Generator[None]:
        """Stay open for the length of a block, which uses the log without a session: `close` waits for it.

        Raises:
            SessionClosedError: The directory is closed.
        """
        user = object()
        try:
            with self._lock:
                self.check_open()
                self._using[user] = threading.get_ident()
            yield
        finally:
            with self._lock:
                self._using.pop(user, None)
                self._changed.wake()

    def runs(self, user_id: str | None = None, session_id: str | None = None) -> list[Lifecycle]:
        """The runs that were delivered and have not ended, oldest first; of all, or of some sessions."""
        with self._lock:
            runs = list(self._runs) if os.getpid() == self._pid else []  # a fork has none of their threads
        return [
            run
            for run in runs
            if user_id in {None, run.key.user_id} and session_id in {None, run.key.session_id}
        ]

    def lingering(self) -> list[Lifecycle]:
        """The runs that have ended, but whose work has not, oldest first."""
        with self._lock:
            return list(self._lingering)

    @property
    def active(self) -> int:
        """How many sessions are in memory."""
        return len(self._sessions)

    @property
    def mail(self) -> int:
        """How many messages wait in the mailboxes of the sessions."""
        with self._lock:
            entries = list(self._sessions.values())
        return sum(entry.ref.mailbox.waiting for entry in entries)

    def check_open(self) -> None:
        """Raise what keeps this directory from taking anything.

        Raises:
            SessionClosedError: It is closed, this process is a fork of the one that has it, or Python ends.
        """
        if os.getpid() != self._pid:
            raise SessionClosedError(
                f"this runner belongs to process {self._pid}, of which this one is a fork: it takes no runs "
                "here, and nothing was stored. Make a runner in the child, with a log that is opened there."
            )
        if self._closed:
            raise SessionClosedError("the runner is closed: it takes no more runs. Nothing was stored.")
        if sys.is_finalizing():
            raise SessionClosedError("Python is at its end, and no thread runs any more. Nothing was stored.")

    def _entry(self, key: SessionKey) -> _Entry:
        self.check_open()
        entry = self._sessions.get(key)
        if entry is None:
            entry = self._sessions[key] = _Entry(self._start(key))
        elif not entry.ref.is_alive():
            before, entry = entry, _Entry(self._start(key))
            self._sessions[key] = entry
            for run in list(before.queued):  # those that it has seen are taken, and were ended with it
                entry.queued[run] = entry.runs[run] = None
                entry.ref.tell(QueueRun(run))
        self._not_idle(key)
        return entry

    def _not_idle(self, key: SessionKey) -> None:
        self._idle.pop(key, None)
        self._not_warm(key)

    def _not_warm(self, key: SessionKey) -> None:
        self._warm_events -= self._warm.pop(key, 0)

    # What sessions do.

    def left_queue(self, run: Lifecycle) -> None:
        """See `Registry.left_queue`."""
        with self._lock:
            entry = self._sessions.get(run.key)
            if entry is not None:
                entry.queued.pop(run, None)

    def idle(self, key: SessionKey, events: int) -> None:
        """See `Registry.idle`. Beyond the bound, the session that is idle for longest is asked to leave.

        Long before that it forgets its events, which are most of what it holds.
        """
        with self._lock:
            entry = self._sessions.get(key)
            if entry is None or self._closed:
                return
            self._idle[key] = entry
            self._idle.move_to_end(key)
            self._not_warm(key)
            self._warm[key] = events
            self._warm_events += events
            while len(self._warm) > WARM or (self._warm_events > WARM_EVENTS and len(self._warm) > 1):
                cold = next(iter(self._warm))
                self._not_warm(cold)
                self.tell(cold, Forget())
            while len(self._idle) > self._resident:
                oldest, _ = self._idle.popitem(last=False)
                self._not_warm(oldest)
                self.tell(oldest, Passivate())

    def lost(self, key: SessionKey, ref: ActorRef[SessionActor]) -> None:
        """See `Registry.lost`. The runs that wait for it get another actor, which begins from the log."""
        with self._lock:
            entry = self._sessions.get(key)
            if entry is None or entry.ref != ref:
                return
            if entry.queued and not self._closed:
                self._entry(key)
                return
            self._sessions.pop(key)
            self._not_idle(key)
        error = SessionClosedError("the session was closed before this run began; nothing of it was stored")
        for run in list(entry.queued):
            if run.take():
                run.end(unwritten(run, run.decide(Verdict(RunStatus.FAILED, error=error))))
                self.forget(run)

    def leave(self, key: SessionKey, *, unless: Callable[[], bool]) -> bool:
        """See `Registry.leave`."""
        with self._lock:
            if unless():
                return False
            self._sessions.pop(key, None)
            self._not_idle(key)
            return True

    # The end.

    def close(self, grace: float, *, release: bool, held: Collection[Hashable] = ()) -> None:
        """Take no more runs, refuse those that wait, give those under way `grace` seconds, then end them.

        Returns when every end is stored. Closing again is allowed, and finishes a close that was interrupted.
        In a fork of the process it does nothing: the sessions are the parent's.

        Args:
            grace: Seconds.
            release: Whether runs that are left end `interrupted`, to be gone on with, and not `cancelled`.
            held: Sessions whose runs wait for the end of this call. They get no grace: it would be in vain.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            sessions = {key: entry.ref for key, entry in self._sessions.items()}
            busy = set(sessions)
            for key in sessions:
                if not self.tell(key, Retire(partial(self._retired, busy, key))):
                    busy.discard(key)
        self._changed.wait_until(lambda: self._hastened or busy.issubset(held), grace)
        for run in self.runs():
            self._end(run, grace, release=release, held=run.key in held)
        self._changed.wait_until(lambda: not busy)
        for key, ref in sessions.items():
            ref.stop()
            with self._lock:
                self._sessions.pop(key, None)
        here = threading.get_ident()  # a signal handler closes in the middle of a block: it cannot wait
        self._changed.wait_until(lambda: {here}.issuperset(tuple(self._using.values())))

    def hasten(self) -> None:
        """End the grace of a close that is under way, or is still to come."""
        with self._lock:
            self._hastened = True
            self._changed.wake()

    def _retired(self, busy: set[SessionKey], key: SessionKey) -> None:
        with self._lock:
            busy.discard(key)
            self._changed.wake()

    def _end(self, run: Lifecycle, grace: float, *, release: bool, held: bool) -> None:
        if run.result is not None:
            return
        what = RunStatus.INTERRUPTED if release else RunStatus.CANCELLED
        logger.warning(
            "run %s %s, and ends as %s. Calls of it that cannot be interrupted go on until they return; "
            "nothing of them is stored any more.",
            run.invocation_id,
            "waits for the close of its own runner" if held else f"had not ended {grace} s after the close",
            what,
            extra={"session": run.key.session_id, "invocation": run.invocation_id},
        )
        if release:
            verdict = run.decide(Verdict(RunStatus.INTERRUPTED, reason="shutdown"))
            if verdict.status is RunStatus.INTERRUPTED:
                if run.scope is not None:
                    run.scope.cancel("shutdown", source=CancelSource.SHUTDOWN)
                self.cancel(run)
        else:
            run.cancel(CancelSource.SHUTDOWN, "shutdown")
