"""`Lifecycle`: where a run stands. The caller's handle, the session and the strands share it."""

import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from intermission.config import OnConsumerLost, RunConfig
from intermission.content import Content
from intermission.errors import RunTimeoutError
from intermission.events import Event
from intermission.ids import new_id
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import TimerHandle
from intermission.keys import SessionKey
from intermission.runs.consumers import Consumers
from intermission.runs.plan import Plan, Resumption
from intermission.runs.receipt import CancelOutcome
from intermission.runs.result import CancelSource, RunResult, RunStatus, Verdict
from intermission.runs.services import Services
from intermission.runs.states import RunState
from intermission.runs.stream import Author, Own, ReadBack, Stream
from intermission.runs.work import Work
from intermission.state import TEMP
from intermission_storage.wakeup import Wakeup

__all__ = ["Lifecycle", "Port"]


class Port(Protocol):
    """The way from a run to its session, whatever actor that is at the moment."""

    def deliver(self, run: "Lifecycle") -> None:
        """Hand the run to its session; raises if the session takes no more."""
        ...

    def cancel(self, run: "Lifecycle") -> None:
        """Tell the session to look at the run's slot."""
        ...


class Lifecycle:
    """One run's state, its stop slot, its streams and its result, behind one lock.

    The states only go forward. The slot, `verdict`, is written once: by whoever cancels, or by the session
    with the end that the run chose. Who finds it written acts on what is there. A request to stop stands
    beside the slot, so that a stopping run can still be cancelled.

    The lock is re-entrant, for a signal handler may cancel a run in the middle of any of these methods.
    """

    def __init__(
        self,
        key: SessionKey,
        message: Content,
        config: RunConfig,
        services: Services,
        port: Port,
        read_back: ReadBack,
        *,
        state_delta: Mapping[str, Any] | None = None,
        resumption: Resumption | None = None,
    ) -> None:
        self.key = key
        self.message = message
        self.config = config
        self.state_delta = dict(state_delta or {})
        self.resumption = resumption
        self.plan: Plan | None = None  # what its session makes of that
        self.context = contextvars.copy_context()
        self.invocation_id: str | None = None
        self.scope: CancelScope | None = None  # made at the start
        self.work = Work(services.counts)
        # How to give up each open tool call, by its id; see `OpenCall.give_up`.
        self.calls: dict[str, Callable[[str, str, CancelSource | None], bool]] = {}
        self.stream = Stream(read_back)
        self.through: Callable[[Event], None] | None = None  # plugins, who see what is shown before it is
        self.requested: float | None = None  # when the cancel came, also one that was too late
        self.cancel_source: CancelSource | None = None
        self.cancel_reason = ""
        self.acknowledged: float | None = None
        # Weakly: a circle would leave each run to the garbage collection. Others hold one that is under way.
        self.consumers = Consumers(services.dispatcher, partial(_abandoned, weakref.ref(self)))
        self.services = services
        self._port = port
        self._lock = threading.RLock()
        # Made by who waits; apart, so that who waits for the end is not woken by the beginning.
        self._admission: Wakeup | None = None
        self._ending: Wakeup | None = None
        self._state = RunState.CREATED
        self._verdict: Verdict | None = None
        self._stop: str | None = None
        self._taken = False
        self._admitted = False
        self._consumed = False
        self._result: RunResult | None = None
        self._streams: tuple[Stream, ...] = (self.stream,)
        self._speaking: set[Author] = set()  # whose message has partials, but is not whole yet
        self._last_shown = 0
        self._deadline: TimerHandle | None = None
        self._listeners: list[Callable[[], None]] = []

    # What anybody may ask.

    @property
    def stored_delta(self) -> dict[str, Any]:
        """The changes of the state that come with the message, but for those that only the run sees."""
        return {key: value for key, value in self.state_delta.items() if not key.startswith(TEMP)}

    @property
    def state(self) -> str:
        """One of `RunState`."""
        return self._state

    @property
    def verdict(self) -> Verdict | None:
        """What the slot holds."""
        return self._verdict

    @property
    def stop_requested(self) -> str | None:
        """The reason of the first request to stop; `None` if there was none."""
        return self._stop

    @property
    def result(self) -> RunResult | None:
        """The result, `None` before the end."""
        return self._result

    @property
    def admitted(self) -> bool:
        """Whether the session has taken the run: it waits behind another, or its beginning is durable."""
        return self._admitted

    @property
    def last_shown(self) -> int:
        """The number of the last event that was shown, 0 if none was."""
        return self._last_shown

    # What the caller's handle does.

    def start(self, parent: CancelScope | None = None, outer: Work | None = None) -> None:
        """Hand the run to its session, once, and return at once.

        It is handed over again if that is not known to have happened: a Ctrl-C may have come between any two
        steps. The session takes a run once.

        Args:
            parent: The scope of the call that waits for the run, and takes it along when cancelled.
            outer: The work of that call's run.
        """
        with self._lock:
            if self._state == RunState.CREATED and self._verdict is None:
                old = self.resumption  # whose answers tell, when it begins, which one it is
                self.invocation_id = f"e-{new_id()}" if old is None else old.invocation_id
                self.work.belongs_to(self.key.session_id, self.invocation_id, outer)
                self.scope = CancelScope.child_of(parent, host=self.work.with_hooks(self.services.scopes))
                if parent is not None:
                    self.scope.on_cancel_now(partial(self._follow, parent))
                self._state = RunState.QUEUED
            if self._state == RunState.QUEUED and self._deadline is None and self.config.timeout is not None:
                with suppress(RuntimeError):  # the runner is closed, as the session will say
                    self._deadline = self.services.timer.call_later(self.config.timeout, self._expire)
            must_deliver = not self._taken and self._state in {RunState.QUEUED, RunState.ENDING}
        if must_deliver:
            try:
                self._port.deliver(self)
            except Exception as error:  # noqa: BLE001 - it is raised to everybody who starts the run
                if self.take():
                    verdict = self.decide(Verdict(RunStatus.FAILED, error=error))
                    self.end(RunResult.without_records(verdict, self.invocation_id))

    def cancel(
        self, source: CancelSource, reason: str = "", *, error: Exception | None = None
    ) -> CancelOutcome:
        """Set the slot, cancel the scope down to the wire, and tell the session, on the caller's thread.

        Each call does all the steps again: they change nothing the second time, and the first call may have
        been interrupted between two of them.
        """
        with self._lock:
            if self.requested is None:
                self.requested, self.cancel_source, self.cancel_reason = time.monotonic(), source, reason
                self.services.counts.cancel_requested(self, source)
            if self._state == RunState.ENDED:
                return CancelOutcome.ALREADY_ENDED
            status = RunStatus.EXPIRED if source is CancelSource.DEADLINE else RunStatus.CANCELLED
            if self._verdict is None:
                self._verdict = Verdict(status, source, reason, error)
            verdict = self._verdict
            if verdict.finishing:
                return CancelOutcome.ALREADY_ENDING
            cold = self._state == RunState.CREATED
            if not cold:
                self._state = RunState.ENDING
        if self.scope is not None:
            self.scope.cancel(verdict.reason, source=verdict.source)
        if cold:
            self.end(RunResult(status=verdict.status, reason=verdict.reason))
        else:
            self._port.cancel(self)
        # A cancel that comes after the deadline helps the run to its end, but does not make it its own.
        return CancelOutcome.ACCEPTED if verdict.status is status else CancelOutcome.ALREADY_ENDING

    def fail(self, error: Exception) -> None:
        """End the run `failed`, unless its end is decided."""
        verdict = self.decide(Verdict(RunStatus.FAILED, error=error))
        if verdict.error is error and self.scope is not None and self._result is None:
            self.scope.cancel(f"the run failed: {type(error).__name__}")
            self._port.cancel(self)

    def request_stop(self, reason: str = "") -> None:
        """Ask the run to end after the step in hand. The first reason stands; an ended run is not touched."""
        with self._lock:
            if self._stop is None and self._state != RunState.ENDED:
                self._stop = reason

    def wait_admitted(self, timeout: float | None = None) -> bool:
        """Return whether the session has taken the run, or it has ended, within `timeout` seconds.

        Raises:
            Exception: Whatever kept the session from admitting it.
        """
        with self._lock:
            admission = self._admission = self._admission or Wakeup()
        admission.wait_until(lambda: self._admitted or self._result is not None, timeout)
        self.raise_refusal()
        return self._admitted or self._result is not None

    def raise_refusal(self) -> None:
        """Raise what kept the session from admitting the run, if something did."""
        result = self._result
        if not self._admitted and result is not None and result.status is RunStatus.FAILED and result.error:
            raise result.error

    def wait_ended(self, timeout: float | None) -> RunResult | None:
        """Return the result when it is there, `None` if it is not within `timeout` seconds."""
        with self._lock:
            ending = self._ending = self._ending or Wakeup()
        ending.wait_until(lambda: self._result is not None, timeout)
        with self._lock:  # whoever has ended it is behind the end of its streams
            return self._result

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, on any thread, when the run is admitted and when it ends; return how to end that.

        It is called at once, too, for what has happened before.
        """
        with self._lock:
            self._listeners.append(listener)
        listener()

        def forget() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return forget

    def take_stream(self) -> bool:
        """Return whether the caller is the first to take the run's stream, and so its consumer."""
        with self._lock:
            first, self._consumed = not self._consumed, True
            return first

    def view(self, read_back: ReadBack, after: int, until: int = 0) -> Stream:
        """Return a stream of one's own, of the stored events above a number and what follows.

        Args:
            read_back: Reads the stored events.
            after: That number.
            until: The events up to this one are in the log, whether the run has shown them yet or not.
        """
        with self._lock:
            until = max(until, self._last_shown)
            stream = Stream(read_back, after=after, until=until, begun=self._speaking)
            if self._result is None:
                self._streams = (*self._streams, stream)
            else:
                stream.close()
            return stream

    def drop_stream(self, stream: Stream) -> None:
        """Take a stream away again."""
        with self._lock:
            self._streams = tuple(other for other in self._streams if other is not stream)

    # What the session does.

    def take(self) -> bool:
        """Return whether the caller is the first to take the run, and so the one who has to end it."""
        with self._lock:
            first, self._taken = not self._taken, True
            return first

    def admit(self) -> None:
        """The session has taken the run: it waits behind another, or its beginning is durable."""
        with self._lock:
            self._admitted = True
            if self._admission is not None:
                self._admission.wake()
        self._tell_listeners()

    def go_on_with(self, plan: Plan, message: Content) -> None:
        """The session knows what the run goes on with, and what of the message counts."""
        self.plan = plan
        self.invocation_id = plan.invocation_id
        self.message = message

    def begin(self, position: int) -> None:
        """The run's beginning is durable, up to the record of that number, which nobody is shown."""
        with self._lock:
            self._last_shown = position
            self.stream.skip(position)
            for stream in self._streams:
                if stream is not self.stream:
                    stream.owe(position)
            if self._state == RunState.QUEUED:
                self._state = RunState.RUNNING
        self.admit()

    def decide(self, verdict: Verdict) -> Verdict:
        """Write the slot if it is empty, and return what it holds."""
        with self._lock:
            if self._verdict is None:
                self._verdict = verdict
                self._state = RunState.ENDING
            return self._verdict

    def show(self, event: Event) -> None:
        """Have an event shown; a partial, for stored ones go through the session."""
        (self.through or self.show_now)(event)

    def show_now(self, event: Event, own: Own | None = None, changed: bool = False) -> None:
        """Give an event to who looks at the run; see `Stream.push`. After the end, to nobody."""
        with self._lock:
            if self._result is not None:
                return
            author = (event.author, event.branch)
            if event.seq is None:
                if self._verdict is not None and not self._verdict.finishing:
                    return
                self._speaking.add(author)
            else:
                self._speaking.discard(author)
                self._last_shown = event.seq
            streams = self._streams
            for stream in streams:
                stream.push(event, own, changed)

    def end(self, result: RunResult) -> None:
        """Close the streams, set the result and wake who waits. The first end stands.

        Each call does all the steps again, for an interrupt may have kept the first one from some.
        """
        with self._lock:
            if self._result is None:
                self.acknowledged, self._result = time.monotonic(), result
                self.services.counts.ended(self, result.status)
            self._state = RunState.ENDED
            for stream in self._streams:
                stream.close()
            self._streams = ()
            for waited_for in (self._admission, self._ending):
                if waited_for is not None:
                    waited_for.wake()
        self.through = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self.scope is not None:
            # What still works for the run learns that it is over; then the scope above forgets it.
            self.scope.cancel("the run has ended")
            self.scope.close()
        self._tell_listeners()

    def _tell_listeners(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    def _expire(self) -> None:
        assert self.config.timeout is not None
        error = RunTimeoutError(self.invocation_id, self.config.timeout)
        self.cancel(CancelSource.DEADLINE, "timeout", error=error)

    def _follow(self, parent: CancelScope) -> None:
        # The scope is cancelled also when the run ends in another way; that is no cancel.
        if parent.cancelled and self._result is None:
            self.cancel(CancelSource.CALLER, parent.reason)


def _abandoned(seen: "weakref.ref[Lifecycle]") -> None:
    run = seen()
    if run is not None and run.result is None and run.config.on_consumer_lost == OnConsumerLost.CANCEL:
        run.cancel(CancelSource.CONSUMER_LOST, "nobody consumes the run any more")
