"""`Stream`: a run's events on their way to one consumer. A slow consumer holds nobody.

Up to a bound, events wait here. Beyond it partials are dropped, with one marker for the gap, and stored
events are read back from the log when the consumer gets there.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from intermission.content import Content
from intermission.events import Event
from intermission_storage.wakeup import Wakeup

__all__ = ["END", "GAP", "LIMIT", "Author", "End", "Own", "ReadBack", "Stream"]

LIMIT = 1000  # events that wait for a consumer
_PAGE = 100

GAP = "partials_dropped"
"""The `error_code` of the partial event that stands for partials which a slow consumer has missed."""


class End:
    """What `Stream.poll` returns once the run has ended and all events were taken."""


END: Final = End()

ReadBack: TypeAlias = Callable[[int, int], list[Event]]
"""Reads stored events above a number, at most so many, from the log; fewer means that there are no more."""

Own: TypeAlias = Callable[[int], Event]
"""Makes a consumer's own event, with how much of it was shown."""

Author: TypeAlias = tuple[str, str | None]
"""Who speaks: an agent, and the branch that it is on."""


class Stream:
    """The events of one run for one consumer; any thread may push, one takes.

    Args:
        read_back: Reads stored events from the log.
        after: The consumer has seen the stored events up to this number.
        until: Stored events up to this number are in the log, and are read from there first.
        begun: Whose messages have partials that this consumer did not get.
        limit: How many events may wait.
    """

    def __init__(
        self,
        read_back: ReadBack,
        *,
        after: int = 0,
        until: int = 0,
        begun: Iterable[Author] = (),
        limit: int = LIMIT,
    ) -> None:
        self._read_back = read_back
        self._limit = limit
        self._lock = threading.RLock()  # a signal handler may push inside a push
        self._changed: Wakeup | None = None  # made by who waits
        self._items: deque[Event | Callable[[], Event]] = deque()
        self._position = after  # the number of the last stored event that was put among the items
        self._spilled = until if until > after else None  # stored events up to here are only in the log
        self._closed = False
        self._shown: dict[Author, int] = {}  # characters of the partials of messages that are not whole yet
        self._shown_of: dict[int, int] = {}  # the same of spilled events, by number
        self._changed_of: dict[int, Event] = {}  # those of them that are shown other than the log has them
        self._gaps: set[Author] = set(begun)
        self._marks: deque[tuple[int, Event]] = deque()  # gaps, and after which spilled event each comes
        self._wake: Callable[[], None] | None = None

    def push(self, event: Event, own: Own | None = None, changed: bool = False) -> None:
        """Give the consumer an event; a stored one has its number.

        Args:
            event: The event.
            own: Makes the consumer's own event, with how much of it was shown, when it is taken. Without it
                the consumer gets the event itself.
            changed: Whether the log holds something else.
        """
        with self._lock:
            if self._closed or (event.seq is not None and event.seq <= self._position):
                return  # a viewer that came between has read it from the log
            if event.seq is None:
                self._push_partial(event)
            else:
                self._push_stored(event, event.seq, own, changed)
            self._notify()

    def skip(self, position: int) -> None:
        """Leave out the stored events up to a number; before the first push."""
        with self._lock:
            self._position = position

    def owe(self, position: int) -> None:
        """There are stored events up to a number which nobody pushes; they are read from the log."""
        with self._lock:
            if position > max(self._position, self._spilled or 0):
                self._spilled = position
                self._notify()

    def close(self) -> None:
        """Nothing comes any more."""
        with self._lock:
            self._closed = True
            self._notify()

    def poll(self) -> Event | End | None:
        """Return the next event, `None` if there is none yet, `END` if there will be none.

        Raises:
            StorageError: The log, which holds the event, cannot be read.
        """
        while True:
            with self._lock:
                if self._items:
                    item = self._items.popleft()
                    return item if isinstance(item, Event) else item()
                if self._spilled is None:
                    return END if self._closed else None
                after, until = self._position, self._spilled
            self._fill(self._read_back(after, _PAGE), until)

    def get(self, timeout: float | None = None) -> Event | End | None:
        """As `poll`, but wait up to `timeout` seconds for an event."""
        while (event := self.poll()) is None:
            with self._lock:
                if self._changed is None:
                    self._changed = Wakeup()
            if not self._changed.wait_until(self._is_ready, timeout):
                return None
        return event

    def on_change(self, wake: Callable[[], None] | None) -> None:
        """Call `wake`, on any thread, whenever there may be something to poll."""
        with self._lock:
            self._wake = wake
            if wake is not None and self._is_ready():
                wake()

    @property
    def must_read(self) -> bool:
        """Whether the next `poll` reads the log, and so may block."""
        with self._lock:
            return not self._items and self._spilled is not None

    def _is_ready(self) -> bool:
        return bool(self._items) or self._closed or self._spilled is not None

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.wake()
        if self._wake is not None:
            self._wake()

    def _fill(self, page: list[Event], until: int) -> None:
        with self._lock:
            spilled = self._spilled or until
            for event in page:
                seq = event.seq or 0
                if seq > spilled:
                    break
                self._place_marks(seq)
                event = self._changed_of.pop(seq, event)
                shown = self._shown_of.pop(seq, 0)
                self._items.append(replace(event, shown=shown) if shown else event)
                self._position = seq
            nothing_more = len(page) < _PAGE and spilled == until
            if self._position >= spilled or nothing_more:
                self._position = max(self._position, spilled)
                self._spilled = None
                self._shown_of.clear()
                self._changed_of.clear()
                self._place_marks(None)

    def _place_marks(self, before: int | None) -> None:
        while self._marks and (before is None or self._marks[0][0] < before):
            self._items.append(self._marks.popleft()[1])

    def _push_partial(self, event: Event) -> None:
        author = (event.author, event.branch)
        if author in self._gaps:
            return
        if len(self._items) < self._limit and self._spilled is None:
            self._items.append(event)
            self._shown[author] = self._shown.get(author, 0) + len(event.text)
            return
        self._gaps.add(author)
        mark = replace(
            event,
            content=Content("model", ()),
            error_code=GAP,
            error_message="Partials were dropped: they came faster than they were taken.",
        )
        if self._spilled is None:
            self._items.append(mark)
        else:
            self._marks.append((self._spilled, mark))

    def _push_stored(self, event: Event, seq: int, own: Own | None, changed: bool) -> None:
        author = (event.author, event.branch)
        before, shown = self._shown.pop(author, 0), event.shown
        if author in self._gaps:
            self._gaps.discard(author)
            shown = min(before, shown)
        if self._spilled is not None or len(self._items) >= self._limit:
            self._spilled = max(seq, self._spilled or 0)
            if shown:
                self._shown_of[seq] = shown
            if changed:
                self._changed_of[seq] = event
        else:
            if own is not None:
                self._items.append(partial(own, shown))
            else:
                self._items.append(event if shown == event.shown else replace(event, shown=shown))
            self._position = seq
