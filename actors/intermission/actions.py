"""`Actions`: what an agent, a callback or a tool asks for beside what it says, until an event carries it."""

from dataclasses import dataclass, field, replace
from typing import Any

from intermission.events import NO_ACTIONS, EventActions

__all__ = ["Actions"]


@dataclass(slots=True)
class Actions:
    """What is asked for; it travels with the next event that is stored, as changes of the state do.

    Attributes:
        skip_summarization: The response ends the turn; no model sums it up.
        transfer_to_agent: Name of the agent that goes on.
        escalate: The enclosing loop ends.
        end_of_agent: The agent has finished its part of the invocation.
        requested_tool_confirmations: What calls ask leave for, by their ids. It does not travel with the
            next event: the runtime asks.
    """

    skip_summarization: bool = False
    transfer_to_agent: str | None = None
    escalate: bool = False
    end_of_agent: bool = False
    requested_tool_confirmations: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def end_invocation(self) -> bool:
        """Another name of `end_of_agent`."""
        return self.end_of_agent

    @end_invocation.setter
    def end_invocation(self, value: bool) -> None:
        self.end_of_agent = value

    @property
    def asked(self) -> bool:
        """Whether anything is asked for."""
        return (
            self.skip_summarization
            or self.escalate
            or self.end_of_agent
            or self.transfer_to_agent is not None
        )

    def merge(self, other: "Actions") -> None:
        """Take over what another asks for: the later transfer stands, and nothing is taken back."""
        self.skip_summarization = self.skip_summarization or other.skip_summarization
        self.escalate = self.escalate or other.escalate
        self.end_of_agent = self.end_of_agent or other.end_of_agent
        if other.transfer_to_agent is not None:
            self.transfer_to_agent = other.transfer_to_agent

    def take(self, actions: EventActions = NO_ACTIONS) -> EventActions:
        """Return an event's actions with what is asked for on them, and begin anew."""
        if not self.asked:
            return actions
        taken = replace(
            actions,
            skip_summarization=actions.skip_summarization or self.skip_summarization,
            transfer_to_agent=actions.transfer_to_agent or self.transfer_to_agent,
            escalate=actions.escalate or self.escalate,
            end_of_agent=actions.end_of_agent or self.end_of_agent,
        )
        self.skip_summarization = self.escalate = self.end_of_agent = False
        self.transfer_to_agent = None
        return taken
