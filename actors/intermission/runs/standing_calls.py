"""What is known of the calls of a turn that was begun before: which are made, which wait, which are left."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from intermission.agents.base import AgentContext
from intermission.agents.confirmations import answered_confirmations
from intermission.agents.contents import outcome_response
from intermission.content import FunctionCall, FunctionResponse
from intermission.pending import Confirmation

__all__ = ["FRESH", "Standing", "standing_of"]


class Standing(NamedTuple):
    """How the calls of a turn stand, each by its place in it. Who is in none of these is to be made.

    Attributes:
        answered: Those with a response in an event.
        made: The responses of those that were made, and whose response no event holds yet.
        waiting: Those that wait for an answer from outside.
        confirmed: What was said to those that asked for leave.
    """

    answered: frozenset[int]
    made: Mapping[int, FunctionResponse]
    waiting: frozenset[int]
    confirmed: Mapping[int, Confirmation]


FRESH = Standing(frozenset(), {}, frozenset(), {})
"""All are to be made."""


def standing_of(calls: Sequence[FunctionCall], agent: str, context: AgentContext) -> Standing:
    """Return how an agent's calls stand, as the events and the journal tell."""
    responded = {response.id for event in context.events for response in event.function_responses}
    confirmations = answered_confirmations(context.events, agent, calls)
    outcomes: Mapping[str, Any] = context.outcomes or {}
    answered: set[int] = set()
    waiting: set[int] = set()
    made: dict[int, FunctionResponse] = {}
    confirmed: dict[int, Confirmation] = {}
    for index, call in enumerate(calls):
        outcome = outcomes.get(call.id)
        confirmation = confirmations.get(call.id)
        # Where runs do not pause, a call that asked was answered, too: that it waits.
        if call.id in responded and (confirmation is None or context.resumable):
            answered.add(index)
        elif confirmation is not None:
            confirmed[index] = confirmation
        elif outcome == "pending" or (call.id in confirmations and confirmation is None):
            waiting.add(index)
        elif outcome is not None and outcome not in {"unknown", "not_started", "asked"}:
            made[index] = FunctionResponse(call.id, call.name, outcome_response(outcome))
    return Standing(frozenset(answered), made, frozenset(waiting), confirmed)
