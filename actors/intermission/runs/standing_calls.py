"""What is known of the calls of a turn that was begun before: which are made, which wait, which are left."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.confirmations import Asked, asked_about
from intermission.agents.outcomes import outcome_response
from intermission.agents.progress import Making
from intermission.content import FunctionCall, FunctionResponse, plain_copy
from intermission.pending import Confirmation, PendingKind
from intermission.runs.calls import CallGivenUpError
from intermission.tools.base import LookUp, OnResume, Tool, on_resume
from intermission.tools.results import storable

__all__ = ["FRESH", "Standing", "looked_up", "standing_of"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Standing:
    """How the calls of a turn stand, each by its place in it. Who is in none of the first four is to be made.

    Attributes:
        answered: Those with a response in an event.
        made: The responses of those that were made, or are not made again, and that no event holds yet.
        waiting: Those that wait for an answer from outside.
        ask: Those about which a person is to be asked whether to make them again.
        confirmed: What was said last to those that asked for leave.
        look_up: How to find out what became of those that were begun.
    """

    answered: set[int] = field(default_factory=set[int])
    made: dict[int, FunctionResponse] = field(default_factory=dict[int, FunctionResponse])
    waiting: set[int] = field(default_factory=set[int])
    ask: set[int] = field(default_factory=set[int])
    confirmed: dict[int, Confirmation] = field(default_factory=dict[int, Confirmation])
    look_up: dict[int, LookUp] = field(default_factory=dict[int, LookUp])

    @property
    def known(self) -> set[int]:
        """Those that are not to be made."""
        return self.answered | self.made.keys() | self.waiting | self.ask


FRESH = Standing()
"""All are to be made. It is never changed."""


def standing_of(
    calls: Sequence[FunctionCall], agent: str, context: AgentContext, tools: Mapping[str, Tool]
) -> Standing:
    """Return how an agent's calls stand, as the events and the journal tell."""
    standing = Standing()
    outcomes, makings = context.outcomes or {}, context.makings or {}
    responded = {response.id for event in context.events for response in event.function_responses}
    asked = asked_about(context.events, agent, calls)
    for index, call in enumerate(calls):
        about = asked.get(call.id)
        confirmed = about is not None and isinstance(about.said, Confirmation)
        # Where runs do not pause, a call that asked was answered, too: that it waits.
        if call.id in responded and (context.pauses or not confirmed):
            standing.answered.add(index)
            continue
        if about is not None and about.leave is not None:
            standing.confirmed[index] = about.leave
        if about is None or _is_used(about, makings.get(call.id)):
            _journal(standing, index, call, outcomes.get(call.id), tools.get(call.name))
        else:
            _asked(standing, index, call, about)
    return standing


def _is_used(about: Asked, making: Making | None) -> bool:
    """Return whether a call was begun with the answer to a question about it, which counts once."""
    return about.said is not None and making is not None and making.since > about.since


def _asked(standing: Standing, index: int, call: FunctionCall, about: Asked) -> None:
    said = about.said
    if said is None:
        standing.waiting.add(index)
    elif not isinstance(said, Confirmation):
        standing.made[index] = FunctionResponse(call.id, call.name, said)
    elif about.kind is PendingKind.RESUME and not said.confirmed:
        standing.made[index] = _unknown(call)


def _journal(standing: Standing, index: int, call: FunctionCall, outcome: Any, tool: Tool | None) -> None:
    """Say how a call stands about which nobody was asked, or that was begun since."""
    if outcome == "pending":
        standing.waiting.add(index)
    elif outcome == "unknown":
        policy = on_resume(tool)
        if callable(policy):
            standing.look_up[index] = policy
        elif policy == OnResume.ASK:
            standing.ask.add(index)
        elif policy == OnResume.FAIL:
            standing.made[index] = _unknown(call)
    elif outcome is not None and outcome not in ("not_started", "asked"):  # may be a dict
        standing.made[index] = FunctionResponse(call.id, call.name, outcome_response(outcome))


def looked_up(look_up: LookUp, call: FunctionCall, extra: Mapping[str, Any]) -> FunctionResponse | None:
    """Return the response that a look-up has for a call; `None` if the call is to be made again.

    Raises:
        CallGivenUpError: It has failed, so that what came of the call is still unknown.
    """
    try:
        found = look_up(FunctionCall(call.id, call.name, plain_copy(call.args)))
        if found is not None and not isinstance(found, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"on_resume must return a mapping or None, not {type(found).__name__}")
        return None if found is None else FunctionResponse(call.id, call.name, storable(found))
    except Exception as error:
        logger.exception("what came of a call of tool %s could not be looked up", call.name, extra=extra)
        raise CallGivenUpError("unknown", "what came of it could not be looked up") from error


def _unknown(call: FunctionCall) -> FunctionResponse:
    return FunctionResponse(call.id, call.name, outcome_response("unknown"))
