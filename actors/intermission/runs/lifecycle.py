"""`Lifecycle`: where a run stands. The caller's handle, the session and the agent share it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from intermission.config import RunConfig
from intermission.content import Content
from intermission.errors import AlreadyConsumedError
from intermission.events import Event
from intermission.kernel.promise import Promise
from intermission.keys import SessionKey
from intermission.runs.result import RunResult, RunStatus

__all__ = ["Deliver", "Lifecycle", "RunOver", "RunState"]


class RunState:
    """The states of a run, in their order."""

    CREATED = "created"
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


class RunOver(BaseException):
    """A signal, not an error: the run has ended meanwhile, and whoever still works for it leaves.

    Agents do not get to see it.
    """


Deliver: TypeAlias = "Callable[[Lifecycle], None]"
"""Hands a run to its session; raises if the session takes no more."""


class Lifecycle:
    """One run's state, its stream of events and its result, behind one lock.

    The states only go forward: created, queued, running, ended. The session moves it on; the handle
    waits; the agent asks it for the promises of its appends, so that none is left waiting at the end.
    """

    def __init__(self, key: SessionKey, message: Content, config: RunConfig, deliver: Deliver) -> None:
        self.key = key
        self.message = message
        self.config = config
        self.invocation_id: str | None = None
        self._deliver = deliver
        self._changed = threading.Condition()
        self._state = RunState.CREATED
        self._taken = False
        self._admitted = False
        self._stream: deque[Event] = deque()
        self._consumed = False
        self._append: Promise[Event] | None = None
        self._result: RunResult | None = None

    # What the caller's handle asks.

    @property
    def state(self) -> str:
        """One of `RunState`."""
        with self._changed:
            return self._state

    @property
    def result(self) -> RunResult | None:
        """The result, `None` before the end."""
        with self._changed:
            return self._result

    def start(self, timeout: float | None = None) -> bool:
        """Hand the run to its session, and return when the session has admitted it.

        It is handed over again if that is not known to have happened: a Ctrl-C may have come between. The
        session takes a run once.

        Args:
            timeout: Seconds to wait for the session; `None` waits as long as it takes.

        Returns:
            Whether the session has admitted it in time.

        Raises:
            Exception: Whatever kept the session from admitting it.
        """
        with self._changed:
            if self._state == RunState.CREATED:
                self._state = RunState.QUEUED
            must_deliver = not self._taken
        if must_deliver:
            try:
                self._deliver(self)
            except Exception as error:  # noqa: BLE001 - raised below, to everybody who starts the run
                if self.take():
                    self.end(RunResult(status=RunStatus.FAILED, error=error))
        with self._changed:
            self._changed.wait_for(lambda: self._admitted or self._result is not None, timeout)
            if not self._admitted and self._result is not None and self._result.error is not None:
                raise self._result.error
            return self._admitted

    def consume(self) -> None:
        """Take the one stream of events.

        Raises:
            AlreadyConsumedError: Somebody has it.
        """
        with self._changed:
            if self._consumed:
                raise AlreadyConsumedError(
                    f"the events of run {self.invocation_id or '(not started)'} are iterated already; "
                    "a run has one stream. Read stored events from runner.sessions.events()."
                )
            self._consumed = True

    def next_event(self) -> Event | None:
        """Return the next event when it is there, `None` when the run has ended and all were returned."""
        with self._changed:
            self._changed.wait_for(lambda: self._stream or self._result is not None)
            return self._stream.popleft() if self._stream else None

    def wait_ended(self, timeout: float | None) -> RunResult | None:
        """Return the result when it is there, `None` if it is not within `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._result is not None, timeout)
            return self._result

    # What the session does.

    def take(self) -> bool:
        """Return whether the caller is the first to take the run, and so the one who has to end it."""
        with self._changed:
            first, self._taken = not self._taken, True
            return first

    def admit(self) -> None:
        """The session has taken the run: it waits behind another, or its beginning is durable."""
        with self._changed:
            self._admitted = True
            self._changed.notify_all()

    def begin(self, invocation_id: str) -> None:
        """The run's beginning is durable."""
        with self._changed:
            self.invocation_id = invocation_id
            self._state = RunState.RUNNING
            self._admitted = True
            self._changed.notify_all()

    def show(self, event: Event) -> None:
        """Give an event to whoever iterates the run. After the end nothing is shown."""
        with self._changed:
            if self._result is None:
                self._stream.append(event)
                self._changed.notify_all()

    def end(self, result: RunResult) -> None:
        """Close the stream and set the result; an append that still waits is told that the run is over."""
        with self._changed:
            if self._result is not None:
                return
            self._result = result
            self._state = RunState.ENDED
            waiting, self._append = self._append, None
            self._changed.notify_all()
        if waiting is not None:
            waiting.fail(RunOver())

    # What the agent asks.

    def promise(self) -> Promise[Event]:
        """Return the promise for the next append's answer.

        Raises:
            RunOver: The run has ended.
        """
        with self._changed:
            if self._result is not None:
                raise RunOver
            self._append = Promise()
            return self._append
