"""`Subscription`: a run's events, pushed to callbacks on workers, one at a time and in order."""

import logging
import threading
from collections.abc import Callable
from typing import TypeAlias

from intermission.errors import SessionClosedError, UnrequestedCancelError
from intermission.events import Event
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.cancel_hooks import default_host
from intermission.kernel.workers import Budget, Workers
from intermission.runs.async_calls import CANCEL_ERRORS
from intermission.runs.consumers import Consumers
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import RunResult, RunStatus
from intermission.runs.stream import Stream

__all__ = ["Callbacks", "Subscription"]

Callbacks: TypeAlias = tuple[
    Callable[[Event], object],
    Callable[[Exception], object] | None,
    Callable[[], object] | None,
    Callable[[RunResult], object] | None,
]
"""For each event, for an error at the end, for any other end, and for the result, whatever it is."""

logger = logging.getLogger(__name__)


class Subscription:
    """Calls back with a run's events. `Run.subscribe` makes it.

    `on_event` gets each event; then comes one of `on_error` and `on_complete`, unless the subscription was
    disposed; and at last, always and once, `on_finally` with the result. What `on_event` raises fails the
    run, and is what `on_error` gets; no further event is given.
    """

    def __init__(
        self,
        run: Lifecycle,
        stream: Stream,
        consumers: Consumers,
        callbacks: Callbacks,
        *,
        viewer: bool,
    ) -> None:
        if run.services.workers.is_foreign:
            raise SessionClosedError("this runner belongs to another process, of which this one is a fork")
        self._run = run
        self._stream = stream
        self._consumers = consumers
        self._viewer = viewer  # who ends nothing
        self._on_event, self._on_error, self._on_complete, self._on_finally = callbacks
        self._lock = threading.RLock()
        self._pumping = False
        self._again = False
        self._disposed = False
        self._ended = False
        self._error: Exception | None = None
        consumers.enter(self)
        stream.on_change(self._wake)

    @property
    def disposed(self) -> bool:
        """Whether it was disposed."""
        return self._disposed

    def dispose(self) -> None:
        """Call `on_event`, `on_error` and `on_complete` no more. The run has one consumer less.

        A call that is under way on its worker goes on to its end; none follows it but `on_finally`.
        """
        with self._lock:
            if self._disposed or self._ended:
                return
            self._disposed = True
        self._consumers.leave(self, lost=True)
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._ended:
                return
            if self._pumping:
                self._again = True
                return
            self._pumping = True
        self._submit(self._run.services.workers)

    def _submit(self, workers: Workers) -> None:
        context = self._run.context.copy()
        workers.submit(self._pump, budget=Budget.HOOKS, context=context, refused=self._refused)

    def _refused(self) -> None:
        outside = default_host()  # its workers and its timer outlive the runner's
        if self._run.result is not None or self._run.services.workers.is_closed:
            self._submit(outside.workers)  # no event comes any more that would be another try
            return
        with self._lock:
            self._pumping = False
        self._run.services.counts.hook_rejected("subscriber")
        logger.error(
            "a subscriber of run %s got no worker in time", self._run.invocation_id, extra=self._extra()
        )
        outside.timer.call_later(1.0, self._wake)

    def _pump(self) -> None:
        while True:
            try:
                event = self._stream.poll()
            except Exception as error:  # noqa: BLE001 - the log cannot be read; the consumer is told
                self._finish(error)
                return
            if isinstance(event, Event):
                self._give(event)
            elif event is not None:
                self._finish(None)
                return
            elif not self._goes_on():
                return

    def _goes_on(self) -> bool:
        with self._lock:
            if self._again:
                self._again = False
                return True
            self._pumping = False
            return False

    def _give(self, event: Event) -> None:
        if self._disposed or self._error is not None:
            return
        try:
            self._on_event(event)
        except BaseException as error:  # noqa: BLE001 - it is logged, and the run's failure
            self._log_failure()
            self._error = _failure(error)
            if not self._viewer:
                self._run.fail(self._error)

    def _finish(self, error: Exception | None) -> None:
        if error is not None and not self._disposed:
            self._consumers.leave(self, lost=True)  # it cannot be told what happens
        self._stream.on_change(None)
        result = self._run.wait_ended(None)
        assert result is not None
        with self._lock:
            self._ended = True
            disposed = self._disposed
        error = error or self._error
        if not disposed:
            self._consumers.leave(self, lost=False)
            if error is None and result.status in {RunStatus.FAILED, RunStatus.EXPIRED}:
                error = result.error
            if error is not None and self._on_error is not None:
                self._call(self._on_error, error)
            elif error is None and self._on_complete is not None:
                self._call(self._on_complete)
        if self._on_finally is not None:
            self._call(self._on_finally, result)

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        try:
            callback(*args)
        except BaseException:  # noqa: BLE001 - it is logged, and the others are still to be called
            self._log_failure()

    def _log_failure(self) -> None:
        self._run.services.counts.hook_failed("subscriber")
        logger.exception("a subscriber raised", extra=self._extra())

    def _extra(self) -> dict[str, str | None]:
        return {"session": self._run.key.session_id, "invocation": self._run.invocation_id}


def _failure(error: BaseException) -> Exception:
    """Return what a run fails with whose subscriber has raised this."""
    if isinstance(error, Exception):
        return error
    if isinstance(error, CANCEL_ERRORS):
        return UnrequestedCancelError("a subscriber", error)
    return ActorCrashError.of("a subscriber", error)
