"""`Run`: the caller's handle on one run."""

import threading
import time
from collections.abc import Iterator

from intermission.events import Event
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import RunResult, RunStatus

__all__ = ["Run"]


class Run:
    """One run of an app's agent on one session. `Runner.run` makes it.

    A run is cold: nothing happens, and nothing is stored, before it is started by `start()`, `result()` or
    iterating it. It has one stream of events; any number of threads may wait for its result.

    In this version nothing cancels a run but the runner's `close()`: leaving the loop leaves it running.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

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
        """The run's id; `None` until its beginning is durable."""
        return self._lifecycle.invocation_id

    @property
    def state(self) -> str:
        """`"created"`, `"queued"`, `"running"` or `"ended"`."""
        return self._lifecycle.state

    @property
    def status(self) -> RunStatus | None:
        """How it ended; `None` before the end."""
        result = self._lifecycle.result
        return None if result is None else result.status

    def start(self) -> "Run":
        """Start it, with no consumer, and return the run; starting twice changes nothing.

        Returns when the run is admitted: its user event is durable, or it waits behind another run of its
        session. Its events can be iterated afterwards, and none is missed.

        Raises:
            SessionClosedError: The runner is closed.
            StorageError: The beginning could not be stored.
        """
        self._lifecycle.start()
        return self

    def __iter__(self) -> Iterator[Event]:
        """Start the run if need be, and yield its events: each one that is not partial after it was stored.

        Ends quietly when the run completed or was cancelled.

        Raises:
            AlreadyConsumedError: Somebody iterates it already.
            Exception: What failed the run, after its last event.
        """
        self._lifecycle.consume()
        self.start()
        while (event := self._lifecycle.next_event()) is not None:
            yield event
        result = self._lifecycle.result
        if result is not None and result.error is not None:
            raise result.error

    def result(self, timeout: float | None = None) -> RunResult:
        """Start the run if need be, wait for its end and return what it came to.

        Args:
            timeout: Seconds to wait; `None` waits as long as it takes.

        Raises:
            TimeoutError: It has not ended within `timeout`. The run goes on.
            ValueError: `timeout` is NaN.
            SessionClosedError: The runner was closed before the run could start.
            StorageError: The beginning could not be stored.
        """
        if timeout is not None and timeout != timeout:
            raise ValueError("timeout is NaN: give seconds, or None to wait as long as it takes")
        limit = None if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
        deadline = None if limit is None else time.monotonic() + limit
        self._lifecycle.start(limit)
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        result = self._lifecycle.wait_ended(left)
        if result is None:
            raise TimeoutError(f"run {self.invocation_id} has not ended within {timeout} s; it goes on")
        return result

    def answer(self, timeout: float | None = None) -> str:
        """Return the text of `result`, or raise if the run did not complete.

        Raises:
            RunInterruptedError: The run was cancelled.
            Exception: What failed the run; and all that `result` raises.
        """
        result = self.result(timeout)
        result.raise_for_status()
        return result.text

    def __repr__(self) -> str:
        stands = self.status or self.state
        return f"<Run {self.invocation_id or '(cold)'} of {self.user_id}/{self.session_id}: {stands}>"
