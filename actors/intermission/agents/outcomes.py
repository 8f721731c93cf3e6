"""What a model is told of a call that no event answers. Pure."""

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["CallOutcome", "outcome_response"]

CallOutcome: TypeAlias = str | Mapping[str, Any]
"""What the log knows of a call that no event answers: its response, or what became of it in a word."""

_MESSAGES = {
    "not_started": "The run ended before this call began. It has had no effect.",
    "finished": "The call was done, but its response was not kept.",
    "stopped": "The call was stopped before it was done. It may or may not have had its effect.",
    "unknown": "The run ended before this call was answered. It may or may not have had its effect.",
    "pending": "The call goes on, and is not answered yet.",
}

_ASKED = "The call was not made: a person was asked to confirm it, and has not done so."


def outcome_response(outcome: CallOutcome) -> Mapping[str, Any]:
    """Return what a model is told of a call that no event answers."""
    if not isinstance(outcome, str):
        return outcome
    if outcome == "asked":
        return {"status": "pending", "outcome": "not_started", "message": _ASKED}
    status = "not_run" if outcome == "not_started" else outcome
    return {"status": status, "outcome": outcome, "message": _MESSAGES.get(outcome, _MESSAGES["unknown"])}
