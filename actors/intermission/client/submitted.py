"""`SubmittedCall`: a call that another thread makes, and that can really be cancelled."""

import threading
from collections.abc import Callable
from contextvars import copy_context

from intermission.client.asking import ask, cancelled_by
from intermission.client.errors import CancelledError
from intermission.client.result import LlmResult
from intermission.client.waits import wait_until
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.scope import CancelHandle, CancelScope
from intermission.models.base import Model, ModelRequest, ModelResponse
from intermission.runs.waiting import Deadline
from intermission_storage.wakeup import Wakeup

__all__ = ["SubmittedCall"]


class SubmittedCall:
    """A call under way on another thread. `LlmClient.submit` makes it.

    A cancel ends the call and nothing else: not the thread, which may be about another call by then. The
    scope in which the call was submitted ends it, too.

    Args:
        settled: Called once, when it has its result.
    """

    def __init__(self, settled: Callable[["SubmittedCall"], object]) -> None:
        self._settled = settled
        self._scope = CancelScope()
        self.context = copy_context()
        # Re-entrant: a signal handler may cancel in the middle of any of these methods.
        self._lock = threading.RLock()
        self._changed = Wakeup()
        self._begun = False
        self._cancelled = False
        self._result: LlmResult[ModelResponse] | None = None
        self._hook: CancelHandle | None = None

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self._result is not None

    def cancel(self, reason: str = "") -> bool:
        """End the call: its request is aborted, or never made. Any thread may do it, any number of times.

        Returns:
            Whether its result will be a `CancelledError`; false if it had one before.
        """
        with self._lock:
            if self._result is not None:
                return isinstance(self._result.error, CancelledError)
            self._cancelled = True
        self._scope.cancel(reason, source="caller")
        return True

    def result(self, timeout: float | None = None) -> LlmResult[ModelResponse]:
        """Wait for the result and return it; the same object each time.

        If the scope of who waits is cancelled meanwhile, a failed result is returned that says so, and the
        call goes on.

        Args:
            timeout: Seconds to wait; `None` waits as long as it takes.

        Raises:
            TimeoutError: It was not there in time. The call goes on.
            ValueError: `timeout` is NaN.
        """
        warn_of_blocking("SubmittedCall.result", "asyncio.to_thread with it")
        scope = CancelScope.current()
        wait_until(self._changed, lambda: self.is_done, Deadline(timeout).left, scope)
        if self._result is not None:
            return self._result
        if scope is not None and scope.cancelled:
            what = "the wait was cancelled, and the call goes on"
            error = CancelledError(what, reason=scope.reason, source=scope.source)
            return LlmResult[ModelResponse].failure(error)
        raise TimeoutError(f"the call has not ended within {timeout} s; it goes on")

    # For the client.

    def watch(self) -> None:
        """From now on a cancel of its scope gives it its result, as long as no thread has begun it."""
        self._hook = self._scope.on_cancel_now(self._cancel_in_line)

    def run(self, model: Model, request: ModelRequest) -> None:
        """Make the call, on this thread, unless it was cancelled in line."""
        with self._lock:
            if self._result is not None:
                return
            self._begun = True
        try:
            with self._scope:
                result = ask(model, request, self._scope)
        except BaseException as error:  # noqa: BLE001 - a SystemExit of a model must not leave who waits alone
            failure = ModelError(f"the model raised {type(error).__name__}", kind=ModelErrorKind.OTHER)
            failure.__cause__ = error
            result = LlmResult[ModelResponse].failure(failure)
        self.settle(result)

    def settle(self, result: LlmResult[ModelResponse]) -> None:
        """Give the call its result; the first stands."""
        with self._lock:
            if self._result is not None:
                return
            if self._cancelled and not isinstance(result.error, CancelledError):
                result = LlmResult[ModelResponse].failure(cancelled_by(self._scope))
            self._result = result
        if self._hook is not None:
            self._hook.remove()
        self._scope.close()
        self._changed.wake()
        self._settled(self)

    def _cancel_in_line(self) -> None:
        with self._lock:
            begun = self._begun
        if not begun:
            self.settle(LlmResult[ModelResponse].failure(cancelled_by(self._scope)))
