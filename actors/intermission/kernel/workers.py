"""`Workers`: elastic daemon threads for what blocks, within budgets that cannot starve one another."""

import _thread
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from enum import Enum, StrEnum, auto
from typing import TypeVarTuple

from intermission.kernel.timer import Timer, TimerHandle

__all__ = ["Budget", "Workers"]

logger = logging.getLogger(__name__)

_Ts = TypeVarTuple("_Ts")

_RETRY = 0.1  # seconds after which a thread that the system did not start is tried again


class Budget(StrEnum):
    """On whose account a job runs. Each has a limit of its own; the threads are shared."""

    CALLS = "calls"
    """Strands, model and tool calls."""

    HOOKS = "hooks"
    """Callbacks, plugins and subscribers."""

    RESERVE = "reserve"
    """The runtime's own short work, such as reading the log: it may have to wait, and is never refused."""

    ABORT = "abort"
    """Users' hooks on cancelled scopes: one more than the limit is refused at once, for all may be stuck."""


class _Verdict(Enum):
    DONE = auto()
    START = auto()
    REFUSE = auto()


class _Lane:
    __slots__ = ("busy", "limit", "line", "wait")

    def __init__(self, limit: int, wait: float | None) -> None:
        self.limit = limit
        self.wait = wait  # seconds in line; None: as long as it takes
        self.busy = 0
        self.line: deque[_Job] = deque()


class _Job:
    __slots__ = ("alarm", "args", "context", "function", "lane", "refused")

    def __init__(
        self,
        lane: _Lane,
        function: Callable[..., object],
        args: tuple[object, ...],
        refused: Callable[[], object] | None,
        context: Context | None,
    ) -> None:
        self.lane = lane
        self.function = function
        self.args = args
        self.refused = refused
        self.context = context
        self.alarm: TimerHandle | None = None


class _Worker:
    __slots__ = ("job", "wake")

    def __init__(self, job: _Job | None) -> None:
        self.job = job
        self.wake = _thread.allocate_lock()
        self.wake.acquire()


class Workers:
    """Daemon threads that come as they are needed and go when they have been idle.

    A job goes to the thread that became idle last, so that those not needed can end; else a new thread is
    started; at the limit of its budget it stands in line, first in, first out. Exactly one of a job's
    `function` and `refused` is called.

    Args:
        timer: Ends the time in line; `refused` is called on its thread.
        limit: Jobs of `Budget.CALLS` at a time.
        wait: Seconds in line for calls and hooks.
        idle: Seconds without a job after which a thread ends.
        name: Of the threads, before their number.
        hooks, reserve, aborts: Jobs at a time of the other budgets.
    """

    def __init__(
        self,
        *,
        timer: Timer,
        limit: int = 1024,
        wait: float = 30.0,
        idle: float = 5.0,
        name: str = "intermission-worker",
        hooks: int = 256,
        reserve: int = 64,
        aborts: int = 256,
    ) -> None:
        self._timer = timer
        self._idle_for = min(idle, threading.TIMEOUT_MAX)
        self._name = name
        self._pid = os.getpid()
        # Reentrant: a finaliser may run wherever something is allocated. Where that is under the lock, what
        # it guards is whole.
        self._lock = threading.RLock()
        self._lanes = {
            Budget.CALLS: _Lane(limit, wait),
            Budget.HOOKS: _Lane(hooks, wait),
            Budget.RESERVE: _Lane(reserve, None),
            Budget.ABORT: _Lane(aborts, 0.0),
        }
        self._calls = self._lanes[Budget.CALLS]
        self._every_lane = tuple(self._lanes.values())
        self._busy = 0
        self._idle: list[_Worker] = []
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._peak = 0
        self._refused = 0
        self._retrying = False
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that made the pool."""
        return self._pid != os.getpid()

    @property
    def busy(self) -> int:
        """How many threads run a job."""
        return self._busy

    @property
    def idle(self) -> int:
        """How many threads wait for a job."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """How many jobs stand in line."""
        return sum(len(lane.line) for lane in self._every_lane)

    @property
    def peak(self) -> int:
        """The most jobs that ever ran at a time."""
        return self._peak

    @property
    def refused_count(self) -> int:
        """How many jobs were refused."""
        return self._refused

    def submit(
        self,
        function: Callable[[*_Ts], object],
        *args: *_Ts,
        refused: Callable[[], object] | None = None,
        budget: Budget = Budget.CALLS,
        context: Context | None = None,
    ) -> None:
        """Run `function(*args)` on a thread of the pool; never wait for one.

        What the job raises is logged and otherwise ignored.

        Args:
            refused: Called on the timer's thread, quickly, instead of `function` when the job stood in line
                for too long, or the pool is closed. Without it a refusal is logged.
            context: The context variables of the job; those of the caller do not come along. None: none.

        Raises:
            RuntimeError: This process was forked from the one that made the pool: its threads are not here.
        """
        if self._pid != os.getpid():
            raise RuntimeError(
                f"these workers belong to process {self._pid}, and this is its forked child "
                f"{os.getpid()}, which has none of their threads; make new ones here"
            )
        # To look a member of an enumeration up is slow, and nearly all are calls.
        lane = self._calls if budget is Budget.CALLS else self._lanes[budget]
        self._place(_Job(lane, function, args, refused, context))

    def close(self, timeout: float = 0.0) -> int:
        """Take no more jobs and refuse those in line; let go of the threads.

        Idle threads end at once, busy ones after their job.

        Args:
            timeout: Seconds to wait for the busy ones.

        Returns:
            How many jobs still run.
        """
        with self._lock:
            self._closed = True
            jobs = [job for lane in self._every_lane for job in lane.line]
            for lane in self._every_lane:
                lane.line.clear()
            while self._idle:
                self._idle.pop().wake.release()
            threads = self._threads - {threading.current_thread()}
        for job in jobs:
            self._refuse(job)
        deadline = time.monotonic() + timeout
        for thread in threads:
            with suppress(RuntimeError):  # it is about to be started, and ends by itself
                thread.join(max(0.0, deadline - time.monotonic()))
        return self.busy

    def _place(self, job: _Job, *, may_start: bool = True) -> None:
        with self._lock:
            verdict = self._decide(job, may_start)
        if verdict is _Verdict.START:
            self._start(job)
        elif verdict is _Verdict.REFUSE:
            self._refuse(job)

    def _decide(self, job: _Job, may_start: bool) -> _Verdict:
        lane = job.lane
        if self._closed:
            return _Verdict.REFUSE
        if lane.busy < lane.limit and (self._idle or may_start):
            self._count(lane, 1)
            if not self._idle:
                return _Verdict.START
            # Both under the lock: a thread that is not among the idle ones has a job, or ends.
            worker = self._idle.pop()
            worker.job = job
            worker.wake.release()
            return _Verdict.DONE
        if lane.wait == 0.0:
            return _Verdict.REFUSE
        if lane.wait is not None:
            try:
                job.alarm = self._timer.call_later(lane.wait, self._give_up, job)
            except RuntimeError:  # without a timer it could stand there for ever
                return _Verdict.REFUSE
        lane.line.append(job)
        return _Verdict.DONE

    def _count(self, lane: _Lane, change: int) -> None:
        lane.busy += change
        self._busy += change
        if self._busy > self._peak:
            self._peak = self._busy

    def _start(self, job: _Job) -> None:
        if self._start_thread(job):
            return
        # As at the limit; but perhaps nobody is there to take the job from the line.
        with self._lock:
            self._count(job.lane, -1)
        self._place(job, may_start=False)
        self._retry_later()

    def _start_thread(self, job: _Job | None) -> bool:
        with self._lock:
            self._started += 1
            name = f"{self._name}-{self._started}"
        thread = threading.Thread(target=self._work, args=(_Worker(job),), name=name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._threads.discard(thread)
            return False
        return True

    def _retry_later(self) -> None:
        with self._lock:
            if self._retrying or self._closed or not self.waiting:
                return
            self._retrying = True
        with suppress(RuntimeError):  # the timer is closed, and soon this pool will be
            self._timer.call_later(_RETRY, self._retry)

    def _retry(self) -> None:
        with self._lock:
            self._retrying = False
            free = sum(min(len(lane.line), lane.limit - lane.busy) for lane in self._every_lane)
            count = 0 if self._closed else free
        for _ in range(count):
            if not self._start_thread(None):
                self._retry_later()
                return

    def _from_line(self, lane: _Lane) -> _Job | None:
        if not lane.line or lane.busy >= lane.limit:
            # Others stand in line with places left only where a thread could not be started.
            for lane in self._every_lane:
                if lane.line and lane.busy < lane.limit:
                    break
            else:
                return None
        job = lane.line.popleft()
        self._count(lane, 1)
        if job.alarm is not None:
            job.alarm.cancel()
        return job

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            try:
                job.lane.line.remove(job)
            except ValueError:  # a thread has it
                return
        self._refuse(job)

    def _refuse(self, job: _Job) -> None:
        if job.alarm is not None:
            job.alarm.cancel()
        with self._lock:
            self._refused += 1
        if job.refused is None:
            logger.error(
                "a job was refused: %s", "the pool is closed" if self._closed else "no thread is free"
            )
            return
        try:
            self._timer.call_soon(job.refused)
        except RuntimeError:  # it is closed; whoever closes a runtime can take the answer
            _call(job.refused)

    def _work(self, worker: _Worker) -> None:
        if worker.job is None:
            self._rest(worker, None)
        try:
            while (job := worker.job) is not None:
                worker.job = None
                _call(job.function, *job.args, context=job.context)
                lane = job.lane
                # A thread that waits for its next job keeps nothing of the last one.
                del job
                self._rest(worker, lane)
        finally:
            self._threads.discard(threading.current_thread())

    def _rest(self, worker: _Worker, lane: _Lane | None) -> None:
        """Return when `worker`, which had a job on `lane`, has another one, or none and shall end."""
        with self._lock:
            if lane is not None:
                self._count(lane, -1)
            worker.job = self._from_line(lane or self._calls)
            if worker.job is not None or self._closed:
                return
            self._idle.append(worker)
        while not worker.wake.acquire(timeout=self._idle_for):
            with self._lock:
                if worker.job is None:
                    if worker in self._idle:
                        self._idle.remove(worker)
                    return


def _call(function: Callable[..., object], *args: object, context: Context | None = None) -> None:
    try:
        (Context() if context is None else context).run(function, *args)
    except BaseException:  # nothing that a job does may cost the pool a thread
        logger.exception("a job failed")
