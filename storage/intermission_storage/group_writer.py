"""`GroupWriter`: the one thread that commits. What waits together is committed together."""

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from intermission_storage.wakeup import Latch, Wakeup

__all__ = ["GroupWriter"]

JobT = TypeVar("JobT")

_MAX_WAITING = 4096  # places; a submitter beyond that waits for room
_MAX_GROUP = 4096
_PLACE = 16 << 10  # bytes; a larger job takes more places, so that no more than 64 MiB wait
_LINGER = 0.0001  # seconds
_PATIENCE = 1.0  # seconds


class GroupWriter(Generic[JobT]):
    """Takes jobs from any thread, and gives all that wait to `commit`, in their order, group after group.

    No lock is held by anybody who submits or waits, so a signal handler may do either at any point.

    Args:
        commit: Commits a group and reports how it went to each of its jobs. It must not raise.
        refuse: Tells a job that it came after the end. It must not raise.
        name: The thread's name.
    """

    def __init__(
        self, commit: Callable[[Sequence[JobT]], None], refuse: Callable[[JobT], None], name: str
    ) -> None:
        self._commit = commit
        self._refuse = refuse
        self._jobs: SimpleQueue[JobT | _Mark] = SimpleQueue()
        self._room = Wakeup()
        self._ended = False
        self._over = Wakeup()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def make_room(self) -> None:
        """Wait while too many jobs wait, or too many bytes.

        On the writer's own thread, where a job is submitted by the commit of another, it returns at once:
        that would wait for itself.
        """
        if self._jobs.qsize() >= _MAX_WAITING and not self.is_current():
            self._room.wait_until(lambda: self._jobs.qsize() < _MAX_WAITING)

    def submit(self, job: JobT, size: int = 0) -> None:
        """Put a job of so many bytes behind those that wait."""
        if size > _PLACE:
            for _ in range(size // _PLACE):
                self._jobs.put(_FILLER)
        self._jobs.put(job)
        if self._ended:
            self._refuse_rest()

    def flush(self, timeout: float | None = None, *, then: Callable[[], None] | None = None) -> None:
        """Return when all jobs submitted before have been committed, or after `timeout` seconds.

        Not to be called by a commit.

        Args:
            timeout: How many seconds to wait; `None` for as long as it takes.
            then: Called by the writer at that moment, before it commits anything that was submitted later.
        """
        self._flush(_Mark(then), timeout)

    @property
    def waiting(self) -> int:
        """How many places of the queue are taken: one a job, and more for a large one."""
        return self._jobs.qsize()

    def is_current(self) -> bool:
        """Return whether the caller runs on the writer's thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Commit what waits, then end the thread. What is submitted afterwards is refused."""
        self._flush(_Mark(last=True), 0)
        if not self.is_current():
            self._over.wait_until(lambda: self._ended)
            # With a limit, for the end of a thread needs a lock of Python's that this one may have, if this
            # is a signal handler's call and it was starting a thread.
            self._thread.join(_PATIENCE)

    def _flush(self, mark: "_Mark", timeout: float | None) -> None:
        self._jobs.put(mark)
        if self._ended:
            self._refuse_rest()
        mark.reached.wait(timeout)

    def _run(self) -> None:
        size, take = 1, self._jobs.get_nowait
        while not self._ended:
            group = [self._jobs.get()]
            if self._jobs.qsize() + 1 < size:
                # Those whose jobs were just committed come back one by one. Without this pause two half
                # groups would take turns. Nobody who is alone, or already back, is delayed by it.
                time.sleep(_LINGER)  # noqa: TID251 - a linger is what this is, and nobody can tell its end
            # Nobody else takes from the queue, so as many are there.
            group += [take() for _ in range(min(self._jobs.qsize(), _MAX_GROUP - 1))]
            jobs = [job for job in group if not isinstance(job, _Mark)]
            size = len(jobs)
            self._room.wake()
            if jobs:
                self._commit(jobs)
            if size < len(group):
                for mark in [mark for mark in group if isinstance(mark, _Mark)]:
                    mark.reach()
                    self._ended = self._ended or mark.last
            group.clear()  # or the last jobs, and what they hold, would live until the next
            jobs.clear()
        self._refuse_rest()
        self._over.wake()

    def _refuse_rest(self) -> None:
        """Refuse what came after the end. Whoever came late and the writer may both do it, each to some."""
        try:
            while True:
                job = self._jobs.get_nowait()
                if isinstance(job, _Mark):
                    job.reach()
                else:
                    self._refuse(job)
        except Empty:
            self._room.wake()


class _Mark:
    """What stands among the jobs and is none; `last` is the end of the thread."""

    def __init__(self, then: Callable[[], None] | None = None, *, last: bool = False) -> None:
        self.reached = Latch()
        self.last = last
        self._then = then

    def reach(self) -> None:
        """Say that all that stood before it is committed."""
        if self._then is not None:
            self._then()
        if self is not _FILLER:
            self.reached.open()


_FILLER = _Mark()  # takes the place of a part of a large job
