"""`Background`: calls of hooks that no run waits for."""

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple

from intermission.kernel.loop_task import LoopTask, close_awaitable
from intermission.kernel.scope import CancelScope
from intermission.kernel.workers import Budget
from intermission.runs.closers import awaited_by_close, awaited_here
from intermission.runs.services import Services

__all__ = ["Background", "Notice"]

logger = logging.getLogger(__name__)


class Notice(NamedTuple):
    """One call: the name of the hook, the hook with its arguments, and what the log says if it raises."""

    name: str
    function: Callable[[], Any]
    extra: Mapping[str, Any]


class Background:
    """Calls hooks on workers and on the loop of async tools, and logs what they raise.

    Args:
        services: What the runs of the runner share.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._changed = threading.Condition(threading.RLock())  # an interrupt may end a run inside of it
        self._errands: set[_Errand] = set()
        self._closed = False

    def call(self, notices: Iterable[Notice], context: Context) -> bool:
        """Call hooks one after another, each when the one before has ended; return at once.

        Args:
            notices: Which; made as they are needed, on the worker.
            context: The context variables of the calls.

        Returns:
            Whether they will be called; not after `close`.
        """
        errand = _Errand(self._services, iter(notices), context, self._left)
        with self._changed:
            if self._closed:
                return False
            self._errands.add(errand)
        errand.start()
        return True

    def close(self, timeout: float) -> int:
        """Take no more calls, wait for those under way, then cancel what is left; return how many that are.

        A hook that calls this does not wait for itself.

        Args:
            timeout: Seconds to wait.
        """
        caller = {awaited_here(self._services)}
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._errands <= caller, timeout)
            left = tuple(self._errands)
        for errand in left:
            errand.cancel()
        return len(left)

    def _left(self, errand: "_Errand") -> None:
        with self._changed:
            self._errands.discard(errand)
            self._changed.notify_all()


class _Errand:
    """Some calls, one after another."""

    def __init__(
        self,
        services: Services,
        notices: Iterator[Notice],
        context: Context,
        left: Callable[["_Errand"], None],
    ) -> None:
        self._services = services
        self._notices = notices
        self._context = context
        self._left = left
        self._scope = CancelScope.child_of(None, host=services.scopes)
        self._task: LoopTask | None = None

    def start(self) -> None:
        """Have a worker go on with the next call."""
        self._services.workers.submit(
            self._work, refused=self._refused, budget=Budget.HOOKS, context=self._context.copy()
        )

    def cancel(self) -> None:
        """Ask the call under way to end; no other begins."""
        self._scope.cancel("the runner was closed", source="shutdown")
        if self._task is not None:
            self._task.cancel()

    def _work(self) -> None:
        covered = self._scope.cover()
        try:
            with awaited_by_close(self._services, self):
                while (notice := self._next()) is not None:
                    answer = self._call(notice)
                    if inspect.isawaitable(answer):
                        self._await(notice, answer)
                        return
        finally:
            CancelScope.uncover(covered)
        self._left(self)

    def _next(self) -> Notice | None:
        if self._scope.cancelled:
            return None
        try:
            return next(self._notices, None)
        except Exception:
            logger.exception("what plugins are still to be told could not be read")
            return None

    def _call(self, notice: Notice) -> Any:
        try:
            return notice.function()
        except BaseException as error:  # noqa: BLE001 - whatever a hook does, its run is over
            self._log(notice, error)
            return None

    def _await(self, notice: Notice, answer: Awaitable[Any]) -> None:
        done = partial(self._done, notice)
        try:
            self._task = self._services.loops.start(answer, done, name=notice.name)
        except RuntimeError as error:  # the runner is closed
            close_awaitable(answer)
            self._log(notice, error)
            self._left(self)
            return
        if self._scope.cancelled:
            self._task.cancel()

    def _done(self, notice: Notice, _: Any, error: BaseException | None) -> None:
        if error is not None:
            self._log(notice, error)
        self.start()

    def _refused(self) -> None:
        self._services.counts.hook_rejected("plugin")
        logger.error("no worker was free in time for the hooks of an ended run")
        self._left(self)

    def _log(self, notice: Notice, error: BaseException) -> None:
        self._services.counts.hook_failed("plugin")
        logger.error("%s raised", notice.name, exc_info=error, extra=dict(notice.extra))
