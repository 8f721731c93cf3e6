"""`Ahead`: an append that a model call does not wait for, and what is held back until it is durable."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, overload

from intermission.events import Event
from intermission.kernel.promise import Promise
from intermission.runs.result import CancelSource

__all__ = ["Ahead", "EventsAhead", "Preview", "state_ahead"]


class Ahead(Promise[Event | None]):
    """The reply to an append, while a model is asked about what is appended.

    Args:
        events: The session's events, with the one that is on its way.
        state: The session's state, with the changes of that event.
        refused: Called by `wait` before it raises an error of the log.
    """

    __slots__ = ("_give_up", "_held", "_lock", "_refused", "events", "state")

    def __init__(
        self, events: Sequence[Event], state: Mapping[str, Any], refused: Callable[[], None]
    ) -> None:
        super().__init__()
        self._refused = refused
        self.events = events
        self.state = state
        self._lock = threading.RLock()  # a signal handler may cancel the run, which fails this
        self._held: list[Callable[[], None]] | None = []  # None: nothing is held any more
        self._give_up: Callable[[str, str, CancelSource | None], bool] | None = None

    def keep(self, value: Event | None) -> None:
        """It is durable: show what was held, in order."""
        if self._error is None:
            with self._lock:
                held, self._held = self._held or [], None
                for show in held:
                    show()
        super().keep(value)

    def fail(self, error: BaseException) -> None:
        """It is not, and never will be: the model is asked in vain."""
        super().fail(error)
        # A run that is over has cancelled the call itself.
        if self._give_up is not None and isinstance(self._error, Exception):
            self._give_up("stopped", "the event before it could not be stored", None)

    def wait(self) -> Event | None:
        """See `Promise.wait`."""
        try:
            return super().wait()
        except Exception:
            self._refused()
            raise

    def when_durable(self, show: Callable[[], None]) -> None:
        """Call `show` when the append is durable: now, or on the thread that says so. If it fails: never."""
        with self._lock:
            if self._held is not None:
                self._held.append(show)
            else:
                show()

    def gives_up(self, give_up: Callable[[str, str, CancelSource | None], bool]) -> None:
        """Call `give_up` if the append fails."""
        self._give_up = give_up
        if isinstance(self._error, Exception):
            give_up("stopped", "the event before it could not be stored", None)

    @contextmanager
    def seen(self) -> Generator[None]:
        """Let the code inside see events and state as they will be."""
        token = _seen.set(self)
        try:
            yield
        finally:
            _seen.reset(token)


_seen: ContextVar[Ahead | None] = ContextVar("intermission_ahead", default=None)


def state_ahead() -> Mapping[str, Any] | None:
    """Return the state as the code that runs here may see it, ahead of the log; `None` if it may not."""
    ahead = _seen.get()
    return None if ahead is None else ahead.state


class Preview(Sequence[Event]):
    """Events as they are now, and one more behind them, though others may come there meanwhile.

    Args:
        stored: The events, which may grow.
        event: The one that is on its way.
    """

    def __init__(self, stored: Sequence[Event], event: Event) -> None:
        self._stored = stored
        self._count = len(stored)
        self._event = event

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        count = self._count
        if isinstance(index, slice):
            start, stop, step = index.indices(count + 1)
            if step != 1:
                return [self[one] for one in range(start, stop, step)]
            found = self._stored[start : min(stop, count)]
            return [*found, self._event] if start <= count < stop else found
        place = range(count + 1)[index]
        return self._event if place == count else self._stored[place]

    def __len__(self) -> int:
        return self._count + 1


class EventsAhead(Sequence[Event]):
    """The session's events; where a model is about to be asked, with the one that is on its way.

    Args:
        stored: The events as they are stored.
    """

    def __init__(self, stored: Sequence[Event]) -> None:
        self._stored = stored

    def _now(self) -> Sequence[Event]:
        ahead = _seen.get()
        return self._stored if ahead is None else ahead.events

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._now()[index]

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Event]:
        return iter(self._now())
