"""`Group`: the process group that a child leads, how it is made to end, and who has left it."""

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from intermission.kernel.cancel_hooks import Force
from intermission.kernel.gates import new_gate
from intermission.processes.pumps import End, Pump

__all__ = ["Descendant", "Group"]

logger = logging.getLogger(__name__)

_STEP = 0.01  # seconds between looks whether the rest of a group has gone, when its first process has
_DRAIN = 0.1  # seconds for what the pipes still hold
_PATIENCE = 5.0  # seconds for the system to end a process that was killed

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Descendant:
    """A process that a child has started, itself or by others.

    Attributes:
        pid: Its number.
        command: Its name, as the system has it.
        group: Its process group.
        session: Its session.
        started: When it began, in ticks of the system: it tells the process from a later one of its number.
    """

    pid: int
    command: str
    group: int
    session: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        found = _look_at(self.pid)
        return found is not None and found.started == self.started


class Group:
    """The process group that a child leads.

    Args:
        process: The child.
        grace: Seconds between SIGTERM and SIGKILL.
        escalate: Told once of a SIGTERM and of a SIGKILL, if it has reached one that lived; for the scope's
            `escalate`. `None` if the child is at nobody's work.
        whole_session: Whether the child leads a session of its own, and groups in it are ended with it.
    """

    def __init__(
        self,
        process: Popen[Any],
        grace: float,
        escalate: Callable[[Force, str], object] | None,
        *,
        whole_session: bool = False,
    ) -> None:
        self._process = process
        self._grace = grace
        self._escalate = escalate
        self._whole_session = whole_session
        self._kill_at: float | None = None
        self._steps: dict[Force, object] = {}  # by who has taken them first
        self._strays: dict[int, Descendant] = {}
        self._leavers: dict[int, Descendant] = {}

    @property
    def was_told(self) -> bool:
        """Whether the group has got a signal."""
        return self._kill_at is not None

    @property
    def patience(self) -> float:
        """How many seconds are left until it is killed."""
        return self._grace if self._kill_at is None else _left(self._kill_at)

    @property
    def leavers(self) -> list[Descendant]:
        """Who had left the group when it was told to end, and lives. They are not ended.

        One whose parent had ended before is not known, unless the child collects such orphans.
        """
        return [one for one in self._leavers.values() if one.is_alive]

    def press(self) -> None:
        """Terminate the group; called again after the grace, kill it."""
        now = time.monotonic()
        if self._kill_at is None:
            self._look()
            if self._send(signal.SIGTERM, Force.TERMINATED):
                self._kill_at = now + self._grace
        elif now >= self._kill_at:
            self._look()
            self._send(signal.SIGKILL, Force.KILLED)

    def end(self, pump: Pump | None = None) -> None:
        """End what is left of the group, and reap the child. `pump` drains its pipes meanwhile."""
        if self._kill_at is None:
            self.press()
        kill_at = self._kill_at
        if kill_at is None:  # it has been reaped
            return
        watch = Pump(self._process) if pump is None else pump
        try:
            self._end(watch, kill_at)
        finally:
            if pump is None:
                watch.release()

    def _end(self, pump: Pump, kill_at: float) -> None:
        pump.run(_left(kill_at), until_exit=True)
        if pump.has_exited:
            # The others of the group have the rest of the grace. As long as one of them lives, its number is
            # nobody else's.
            self._process.wait()
            if self._outlives(kill_at, pump):
                self._force(signal.SIGKILL, Force.KILLED)
        else:
            self._look()
            self._send(signal.SIGKILL, Force.KILLED)
            with suppress(TimeoutExpired):
                self._process.wait(_PATIENCE)
        if self._outlives(time.monotonic() + _PATIENCE, pump):
            logger.error(
                "child %d or its group was killed, and the system does not end it", self._process.pid
            )
        pump.run(_DRAIN)

    def _outlives(self, deadline: float, pump: Pump) -> bool:
        """Wait until the group has ended; return whether it lives at the deadline."""
        while (lives := self._lives()) and _left(deadline):
            if pump.run(min(_STEP, _left(deadline))) is End.DONE:
                new_gate().acquire(timeout=_STEP)
        return lives

    def _lives(self) -> bool:
        # A process that has ended is of its group until it is reaped, which in a container may be never.
        group = self._process.pid
        return any(one.is_alive for one in self._strays.values()) or (
            _kill(os.killpg, group, 0) and _has_members(group)
        )

    def _send(self, number: int, force: Force) -> bool:
        # Once a child is reaped, its number may be that of another group.
        return self._process.returncode is None and self._force(number, force)

    def _force(self, number: int, force: Force) -> bool:
        mine, escalate = object(), self._escalate
        first = escalate is not None and self._steps.setdefault(force, mine) is mine
        # A signal also reaches what has ended and is not reaped; that is no force against anybody.
        tell = first and self._has_somebody()
        reached = self._signal(number)
        if reached and tell and escalate is not None:
            escalate(force, f"process {self._process.pid}")
        return reached

    def _has_somebody(self) -> bool:
        leader = self._process.pid
        if _look_at(leader) is not None or any(one.is_alive for one in self._strays.values()):
            return True
        return _has_members(leader)

    def _signal(self, number: int) -> bool:
        reached = _kill(os.killpg, self._process.pid, number)
        for one in self._strays.values():
            if one.is_alive and _kill(os.kill, one.pid, number):
                reached = True
        return reached

    def _look(self) -> None:
        """Find who has left the group, before an end of their parents takes them out of sight."""
        if self._process.returncode is not None:
            return
        leader = self._process.pid
        for pid in _descendants(leader):
            one = _look_at(pid)
            if one is not None and one.group != leader:
                ours = self._whole_session and one.session == leader
                (self._strays if ours else self._leavers)[pid] = one


def _kill(kill: Any, pid: int, number: int) -> bool:
    try:
        kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _descendants(pid: int) -> list[int]:
    found, todo = list[int](), [pid]
    while todo:
        with suppress(OSError):  # it has ended, or the system has no such files
            for thread in (_PROC / str(todo.pop()) / "task").iterdir():
                below = [int(child) for child in (thread / "children").read_text().split()]
                found += below
                todo += below
    return found


def _has_members(group: int) -> bool:
    """Return whether a process of a group has not ended, reaped or not."""
    try:
        names = os.listdir(_PROC)
    except OSError:  # the system has no such files: whoever is not reaped counts
        return True
    found = (_look_at(int(name)) for name in names if name.isdigit())
    return any(one is not None and one.group == group for one in found)


def _look_at(pid: int) -> Descendant | None:
    """Return what the system says of a process; `None` if it has ended."""
    try:
        head, _, tail = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    state, _, group, session, *rest = tail.split()
    if state in {"Z", "X"} and int(rest[13]) <= 1:  # its first thread may have ended before others
        return None
    return Descendant(pid, head.partition("(")[2], int(group), int(session), int(rest[15]))


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
