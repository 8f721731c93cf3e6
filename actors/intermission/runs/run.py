"""`Run`: the caller's handle on one run."""

import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Self

from intermission.errors import AlreadyConsumedError
from intermission.events import Event
from intermission.kernel.dispatcher import blocking_here
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.runs.consumers import Consumers
from intermission.runs.events import AsyncEvents, Events
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.receipt import CancelReceipt, CancelReport
from intermission.runs.residual import receipt_of, report_of
from intermission.runs.result import CancelSource, RunResult, RunStatus
from intermission.runs.states import RunState
from intermission.runs.stream import Stream
from intermission.runs.subscription import Subscription
from intermission.runs.waiting import Deadline, start_in_call, wait_async, waiting, waiting_for_cancel

__all__ = ["Run", "lifecycle_of"]


class Run:
    """One run of an app's agent on one session. `Runner.run` makes it.

    A run is cold: nothing happens, and nothing is stored, before it is started. Iterating it, `result()`,
    `with` and `await` start it and make the caller its consumer; when its last consumer is gone before its
    end, `RunConfig.on_consumer_lost` decides what becomes of it. `start()` starts it with no consumer: then
    it belongs to nobody. It has one stream of events; any number of threads and tasks may wait for its
    result.

    Calls that can wait have a twin for event loops: `astart`, `aresult`, `aanswer`, `acancel`, `aterminated`.
    """

    def __init__(self, lifecycle: Lifecycle, view: Stream | None = None) -> None:
        self._lifecycle = lifecycle
        self._view = view  # the stream of a viewer, who neither starts nor ends anything
        self._consumed = False
        self._consumers = lifecycle.consumers
        if view is not None:
            self._consumers = Consumers(lifecycle.services.dispatcher, lambda: None, detached=True)
        self._blocks: list[object] = []  # the consumers that stand for `with` blocks

    @property
    def user_id(self) -> str:
        """The session's user."""
        return self._lifecycle.key.user_id

    @property
    def session_id(self) -> str:
        """The session."""
        return self._lifecycle.key.session_id

    @property
    def invocation_id(self) -> str | None:
        """The run's id; `None` while it is cold."""
        return self._lifecycle.invocation_id

    @property
    def state(self) -> str:
        """`"created"`, `"queued"`, `"running"`, `"ending"` or `"ended"`."""
        return self._lifecycle.state

    @property
    def status(self) -> RunStatus | None:
        """How it ended; `None` before the end."""
        result = self._lifecycle.result
        return None if result is None else result.status

    @property
    def outcome(self) -> RunResult | None:
        """What it came to, also if it failed; `None` before the end. It never waits, and raises nothing."""
        return self._lifecycle.result

    @property
    def cancel_report(self) -> CancelReport | None:
        """How far a cancel has come; `None` if nobody has cancelled the run."""
        return report_of(self._lifecycle)

    # Starting it.

    def start(self) -> Self:
        """Start it, with no consumer, and return the run; starting twice changes nothing.

        Returns when the run is admitted: its user event is durable, or it waits behind another run of its
        session, which may be the one in whose call this stands. Its events can be iterated afterwards, and
        none is missed.

        Raises:
            SessionBusyError: Another process or runner has the session.
            SessionClosedError: The runner or the session is closed.
            OverloadedError: Too many runs wait in the session.
            StorageError: The beginning could not be stored.
        """
        warn_of_blocking("Run.start", "astart")
        self.begin()
        if not self._lifecycle.admitted:
            with blocking_here():
                self._lifecycle.wait_admitted()
        return self

    def begin(self) -> None:
        """As `start`, but return at once: `state` and `result` tell what becomes of it."""
        if self._view is not None:
            return
        self._consumers.detached = True
        self._lifecycle.start()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, on any thread, when it is admitted and when it ends; see `Lifecycle.listen`."""
        return self._lifecycle.listen(listener)

    def raise_refusal(self) -> None:
        """Raise what kept the session from admitting the run, if something did; see `start`."""
        self._lifecycle.raise_refusal()

    async def astart(self) -> Self:
        """As `start`, without blocking the event loop."""
        self.begin()
        run = self._lifecycle
        await wait_async(run, lambda: run.admitted or run.result is not None)
        run.raise_refusal()
        return self

    # Its events.

    def __iter__(self) -> Iterator[Event]:
        """Start the run if need be, and yield its events: each one that is not partial after it was stored.

        Ends quietly unless the run failed or expired; `status` tells how it ended. Leaving the loop before
        the end is losing the consumer.

        Raises:
            AlreadyConsumedError: Somebody has the events already.
            Exception: What failed the run, after its last event.
        """
        warn_of_blocking("Iterating a Run", "async for, or atext_stream")
        stream = self._take_stream()
        events = Events(self._lifecycle, stream, viewer=self._view is not None)
        self._start_as_consumer()
        return events

    def __aiter__(self) -> AsyncIterator[Event]:
        """As `__iter__`, on the running event loop."""
        stream = self._take_stream()
        events = AsyncEvents(self._lifecycle, stream, viewer=self._view is not None)
        self._start_as_consumer()
        return events

    def text_stream(self) -> Iterator[str]:
        """Yield the text as it comes, each piece once; otherwise as iterating the run."""
        for event in self:
            if event.delta:
                yield event.delta

    async def atext_stream(self) -> AsyncIterator[str]:
        """As `text_stream`, on the running event loop."""
        async for event in self:
            if event.delta:
                yield event.delta

    def subscribe(
        self,
        on_event: Callable[[Event], object],
        on_error: Callable[[Exception], object] | None = None,
        on_complete: Callable[[], object] | None = None,
        on_finally: Callable[[RunResult], object] | None = None,
    ) -> Subscription:
        """Start the run if need be, and push its events to callbacks on workers, one after another.

        Raises:
            AlreadyConsumedError: Somebody has the events already.
            SessionClosedError: This process is a fork of the runner's.
        """
        stream = self._take_stream()
        subscription = Subscription(
            self._lifecycle,
            stream,
            self._consumers,
            (on_event, on_error, on_complete, on_finally),
            viewer=self._view is not None,
        )
        self._start_as_consumer()
        return subscription

    # Its result.

    def result(self, timeout: float | None = None) -> RunResult:
        """Start the run if need be, wait for its end and return what it came to.

        Args:
            timeout: Seconds to wait; `None` waits as long as it takes.

        Raises:
            TimeoutError: It has not ended within `timeout`. The run goes on.
            ValueError: `timeout` is NaN.
            ReentrantRunError: The run's session waits for the one in whose call this stands.
            SessionBusyError, SessionClosedError, OverloadedError, StorageError: It could not begin.
        """
        warn_of_blocking("Run.result", "aresult, aanswer, or await the run")
        deadline = Deadline(timeout)
        run, consumer, lost = self._lifecycle, object(), True
        try:
            self._consumers.enter(consumer)
            self._start_as_consumer()
            with waiting(run):
                run.wait_ended(deadline.left)
            lost = False
        finally:
            self._consumers.leave(consumer, lost=lost)
        return self._settled(timeout)

    async def aresult(self, timeout: float | None = None) -> RunResult:
        """As `result`, without blocking the event loop. Cancelling the task is losing a consumer."""
        deadline = Deadline(timeout)
        run, consumer, lost = self._lifecycle, object(), True
        try:
            self._consumers.enter(consumer)
            self._start_as_consumer()
            with waiting(run):
                await wait_async(run, lambda: run.result is not None, deadline.left)
            lost = False
        finally:
            self._consumers.leave(consumer, lost=lost)
        return self._settled(timeout)

    def __await__(self) -> Generator[Any, None, RunResult]:
        """Start the run if need be, wait for its end and return its result."""
        return self.aresult().__await__()

    def answer(self, timeout: float | None = None) -> str:
        """Return the text of `result`, or raise if the run did not complete.

        Raises:
            RunInterruptedError: It ended otherwise, with no error of its own.
            Exception: What failed the run; and all that `result` raises.
        """
        result = self.result(timeout)
        result.raise_for_status()
        return result.text

    async def aanswer(self, timeout: float | None = None) -> str:
        """As `answer`, without blocking the event loop."""
        result = await self.aresult(timeout)
        result.raise_for_status()
        return result.text

    # Its end.

    def cancel(self, reason: str = "", *, wait: bool = False, timeout: float | None = None) -> CancelReceipt:
        """End the run now, `cancelled`, unless it has chosen an end of its own.

        Returns when the stop slot is set and every scope of the run is cancelled, without waiting for
        anybody. Any number of cancels are one.

        Args:
            reason: Why; it is kept in the log.
            wait: Wait until the end is stored, and all work of the run has really returned.
            timeout: Seconds to wait at most.

        Raises:
            ReentrantRunError: It is cancelled, but to wait for it in its own call, or in one that it waits
                for, would never end.
        """
        deadline = Deadline(timeout)
        run = self._lifecycle
        outcome = run.cancel(CancelSource.CALLER, reason)
        if wait:
            warn_of_blocking("Run.cancel", "acancel")
            with waiting_for_cancel(run):
                run.wait_ended(deadline.left)
                run.work.wait(deadline.left)
        return receipt_of(run, outcome)

    dispose = cancel

    async def acancel(
        self, reason: str = "", *, wait: bool = False, timeout: float | None = None
    ) -> CancelReceipt:
        """As `cancel`, without blocking the event loop."""
        deadline = Deadline(timeout)
        run = self._lifecycle
        outcome = run.cancel(CancelSource.CALLER, reason)
        if wait:
            with waiting_for_cancel(run):
                await wait_async(run, self._is_terminated, deadline.left)
        return receipt_of(run, outcome)

    adispose = acancel

    def cancel_call(self, call_id: str, reason: str = "") -> bool:
        """Give up one tool call: its siblings and the run go on, and the model is told.

        Returns:
            Whether the call was under way.
        """
        give_up = self._lifecycle.calls.get(call_id)
        return give_up is not None and give_up("stopped", reason or "it was cancelled", CancelSource.CALLER)

    def stop(self, reason: str = "") -> None:
        """End the run after the step in hand: `stopped`, every call answered, with a final event."""
        self._lifecycle.request_stop(reason)

    def wait_terminated(self, timeout: float | None = None) -> bool:
        """Return whether the run has ended and all its work has really returned, within `timeout` seconds."""
        warn_of_blocking("Run.wait_terminated", "aterminated")
        deadline = Deadline(timeout)
        run = self._lifecycle
        with waiting(run):
            return run.wait_ended(deadline.left) is not None and run.work.wait(deadline.left)

    async def aterminated(self, timeout: float | None = None) -> bool:
        """As `wait_terminated`, without blocking the event loop."""
        with waiting(self._lifecycle):
            return await wait_async(self._lifecycle, self._is_terminated, Deadline(timeout).left)

    # As a block.

    def __enter__(self) -> Self:
        """Start the run if need be; the block is a consumer of it."""
        warn_of_blocking("with run", "async with")
        self._enter_block()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumers.leave(self._blocks.pop(), lost=True)

    async def __aenter__(self) -> Self:
        """As `__enter__`, on the running event loop."""
        self._enter_block()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumers.leave(self._blocks.pop(), lost=True)

    def _enter_block(self) -> None:
        consumer = object()
        try:
            self._consumers.enter(consumer)
            self._start_as_consumer()
            self._blocks.append(consumer)
        except BaseException:  # a Ctrl-C: the block is not entered, and so will not be left
            self._consumers.leave(consumer, lost=True)
            raise

    def _take_stream(self) -> Stream:
        if self._view is not None:
            taken, self._consumed = self._consumed, True
        else:
            taken = not self._lifecycle.take_stream()
        if taken:
            raise AlreadyConsumedError(
                f"the events of run {self.invocation_id or '(not started)'} are taken already; a run has one "
                "stream. `runner.attach` gives another view, `runner.sessions.events` what is stored."
            )
        return self._view or self._lifecycle.stream

    def _start_as_consumer(self) -> None:
        if self._view is None:
            start_in_call(self._lifecycle, detached=self._consumers.detached)

    def _settled(self, timeout: float | None) -> RunResult:
        self._lifecycle.raise_refusal()
        result = self._lifecycle.result
        if result is None:
            raise TimeoutError(f"run {self.invocation_id} has not ended within {timeout} s; it goes on")
        return result

    def _is_terminated(self) -> bool:
        return self._lifecycle.result is not None and not self._lifecycle.work.pieces

    def __del__(self) -> None:
        run: Lifecycle | None = getattr(self, "_lifecycle", None)
        if run is not None and run.state == RunState.CREATED and self._view is None:
            warnings.warn(
                f"{self!r} was never started, and nothing of it is stored; iterate it, or call start(), "
                "result() or cancel()",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        stands = self.status or self.state
        return f"<Run {self.invocation_id or '(cold)'} of {self.user_id}/{self.session_id}: {stands}>"


def lifecycle_of(run: Run) -> Lifecycle:
    """Return where a run stands, for who waits for it in a way of their own."""
    return run._lifecycle  # pyright: ignore[reportPrivateUsage]  # of this module
