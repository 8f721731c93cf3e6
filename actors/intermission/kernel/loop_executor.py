"""`LoopExecutor`: where `asyncio.to_thread` runs on a loop of ours; it keeps no process from ending."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from intermission.kernel.timer import Timer
from intermission.kernel.workers import Budget, Workers

__all__ = ["LoopExecutor"]

T = TypeVar("T")

_THREADS = 32  # as many as asyncio has at most


class LoopExecutor(ThreadPoolExecutor):
    """The default executor of an event loop, on daemon threads.

    A loop takes none that is not a `ThreadPoolExecutor`, and Python waits for the threads of those when it
    exits: a tool that waits in one for ever would keep the process for ever.

    Args:
        timer: Of the runtime.
    """

    def __init__(self, timer: Timer) -> None:
        super().__init__(max_workers=1)  # it never gets a thread
        self._workers = Workers(timer=timer, reserve=_THREADS, name="intermission-executor")

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """See `Executor.submit`."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is raised where the future is waited for
                future.set_exception(error)
            else:
                future.set_result(value)

        closed = RuntimeError("the loop of async tools is closed: it takes no more calls")
        self._workers.submit(work, refused=partial(future.set_exception, closed), budget=Budget.RESERVE)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. What runs is not waited for, whatever the arguments say."""
        self._workers.close()
