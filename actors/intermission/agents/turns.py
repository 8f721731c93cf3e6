"""Where an agent stands in a turn that it has begun before, from the session's events. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from intermission.agents.base import AgentContext
from intermission.agents.confirmations import newly_confirmed
from intermission.content import FunctionCall
from intermission.events import Event
from intermission.pending import CONFIRMATION

__all__ = ["Turn", "begun_turn", "is_answered"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is left of a turn.

    Attributes:
        calls: Its calls, if some have no response yet.
        transfer: The agent that it has handed over to.
        over: Whether the agent has said its last.
        escalates: Whether it has asked the enclosing loop to end.
    """

    calls: Sequence[FunctionCall] = ()
    transfer: str | None = None
    over: bool = False
    escalates: bool = False


def is_answered(context: AgentContext) -> bool:
    """Return whether the newest event is the user's answer to a question whether a call may be made."""
    events = context.events
    return bool(events) and any(one.name == CONFIRMATION for one in events[-1].function_responses)


def begun_turn(context: AgentContext, agent: str) -> Turn:
    """Return what is left of the last turn of an agent on its branch; nothing, if it has begun none.

    In a run that is gone on with, it is one of that invocation; where one goes on that is over, the one that
    its checkpoint names. In any other it is what the newest message
    says may be done.
    """
    if context.saved is None:
        # What was said to another run is for that one to do.
        spoken = context.events and context.events[-1].invocation_id == context.invocation_id
        return Turn(newly_confirmed(context.events, agent) if spoken else ())
    mine = [event for event in context.events if _is_of(event, context, agent)]
    if not mine:
        return Turn()
    last = mine[-1]
    if last.function_calls:
        return _open_turn(last, context.events)
    if not last.function_responses:
        return Turn(over=True)
    called = max((index for index, event in enumerate(mine) if event.function_calls), default=None)
    turn = Turn() if called is None else _open_turn(mine[called], context.events)
    if turn.calls:
        return turn
    actions = [event.actions for event in mine[called or 0 :]]
    escalates = any(each.escalate for each in actions)
    return Turn(
        transfer=next((name for each in reversed(actions) if (name := each.transfer_to_agent)), None),
        over=escalates or any(each.skip_summarization or each.end_of_agent for each in actions),
        escalates=escalates,
    )


def _open_turn(event: Event, events: Sequence[Event]) -> Turn:
    answered = {response.id for other in events for response in other.function_responses}
    calls = event.function_calls
    return Turn(calls if any(call.id not in answered for call in calls) else ())


def _is_of(event: Event, context: AgentContext, agent: str) -> bool:
    """Return whether an agent has said something in this invocation on this branch, and not only asked."""
    if event.author != agent or event.branch != context.branch:
        return False
    until = None if context.saved is None else context.saved.until
    if until is None:
        if event.invocation_id != context.invocation_id:
            return False
    elif event.seq is None or event.seq > until:
        return False
    if event.content is None:
        return event.error_code is None and event.usage is not None
    return not any(call.name == CONFIRMATION for call in event.function_calls)
