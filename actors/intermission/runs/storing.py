"""`Storing`: what a strand has its session store, what it owes, and how a cancel ends its waiting."""

from collections.abc import Sequence
from typing import TypeAlias

from intermission.events import Event
from intermission.kernel.cancel_hooks import CancelHandle
from intermission.kernel.promise import Promise
from intermission.kernel.scope import CancelScope
from intermission.runs.ahead import Ahead
from intermission.runs.calls import Outcome
from intermission.runs.environment import Environment
from intermission.runs.messages import Append, Item
from intermission.runs.signals import RunOver

__all__ = ["Stored", "Storing"]

Stored: TypeAlias = Promise[Event | None]
"""The reply to an append: the event as it was stored, if there is one."""


class Storing:
    """The half of a strand that has its session store things. One append at a time is waited for.

    Args:
        environment: What the strands of a run share.
        scope: Cancelled when the strand must end.

    Attributes:
        owed: What is stored with the strand's next append.
    """

    def __init__(self, environment: Environment, scope: CancelScope) -> None:
        self.environment = environment
        self.scope = scope
        self.owed: list[Item] = []
        self._blocking = environment.services.workers.blocking
        self._reply: Stored | None = None
        self._sent: list[Item] = []  # what was owed, and is being stored
        self._ahead: Ahead | None = None  # the append that the next effect, a model call, does not wait for
        self._hook: CancelHandle | None = scope.on_cancel_now(self._wake)

    def _store(
        self, event: Event | None, *, after: Sequence[Item] = (), last: bool = False, opening: bool = False
    ) -> Stored:
        """Have the session store what is owed, an event and records; return the reply, for `_stored`.

        Raises:
            RunOver: The run is over.
        """
        self._reply = reply = Promise[Event | None]()
        self._sent, self.owed = self.owed, []
        self.environment.tell(Append(self.environment.run, event, reply, self._sent, after, last, opening))
        if self.scope.cancelled:
            reply.fail(RunOver())
        return reply

    def _stored(self, reply: Stored) -> Outcome:
        """Return the outcome of a reply that is there.

        Raises:
            RunOver: The run, or the strand, is over.
        """
        try:
            return Outcome(reply.wait())
        except Exception as error:  # noqa: BLE001 - it is the agent's to handle
            self.owed = [*self._sent, *self.owed]  # it was refused with the rest, and is still true
            return Outcome(error=error)

    def _store_ahead(self, event: Event) -> Event:
        """Have the session store what is owed and an event, and return before that is durable."""
        before, self.owed = self.owed, []
        self._sent = []

        def refused() -> None:
            before[:], self.owed = [], [*before, *self.owed]

        self._reply = self._ahead = ahead = self.environment.ahead(event, refused)
        self.environment.tell(Append(self.environment.run, event, ahead, tuple(before)))
        if self.scope.cancelled:
            ahead.fail(RunOver())
        return event

    def _settle_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with self._blocking:
                ahead.wait()

    @property
    def owes_events(self) -> bool:
        """Whether there is an event among what is owed."""
        return any(isinstance(item, Event) for item in self.owed)

    def journal(self, *records: Item) -> None:
        """Have the session store records that nobody waits for."""
        self.environment.tell_later(Append(self.environment.run, None, None, records))

    def journal_owed(self) -> None:
        """Have the session store what is owed, for nothing is stored soon that could take it along."""
        owed, self.owed = self.owed, []
        if owed:
            self.journal(*owed)

    def _wake(self) -> None:
        reply = self._reply
        if reply is None or reply.answered:
            return
        try:
            # No interrupt reaches the thread of the timer, which so answers and has the strand go on.
            self.environment.services.timer.call_soon(reply.fail, RunOver())
        except RuntimeError:  # the runner is closed
            reply.fail(RunOver())

    def _end_storing(self) -> None:
        # The hook holds this strand: a circle would be left to the garbage collection.
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.remove()
