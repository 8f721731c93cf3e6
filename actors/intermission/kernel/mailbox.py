"""`Mailbox`: an actor's waiting messages, and whose turn it is. `Lane`: which of them go first."""

from collections import deque
from enum import IntEnum
from threading import Lock
from typing import Any

from pykka._envelope import Envelope

from intermission.kernel.dispatcher import Dispatcher

__all__ = ["Lane", "Mailbox", "Pause"]


class Lane(IntEnum):
    """The order in which an actor takes its messages: all of a lower lane before any of a higher one.

    A message's class says where it belongs: `lane: ClassVar[Lane] = Lane.CONTROL`. Without that, and for
    Pykka's own messages, it is `USER`.
    """

    CONTROL = 0
    """Stop, cancel: overtakes everything that waits."""
    INTERNAL = 1
    """What the runtime's parts tell each other."""
    USER = 2
    """What others send."""


class Pause(BaseException):
    """Raised by `Mailbox.get` when there is nothing to take now. Pykka's loop lets it out."""


_CONTROL, _INTERNAL = Lane.CONTROL, Lane.INTERNAL


class Mailbox:
    """Messages from any number of senders for one reader at a time, in order by sender and lane.

    Putting takes no lock that somebody could hold: a finaliser or a signal handler may send while the same
    thread stands in the middle of `put`. So all put into one list, and the reader sorts.

    `activate` is for the subclass; `put` schedules the mailbox when it is idle.
    """

    # There is a mailbox for each idle session: what is rarely needed is made when it is.
    __slots__ = (
        "_budget",
        "_control",
        "_control_budget",
        "_incoming",
        "_internal",
        "_queued",
        "_turn",
        "_user",
        "blocked_on",
        "dispatcher",
        "error",
        "stopped",
    )

    def __init__(self) -> None:
        self._incoming: list[Envelope[Any]] = []
        self._control: deque[Envelope[Any]] | None = None
        self._internal: deque[Envelope[Any]] | None = None
        self._user: deque[Envelope[Any]] | None = None
        self._budget = self._control_budget = -1
        # Held by who activates the mailbox: one thread at a time.
        self._turn = Lock()
        # Whether senders need not schedule: it is scheduled, or activated, or its actor is still being made.
        self._queued = True
        self.dispatcher: Dispatcher  # set by the system, before anybody can put
        self.stopped = False
        self.error: Exception | None = None  # why it has stopped, if it failed
        # The mailbox of the actor that this one's waits for, in `ask`.
        self.blocked_on: Mailbox | None = None

    def put(self, envelope: Envelope[Any], /) -> None:
        """Add a message, and schedule the actor if it is idle."""
        try:
            self._incoming.append(envelope)
            if not self._queued:
                self.wake()
        except BaseException:
            # An interrupt may have come between the mark and the queue. Once too often does no harm.
            self.wake()
            raise

    def put_here(self, envelope: Envelope[Any], /) -> None:
        """As `put`, but if the actor is idle, have it handle the message on this thread, now.

        For a thread that would wait for the answer anyway: it spares two changes of threads.
        """
        self._incoming.append(envelope)
        if not self._queued:
            self._queued = True
            self.dispatcher.activate_here(self)

    def wake(self) -> None:
        """Schedule the mailbox."""
        self._queued = True
        self.dispatcher.schedule(self)

    def get(self) -> Envelope[Any]:
        """Return the next message. Only whose turn it is may call this.

        Raises:
            Pause: There is none, or as many as `begin` allows were taken.
        """
        incoming = self._incoming
        if incoming:
            if (
                len(incoming) == 1
                and self._budget
                and self._control_budget
                and not (self._control or self._internal or self._user)
            ):
                # Mostly it is alone, and there is nothing to be sorted. Who puts adds behind it.
                if self._lane_of(incoming[0]) is _CONTROL:
                    self._control_budget -= 1
                else:
                    self._budget -= 1
                return incoming.pop(0)
            self._sort()
        if self._control:
            if self._control_budget == 0:
                raise Pause
            self._control_budget -= 1
            return self._control.popleft()
        lane = self._internal or self._user
        if not lane or self._budget == 0:
            raise Pause
        self._budget -= 1
        return lane.popleft()

    def empty(self) -> bool:
        """Return whether no message waits."""
        return not (self._incoming or self._control or self._internal or self._user)

    @property
    def waiting(self) -> int:
        """How many messages wait, as far as another thread can tell."""
        sorted_ = sum(len(lane) for lane in (self._control, self._internal, self._user) if lane)
        return len(self._incoming) + sorted_

    def is_set(self) -> bool:
        """Return whether the actor has stopped: the mailbox is Pykka's `actor_stopped`, too."""
        return self.stopped

    def set(self) -> None:
        """Say that the actor has stopped."""
        self.stopped = True

    def waits_for(self, other: "Mailbox") -> bool:
        """Return whether this is `other`, or its actor asks it and waits, directly or through others."""
        seen: set[int] = set()
        here: Mailbox | None = self
        while here is not None and id(here) not in seen:
            if here is other:
                return True
            seen.add(id(here))
            here = here.blocked_on
        return False

    def activate(self) -> None:
        """Handle some messages, between `begin_turn` and `end_turn`."""
        raise NotImplementedError

    def begin(self, budget: int) -> None:
        """Allow `budget` messages of the control lane, and as many of the others together; -1 allows all."""
        self._budget = self._control_budget = budget

    def begin_turn(self) -> bool:
        """Take the turn; `False` means that another thread has it, which will see what waits."""
        return self._turn.acquire(False)

    def end_turn(self, *, again: bool = False) -> None:
        """Go to the back of the dispatcher's queue if messages wait, or if told to; else be idle."""
        if again or not self.empty():
            self._turn.release()
            self.wake()
            return
        self._control = self._internal = self._user = None
        # In this order: whoever is scheduled because the mark is gone gets the turn; who puts sees it gone,
        # or has put before we look.
        self._turn.release()
        self._queued = False
        if self._incoming and not self._queued:
            self.wake()

    @staticmethod
    def _lane_of(envelope: Envelope[Any]) -> object:
        """Return a message's lane, if it is one: a field of the user's may happen to be called so."""
        message: object = envelope.message
        try:
            return getattr(type(message), "lane", None)
        except Exception:  # noqa: BLE001 - a strange metaclass must not lose the messages behind it
            return None

    def _sort(self) -> None:
        # Only the reader takes away, so what it copied still stands at the front, whoever appends meanwhile.
        batch = self._incoming[:]
        del self._incoming[: len(batch)]
        for envelope in batch:
            lane = self._lane_of(envelope)
            if lane is _CONTROL:
                if self._control is None:
                    self._control = deque()
                self._control.append(envelope)
            elif lane is _INTERNAL:
                if self._internal is None:
                    self._internal = deque()
                self._internal.append(envelope)
            else:
                if self._user is None:
                    self._user = deque()
                self._user.append(envelope)
