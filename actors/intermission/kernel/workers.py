"""`Workers`: elastic daemon threads for what blocks, within budgets that cannot starve one another."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TypeAlias, TypeVarTuple

from intermission.kernel.timer import Timer
from intermission.kernel.worker_jobs import HELD, Budget, Job, JobLane, MayBlock, Occupied, Places, Worker

__all__ = ["HELD", "Budget", "Workers"]

logger = logging.getLogger(__name__)

_Step: TypeAlias = Callable[[Job], None] | None
_Ts = TypeVarTuple("_Ts")

_RETRY = 0.1  # seconds after which a thread that the system did not start is tried again


class Workers(Occupied):
    """Daemon threads that come as they are needed and go when they have been idle.

    A job goes to the thread that became idle last, so that those not needed can end; else a new thread is
    started; at the limit of its budget it stands in line, first in, first out. Exactly one of a job's
    `function` and `refused` is called.

    *Cooperative* jobs say where they may block, with `blocking`, and share few threads: one that has a place
    is *ready*, and is taken by whichever thread comes by. It may leave its thread by returning `HELD`, and
    keeps its place; `resume` makes it ready again. While one is ready a thread is on its way to it that is
    outside of all that may block, so none ever waits for what another does; if there is none, another thread
    is called. Mostly a thread is back before the one that was called has got Python's lock: few calls serve.

    Args:
        timer: Ends the time in line; `refused` is called on its thread.
        limit: Jobs of `Budget.CALLS` at a time.
        wait: Seconds in line for calls and hooks.
        idle: Seconds without a job after which a thread ends.
        name: Of the threads, before their number.
        hooks, reserve, leaves, aborts: Jobs at a time of the other budgets.

    Attributes:
        blocking: `with workers.blocking:` is for what may block in a cooperative job, and only there.
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
        leaves: int = 256,
        aborts: int = 256,
    ) -> None:
        self.blocking = MayBlock(self._blocking_begins, self._blocking_ends)
        self._timer = timer
        self._idle_for = min(idle, threading.TIMEOUT_MAX)
        self._name = name
        self._pid = os.getpid()
        # Reentrant: a finaliser may run wherever something is allocated. Where that is under the lock, what
        # it guards is whole.
        self._lock = threading.RLock()
        self._places = Places(
            {
                Budget.CALLS: JobLane(limit, wait),
                Budget.HOOKS: JobLane(hooks, wait),
                Budget.RESERVE: JobLane(reserve, None),
                Budget.LEAVES: JobLane(leaves, None, outlasts=True),
                Budget.ABORT: JobLane(aborts, 0.0),
            }
        )
        self._ready: deque[Job] = deque()  # cooperative jobs with a place, and none but them
        self._runners = 0  # threads that take what is ready, as soon as they have done what does not block
        self._called = 0  # those of them that have been called and are not there yet
        self._idle: list[Worker] = []
        self._threads: set[threading.Thread] = set()
        self._started = 0
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
    def idle(self) -> int:
        """How many threads wait for a job."""
        return len(self._idle)

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
        cooperative: bool = False,
    ) -> None:
        """Run `function(*args)` on a thread of the pool; never wait for one.

        What the job raises is logged and otherwise ignored.

        Args:
            refused: Called on the timer's thread, quickly, instead of `function` when the job stood in line
                for too long, or the pool is closed. Without it a refusal is logged.
            context: The context variables of the job; those of the caller do not come along. None: none.
            cooperative: Whether the job says where it may block. It sees to its context variables itself.

        Raises:
            RuntimeError: This process was forked from the one that made the pool: its threads are not here.
        """
        if self._pid != os.getpid():
            raise RuntimeError(
                f"these workers belong to process {self._pid}, and this is its forked child "
                f"{os.getpid()}, which has none of their threads; make new ones here"
            )
        self._place(Job(self._places.lane(budget), function, args, refused, context, cooperative=cooperative))

    def resume(self, function: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Go on with a job of `Budget.CALLS` that was held, by `function(*args)`.

        It has a place, so it is never refused, and it runs when the pool is closed, too.
        """
        job = Job(self._places.calls, function, args, cooperative=True)
        with self._lock:
            must_start = self._make_ready(job)
        if must_start:
            self._start_called()

    def end_held(self) -> None:
        """A job of `Budget.CALLS` that was held is at its end, and needs no thread for that."""
        with self._lock:
            self._places.give_back(self._places.calls)
            job = self._places.from_line(self._places.calls) if self._places.waiting else None
            step = None if job is None else self._hand_over(job)
        if job is not None and step is not None:
            step(job)

    def close(self, timeout: float = 0.0) -> int:
        """Take no more jobs and refuse those in line; return how many jobs still have a place.

        Idle threads end at once, busy ones after their job. What must not be refused has a thread as before.

        Args:
            timeout: Seconds to wait for the busy ones.
        """
        with self._lock:
            self._closed = True
            jobs = self._places.clear_lines()
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

    def _blocking_begins(self) -> None:
        """What follows in this cooperative job may block: others no longer count on this thread."""
        with self._lock:
            self._runners -= 1
            must_start = bool(self._ready) and not self._runners and self._call()
        if must_start:
            self._start_called()

    def _blocking_ends(self) -> None:
        """What follows does not block, and then this thread sees to what is ready."""
        with self._lock:
            self._runners += 1

    def _place(self, job: Job, *, may_start: bool = True) -> None:
        with self._lock:
            step = self._decide(job, may_start)
        if step is not None:
            step(job)

    def _decide(self, job: Job, may_start: bool) -> _Step:
        """Return what is left to be done for a job, without the lock."""
        lane = job.lane
        if self._closed and not lane.outlasts:
            return self._refuse
        if lane.busy < lane.limit and (self._idle or may_start):
            self._places.take(lane)
            return self._hand_over(job)
        if lane.wait == 0.0:
            return self._refuse
        if lane.wait is not None:
            try:
                job.alarm = self._timer.call_later(lane.wait, self._give_up, job)
            except RuntimeError:  # without a timer it could stand there for ever
                return self._refuse
        self._places.line_up(job)
        return None

    # The rest is done with the lock in hand, unless it says otherwise.

    def _hand_over(self, job: Job) -> _Step:
        """Give a job that has a place a thread; return what is left to be done, without the lock."""
        if job.cooperative:
            return self._start_called if self._make_ready(job) else None
        if not self._idle:
            return self._start
        # Both under the lock: a thread that is not among the idle ones has a job, or ends.
        worker = self._idle.pop()
        worker.job = job
        worker.wake.release()
        return None

    def _make_ready(self, job: Job) -> bool:
        """Return whether a thread must be started for it."""
        self._ready.append(job)
        return not self._runners and self._call()

    def _call(self) -> bool:
        """Call a thread to see to what is ready; return whether one must be started."""
        self._runners += 1
        self._called += 1
        if not self._idle:
            return True
        worker = self._idle.pop()
        worker.called = worker.runs = True
        worker.wake.release()
        return False

    def _start_called(self, _: Job | None = None) -> None:
        """Start the thread that is on its way already; without the lock."""
        if not self._start_thread(Worker(None, called=True)):
            with self._lock:
                self._runners -= 1
                self._called -= 1
            self._retry_later()

    def _start(self, job: Job) -> None:
        """Start a thread for a job; without the lock."""
        if self._start_thread(Worker(job)):
            return
        # As at the limit; but perhaps nobody is there to take the job from the line.
        with self._lock:
            self._places.give_back(job.lane)
        self._place(job, may_start=False)
        self._retry_later()

    def _start_thread(self, worker: Worker) -> bool:
        with self._lock:
            self._started += 1
            name = f"{self._name}-{self._started}"
        thread = threading.Thread(target=self._work, args=(worker,), name=name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._threads.discard(thread)
            return False
        return True

    def _retry_later(self) -> None:
        with self._lock:
            if self._retrying or not (self._ready or self.waiting):
                return
            self._retrying = True
        with suppress(RuntimeError):  # the timer is closed, and soon this pool will be
            self._timer.call_later(_RETRY, self._retry)

    def _retry(self) -> None:
        with self._lock:
            self._retrying = False
            count = self._places.free + (bool(self._ready) and not self._runners)
        for _ in range(count):
            if not self._start_thread(Worker(None)):
                self._retry_later()
                return

    def _give_up(self, job: Job) -> None:
        """A job has stood in line for too long; without the lock."""
        with self._lock:
            if not self._places.leave_line(job):  # a thread has it
                return
        self._refuse(job)

    def _refuse(self, job: Job) -> None:
        """Tell who submitted it; without the lock."""
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
            Job(job.lane, job.refused, (), cooperative=False).run()

    # What threads do.

    def _work(self, worker: Worker) -> None:
        if worker.job is None:
            self._rest(worker, None)
        try:
            while (job := worker.job) is not None:
                worker.job = None
                lane = None if job.run() else job.lane
                # A thread that waits for its next job keeps nothing of the last one.
                del job
                self._rest(worker, lane)
        finally:
            self._threads.discard(threading.current_thread())

    def _rest(self, worker: Worker, lane: JobLane | None) -> None:
        """Return when `worker`, which gives back a place on `lane`, has a job, or none and shall end."""
        while True:
            with self._lock:
                if lane is not None:
                    self._places.give_back(lane)
                must_start, lane = self._find(worker, lane), None
                done = worker.job is not None or self._closed
                if not done:
                    self._idle.append(worker)
            if must_start:
                self._start_called()
            # Not asked again: once it is among the idle ones it may have been called before the close.
            if done or not self._wait(worker):
                return

    def _wait(self, worker: Worker) -> bool:
        """Wait until an idle worker is needed; return whether it has no job yet, and must look for one."""
        while not worker.wake.acquire(timeout=self._idle_for):
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    return False
        return worker.called

    def _find(self, worker: Worker, lane: JobLane | None) -> bool:
        """Look for a job for a worker; return whether a thread must be started for others."""
        if worker.called:
            worker.called = False
            self._called -= 1
        from_line = self._places.from_line(lane or self._places.calls) if self._places.waiting else None
        if from_line is not None:
            if not from_line.cooperative:
                worker.job = from_line
                return self._runs_no_more(worker)
            self._ready.append(from_line)
        others = self._runners - self._called - worker.runs
        if self._ready and not others:
            if not worker.runs:
                worker.runs = True
                self._runners += 1
            worker.job = self._ready.popleft()
            return False
        return self._runs_no_more(worker)

    def _runs_no_more(self, worker: Worker) -> bool:
        """Do not count on it for what is ready; return whether a thread must be started for that."""
        if worker.runs:
            worker.runs = False
            self._runners -= 1
        return bool(self._ready) and not self._runners and self._call()
