"""`Line`: a strand as those see it who work for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.effects import Runnable
from intermission.kernel.scope import CancelScope
from intermission.runs.calls import Outcome
from intermission.runs.environment import Environment
from intermission.runs.messages import Item

__all__ = ["Finished", "Line", "Owe", "Pause", "Store"]


@dataclass(frozen=True, slots=True)
class Store:
    """Of the runtime's own effects: store this, with what is owed, and go on when that is durable."""

    records: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Owe:
    """Of the runtime's own effects: store this with what is stored next, at the latest the run's end."""

    item: Item


@dataclass(frozen=True, slots=True)
class Pause:
    """Of the runtime's own effects: the strand has nothing to do before a call is answered from outside."""


class Line(Protocol):
    """A strand. What it has and does is described there."""

    environment: Environment
    scope: CancelScope
    owed: list[Item]
    begun: set[str]
    stopped: bool
    paused: bool
    escalated: bool

    @property
    def pauses_with_end(self) -> bool:
        """Whether nothing comes between its pause and the run's end, so that both are stored together."""
        ...

    def start(self) -> None:
        """Have a worker drive it from its beginning."""
        ...

    def catches_escalation(self) -> bool:
        """Return whether it runs in an agent that ends when one below it escalates."""
        ...

    def journal(self, *records: Item) -> None:
        """Have the session store records that nobody waits for."""
        ...

    def journal_owed(self) -> None:
        """Have the session store what is owed, and do not wait for it."""
        ...

    def resume(self, outcome: Outcome) -> None:
        """Have a worker go on with it."""
        ...

    def leave(self) -> None:
        """Have a worker close it: its scope is cancelled."""
        ...

    def branch(
        self,
        agent: Runnable,
        context: AgentContext,
        scope: CancelScope,
        finished: "Finished",
        *,
        caught: bool,
    ) -> "Line":
        """Return a new strand of the same run, for an agent on a branch of its own.

        `caught` says whether an agent that it stands in ends when one in it escalates.
        """
        ...


Finished: TypeAlias = Callable[[Line, Exception | None], None]
"""Called once when a strand has left its last generator, with the error that ended it, if one did."""
