"""How far the agents of an invocation had come, and its calls. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from intermission.content import plain_copy
from intermission.events import Event, is_within

__all__ = ["SUB_AGENT", "AgentState", "Checkpoint", "Making", "Progress"]

SUB_AGENT = "current_sub_agent"
"""The key of a workflow agent's state that names the sub-agent at work."""


class AgentState(dict[str, Any]):
    """What an agent keeps of its own progress: a dict of plain values. What it changes is stored with its
    next event, or by `Checkpoint`, if the app is resumable."""

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        super().__init__(saved or {})
        self._saved = plain_copy(saved or {})

    @property
    def changed(self) -> bool:
        """Whether it holds what is not stored."""
        return bool(self != self._saved)

    def take(self) -> dict[str, Any]:
        """Return what is to be stored, which counts as stored from now on."""
        self._saved = plain_copy(self)
        taken: dict[str, Any] = plain_copy(self)
        return taken


@dataclass(slots=True)
class Checkpoint:
    """How far one agent had come on one branch.

    Attributes:
        state: What it had kept.
        ended: Whether it had come to its end.
        until: The number of the event up to which what it did counts, of whichever run; `None`: what it did
            in this one.
    """

    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ended: bool = False
    until: int | None = None


class Making(NamedTuple):
    """A call was made, as the journal tells.

    Attributes:
        since: The number of the record with which it began.
        left: What it has changed and asked for, if it has ended and no event holds that.
    """

    since: int
    left: Mapping[str, Any] | None = None


class Progress:
    """How far the agents of an invocation had come before it was interrupted.

    Each checkpoint is taken once: who runs an agent a second time runs it from its beginning.

    Args:
        events: The session's events, oldest first.
        invocation_id: The invocation.
        below: The names of the agents below each one of the tree, by its name.
    """

    def __init__(
        self, events: Iterable[Event], invocation_id: str, below: Mapping[str, frozenset[str]]
    ) -> None:
        self._found: dict[tuple[str | None, str], Checkpoint] = {}
        for event in events:
            if event.invocation_id == invocation_id and event.author != "user":
                self._fold(event, below)

    @classmethod
    def at(cls, places: Mapping[tuple[str | None, str], Checkpoint]) -> "Progress":
        """Return a progress that is known, by the branches and names of the agents."""
        progress = cls((), "", {})
        progress._found = dict(places)
        return progress

    def take(self, agent: str, branch: str | None) -> Checkpoint | None:
        """Return how far an agent had come on a branch, once; `None` if it had not begun."""
        return self._found.pop((branch, agent), None)

    def _fold(self, event: Event, below: Mapping[str, frozenset[str]]) -> None:
        place = (event.branch, event.author)
        state = event.actions.agent_state
        if event.actions.end_of_agent and event.content is None:
            self._found[place] = Checkpoint(ended=True)
        elif state is not None:
            self._found[place] = Checkpoint(state)
            if SUB_AGENT in state:
                self._forget(below.get(event.author, frozenset()), event.branch)
        elif event.content is not None:
            known = self._found.get(place)
            if known is None or known.ended:
                self._found[place] = Checkpoint()

    def _forget(self, agents: frozenset[str], branch: str | None) -> None:
        """A workflow begins with one of its agents: what any of them did before is over."""
        for place in list(self._found):
            if place[1] in agents and is_within(place[0], branch):
                del self._found[place]
