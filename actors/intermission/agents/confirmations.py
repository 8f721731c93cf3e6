"""Questions whether a call may be made, and their answers, as events hold them. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from intermission.content import Content, FunctionCall, Part, plain_copy
from intermission.errors import InvalidAnswerError
from intermission.events import Event
from intermission.ids import new_hex
from intermission.pending import CONFIRMATION, Confirmation, confirmation_in

__all__ = ["answered_confirmations", "asked_call", "newly_confirmed", "question"]


def question(calls: Iterable[tuple[FunctionCall, Mapping[str, Any]]]) -> Content:
    """Return the message that asks whether calls may be made, each with what its tool has asked."""
    parts = [
        Part(
            function_call=FunctionCall(
                f"call-{new_hex()}",
                CONFIRMATION,
                {"originalFunctionCall": call.to_dict(), "toolConfirmation": plain_copy(asked)},
            )
        )
        for call, asked in calls
    ]
    return Content("model", tuple(parts))


def asked_call(call: FunctionCall) -> FunctionCall | None:
    """Return the call about which another one asks; `None` if that one asks nothing."""
    given: object = call.args.get("originalFunctionCall") if call.name == CONFIRMATION else None
    if not isinstance(given, Mapping):
        return None
    original = cast("Mapping[str, Any]", given)
    return FunctionCall.from_dict(original) if original.get("id") and original.get("name") else None


def answered_confirmations(
    events: Sequence[Event], agent: str, calls: Iterable[FunctionCall]
) -> dict[str, Confirmation | None]:
    """Return what was said to the questions about an agent's calls, by the calls' ids; `None`: nothing yet.

    Of several questions about one call the last counts. A question that the agent has not asked, or that asks
    about a call of another name or with other arguments, counts for nothing, and neither does an answer that
    says neither yes nor no.
    """
    mine = {call.id: call for call in calls}
    asked: dict[str, str] = {}
    found: dict[str, Confirmation | None] = {}
    for event in events:
        for call in event.function_calls if event.author == agent else ():
            original = asked_call(call)
            if original is not None and original == mine.get(original.id):
                asked[call.id] = original.id
                found[original.id] = None
        for response in event.function_responses if event.author == "user" else ():
            about = asked.get(response.id)
            if about is not None and found.get(about) is None:
                try:
                    found[about] = confirmation_in(response.response)
                except InvalidAnswerError:
                    continue
    return found


def newly_confirmed(events: Sequence[Event], agent: str) -> tuple[FunctionCall, ...]:
    """Return the agent's calls about which the newest event, one of the user's, says whether to make them.

    Those that have had a response since the first answer about them are left out.
    """
    if not events or events[-1].author != "user" or not _answers(events[-1]):
        return ()
    made: dict[str, FunctionCall] = {}
    asked: dict[str, FunctionCall] = {}
    decided: set[str] = set()
    done: set[str] = set()
    for event in events:
        if event.author == "user":
            decided |= {asked[id].id for id in _answers(event) if id in asked}
        elif event.author == agent:
            done |= {response.id for response in event.function_responses} & decided
            for call in event.function_calls:
                original = asked_call(call)
                if original is None:
                    made[call.id] = call
                elif made.get(original.id) == original:
                    asked[call.id] = original
    found = (asked[id] for id in _answers(events[-1]) if id in asked)
    return tuple({call.id: call for call in found if call.id not in done}.values())


def _answers(event: Event) -> list[str]:
    return [response.id for response in event.function_responses if response.name == CONFIRMATION]
