"""`GroupWriter`: the one thread that commits. What waits together is committed together."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

__all__ = ["GroupWriter"]

logger = logging.getLogger(__name__)

JobT = TypeVar("JobT")

_MAX_WAITING = 4096  # jobs; a submitter beyond that waits for room
_MAX_GROUP = 4096
_LINGER = 0.0001  # seconds


class GroupWriter(Generic[JobT]):
    """Takes jobs from any thread, and gives all that wait to `commit`, in their order, group after group.

    Attributes:
        submit: Puts a job behind those that wait.

    Args:
        commit: Commits a group and reports how it went to each of its jobs. It must not raise.
        name: The thread's name.
    """

    def __init__(self, commit: Callable[[Sequence[JobT]], None], name: str) -> None:
        self._commit = commit
        self._jobs: SimpleQueue[JobT | _Flush] = SimpleQueue()
        self.submit: Callable[[JobT], None] = self._jobs.put
        self._room = threading.Condition()
        self._starved = 0  # submitters that wait for room
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def make_room(self) -> None:
        """Wait while too many jobs wait.

        On the writer's own thread, where a job is submitted by the commit of another, it returns at once:
        that would wait for itself.
        """
        if self._jobs.qsize() < _MAX_WAITING or self.is_current():
            return
        with self._room:
            self._starved += 1
            self._room.wait_for(lambda: self._jobs.qsize() < _MAX_WAITING)
            self._starved -= 1

    def flush(self, timeout: float | None = None) -> None:
        """Return when all jobs submitted before have been committed, or after `timeout` seconds.

        Not to be called by a commit.
        """
        mark = _Flush()
        self._jobs.put(mark)
        mark.reached.wait(timeout)

    def is_current(self) -> bool:
        """Return whether the caller runs on the writer's thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Commit what waits, then end the thread. Nothing may be submitted afterwards."""
        self._jobs.put(_Flush(last=True))
        if not self.is_current():
            self._thread.join()

    def _run(self) -> None:
        size = 1
        while True:
            group = [self._jobs.get()]
            if self._jobs.qsize() + 1 < size:
                # Those whose jobs were just committed come back one by one. Without this pause two half
                # groups would take turns. Nobody who is alone, or already back, is delayed by it.
                time.sleep(_LINGER)  # noqa: TID251 - a linger is what this is, and nobody can tell its end
            try:
                while len(group) < _MAX_GROUP:
                    group.append(self._jobs.get_nowait())
            except Empty:
                pass
            jobs = [job for job in group if not isinstance(job, _Flush)]
            marks = [mark for mark in group if isinstance(mark, _Flush)]
            size = len(jobs)
            if self._starved:
                with self._room:
                    self._room.notify_all()
            if jobs:
                self._commit(jobs)
            for mark in marks:
                mark.reached.set()
            if any(mark.last for mark in marks):
                return
            group.clear()  # or the last jobs, and what they hold, would live until the next
            jobs.clear()


class _Flush:
    """A place among the jobs; `last` is the end of the thread."""

    def __init__(self, *, last: bool = False) -> None:
        self.reached = threading.Event()
        self.last = last
