"""What `Workers` are given: jobs, whose account they run on, and the lines in which they stand."""

import _thread
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context
from enum import StrEnum
from types import TracebackType
from typing import Final

from intermission.kernel.timer import TimerHandle

__all__ = ["HELD", "Budget", "Job", "JobLane", "MayBlock", "Occupied", "Places", "Worker"]

logger = logging.getLogger(__name__)

HELD: Final = object()
"""Returned by a cooperative job that is not at its end: somebody will have it resumed."""


class Budget(StrEnum):
    """On whose account a job runs. Each has a limit of its own; the threads are shared."""

    CALLS = "calls"
    """Strands, model and tool calls."""

    HOOKS = "hooks"
    """Callbacks, plugins and subscribers."""

    RESERVE = "reserve"
    """The runtime's own short work, such as reading the log: it may have to wait, and is never refused."""

    LEAVES = "leaves"
    """Strands that leave their generators, whose `finally` blocks may be stuck. Never refused, not even by a
    pool that is closed."""

    ABORT = "abort"
    """Users' hooks on cancelled scopes: one more than the limit is refused at once, for all may be stuck."""


class JobLane:
    """The jobs of one budget: how many have a place, and those that stand in line for one.

    Args:
        limit: How many places there are.
        wait: Seconds in line; `None`: as long as it takes.
        outlasts: Whether they are done by a pool that is closed, too.
    """

    __slots__ = ("begun", "busy", "limit", "line", "outlasts", "wait")

    def __init__(self, limit: int, wait: float | None, *, outlasts: bool = False) -> None:
        self.limit = limit
        self.wait = wait
        self.outlasts = outlasts
        self.busy = 0
        self.begun = 0  # jobs, and parts of jobs that were held
        self.line: deque[Job] = deque()

    @property
    def has_next(self) -> bool:
        """Whether a place is free for one who stands in line."""
        return bool(self.line) and self.busy < self.limit


class Job:
    """A function to be called, and what else `Workers.submit` was told of it."""

    __slots__ = ("alarm", "args", "context", "cooperative", "function", "lane", "refused")

    def __init__(
        self,
        lane: JobLane,
        function: Callable[..., object],
        args: tuple[object, ...],
        refused: Callable[[], object] | None = None,
        context: Context | None = None,
        *,
        cooperative: bool,
    ) -> None:
        self.lane = lane
        self.function = function
        self.args = args
        self.refused = refused
        self.context = context
        self.cooperative = cooperative
        self.alarm: TimerHandle | None = None

    def run(self) -> bool:
        """Do it, and return whether it keeps its place; what it raises is logged."""
        self.lane.begun += 1  # without a lock: Python changes threads at calls and loops, and so not in here
        try:
            if self.cooperative:
                return self.function(*self.args) is HELD
            (Context() if self.context is None else self.context).run(self.function, *self.args)
        except BaseException:  # nothing that a job does may cost the pool a thread
            logger.exception("a job failed")
        return False


class Places:
    """The places of all budgets. A job of one that is full stands in line. For who holds the pool's lock."""

    def __init__(self, lanes: Mapping[Budget, JobLane]) -> None:
        self.calls = lanes[Budget.CALLS]
        self.busy = 0
        self.peak = 0
        self.waiting = 0  # how many stand in line
        self._lanes = lanes
        self._every_lane = tuple(lanes.values())

    def lane(self, budget: Budget) -> JobLane:
        """Return the places of a budget."""
        # To look a member of an enumeration up is slow, and nearly all are calls.
        return self.calls if budget is Budget.CALLS else self._lanes[budget]

    @property
    def begun(self) -> int:
        """How often a thread has taken up a job, or has gone on with one that was held."""
        return sum(lane.begun for lane in self._every_lane)

    @property
    def free(self) -> int:
        """How many of them could have a place, and lack a thread."""
        return sum(min(len(lane.line), lane.limit - lane.busy) for lane in self._every_lane)

    def take(self, lane: JobLane) -> None:
        """Give a job a place."""
        lane.busy += 1
        self.busy += 1
        if self.busy > self.peak:
            self.peak = self.busy

    def give_back(self, lane: JobLane) -> None:
        """A place is free again."""
        lane.busy -= 1
        self.busy -= 1

    def from_line(self, lane: JobLane) -> Job | None:
        """Give who is next in line a place, above all on the given lane, and return it."""
        if not lane.has_next:
            # Others stand in line with places left only where a thread could not be started.
            for lane in self._every_lane:
                if lane.has_next:
                    break
            else:
                return None
        job = lane.line.popleft()
        self.waiting -= 1
        self.take(lane)
        if job.alarm is not None:
            job.alarm.cancel()
        return job

    def line_up(self, job: Job) -> None:
        """Let a job stand in line."""
        job.lane.line.append(job)
        self.waiting += 1

    def leave_line(self, job: Job) -> bool:
        """Take a job out of its line; return whether it stood there."""
        try:
            job.lane.line.remove(job)
        except ValueError:
            return False
        self.waiting -= 1
        return True

    def clear_lines(self) -> list[Job]:
        """Return who stands in line and is not done by a pool that is closed; they stand there no more."""
        lanes = [lane for lane in self._every_lane if not lane.outlasts]
        jobs = [job for lane in lanes for job in lane.line]
        for lane in lanes:
            lane.line.clear()
        self.waiting -= len(jobs)
        return jobs


class Occupied:
    """What a pool says of its places."""

    _places: Places

    @property
    def busy(self) -> int:
        """How many jobs have a place: they run, or are ready or held."""
        return self._places.busy

    @property
    def waiting(self) -> int:
        """How many jobs stand in line."""
        return self._places.waiting

    @property
    def peak(self) -> int:
        """The most jobs that ever had a place at a time."""
        return self._places.peak

    @property
    def begun(self) -> int:
        """How often a thread has taken up a job, or has gone on with one that was held."""
        return self._places.begun


class Worker:
    """What a thread of the pool is about.

    Attributes:
        job: What it does next, when it is woken.
        called: Whether it was woken, or started, to see to what is ready, and is not there yet.
        runs: Whether it is counted among those who see to what is ready.
        wake: Released to wake it.
    """

    __slots__ = ("called", "job", "runs", "wake")

    def __init__(self, job: Job | None, *, called: bool = False) -> None:
        self.job = job
        self.called = self.runs = called
        self.wake = _thread.allocate_lock()
        self.wake.acquire()


class MayBlock:
    """A context manager for what may block in a cooperative job; the pool has one for all of them."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
