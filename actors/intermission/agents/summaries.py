"""Asking a model for the summary of a session's older events. Pure: the request, and no call."""

from collections.abc import Sequence

from intermission.agents.talk import narrate
from intermission.content import Content
from intermission.events import Event
from intermission.models.base import ModelRequest

__all__ = ["summary_request"]

_INSTRUCTION = (
    "You are given the record of a conversation between a user and one or more agents. Sum it up so that the "
    "agents can go on from your summary without the record. Keep what the user wants, what was decided and "
    "promised, all names, numbers and ids that may matter later, what the calls of tools have brought, and "
    "what is still open. Answer with the summary alone."
)
_LONGEST = 4_000  # characters of one line: what a tool has returned may be longer than all else together


def summary_request(events: Sequence[Event]) -> ModelRequest:
    """Return what a model is asked to sum events up, oldest first."""
    answered = {response.id for event in events for response in event.function_responses}
    lines: list[str] = []
    for event in events:
        for part in () if event.content is None or event.partial else event.content.parts:
            line = "" if part.thought else narrate(event.author, part)
            call = part.function_call
            if call is not None and call.id not in answered:
                line += " (no answer yet)"
            if line:
                lines.append(_cut(line))
    return ModelRequest(contents=(Content.user("\n".join(lines)),), instruction=_INSTRUCTION)


def _cut(line: str) -> str:
    left = len(line) - _LONGEST
    return line if left <= 0 else f"{line[:_LONGEST]}… ({left} more characters)"
