"""Questions whether a call may be made, and their answers, as events hold them. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from intermission.content import Content, FunctionCall, Part, plain_copy
from intermission.errors import InvalidAnswerError
from intermission.events import Event
from intermission.ids import new_hex
from intermission.pending import CONFIRMATION, Confirmation, PendingKind, confirmation_in

__all__ = ["Asked", "asked_about", "asked_call", "kind_of", "newly_confirmed", "question"]


def question(calls: Iterable[tuple[FunctionCall, Mapping[str, Any], PendingKind]]) -> Content:
    """Return the message that asks whether calls may be made, each with what is asked, and of which kind."""
    parts: list[Part] = []
    for call, asked, kind in calls:
        args = {"originalFunctionCall": call.to_dict(), "toolConfirmation": plain_copy(asked)}
        if kind is PendingKind.RESUME:
            args["kind"] = str(kind)
        parts.append(Part(function_call=FunctionCall(f"call-{new_hex()}", CONFIRMATION, args)))
    return Content("model", tuple(parts))


def asked_call(call: FunctionCall) -> FunctionCall | None:
    """Return the call about which another one asks; `None` if that one asks nothing."""
    given: object = call.args.get("originalFunctionCall") if call.name == CONFIRMATION else None
    if not isinstance(given, Mapping):
        return None
    original = cast("Mapping[str, Any]", given)
    return FunctionCall.from_dict(original) if original.get("id") and original.get("name") else None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a call, and what was said to it.

    Attributes:
        kind: What was asked.
        said: The answer to it; `None` if there is none yet. To the question whether a call is to be made once
            more it may be the call's response itself.
        since: The number of the event with the answer; 0 without one.
        leave: What was said last to the question whether the call may be made at all, which its tool is told.
    """

    kind: PendingKind
    said: Confirmation | Mapping[str, Any] | None = None
    since: int = 0
    leave: Confirmation | None = None


def asked_about(events: Sequence[Event], agent: str, calls: Iterable[FunctionCall]) -> dict[str, Asked]:
    """Return what was asked about an agent's calls, by the calls' ids.

    Of several questions about one call the last counts. A question that the agent has not asked, or that asks
    about a call of another name or with other arguments, counts for nothing, and neither does an answer that
    says neither yes nor no.
    """
    mine = {call.id: call for call in calls}
    asked: dict[str, str] = {}
    found: dict[str, Asked] = {}
    for event in events:
        for call in event.function_calls if event.author == agent else ():
            original = asked_call(call)
            if original is not None and original == mine.get(original.id):
                asked[call.id] = original.id
                before = found.get(original.id)
                found[original.id] = Asked(kind_of(call), leave=None if before is None else before.leave)
        for response in event.function_responses if event.author == "user" else ():
            about = found.get(asked.get(response.id, ""))
            if about is not None and about.said is None:
                said = _said(about.kind, response.response)
                since = 0 if said is None else event.seq or 0
                leave = about.leave
                if about.kind is PendingKind.CONFIRMATION and isinstance(said, Confirmation):
                    leave = said
                found[asked[response.id]] = Asked(about.kind, said, since, leave)
    return found


def kind_of(question: FunctionCall) -> PendingKind:
    """Return what a question asks."""
    return PendingKind.RESUME if question.args.get("kind") == PendingKind.RESUME else PendingKind.CONFIRMATION


def _said(kind: PendingKind, response: Mapping[str, Any]) -> Confirmation | Mapping[str, Any] | None:
    try:
        return confirmation_in(response)
    except InvalidAnswerError:
        return response if kind is PendingKind.RESUME else None


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
