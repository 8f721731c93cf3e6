"""`PendingCall`, a call that waits for an answer from outside, `Answer`, and `Confirmation`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, cast

from intermission.content import plain_copy
from intermission.errors import InvalidAnswerError

__all__ = [
    "CONFIRMATION",
    "Answer",
    "Confirmation",
    "PendingCall",
    "PendingKind",
    "confirmation_in",
    "oldest_first",
]

CONFIRMATION = "adk_request_confirmation"
"""Name of the call by which a run asks whether a tool may be called, as ADK's clients know it."""


class PendingKind(StrEnum):
    """What a pending call waits for."""

    LONG_RUNNING = "long_running"
    """Its result, which comes from outside."""
    CONFIRMATION = "confirmation"
    """Leave to be made."""
    RESUME = "resume"
    """Leave to be made once more: its process died in the middle of it."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What was said to a call that asked for leave.

    Attributes:
        confirmed: Whether it may be made.
        payload: What was given with the answer, plain values; `None` if nothing was.
        hint: What the call had asked, or why it was rejected.
    """

    confirmed: bool
    payload: Any = None
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"hint": self.hint, "confirmed": self.confirmed, "payload": plain_copy(self.payload)}


def confirmation_in(answer: Mapping[str, Any]) -> Confirmation:
    """Read an answer to a call that asked for leave: a mapping with `confirmed` or `approved`.

    ADK's clients may wrap its JSON in a text under `response`.

    Raises:
        InvalidAnswerError: It says neither yes nor no.
    """
    given = answer
    wrapped = answer.get("response")
    if isinstance(wrapped, str) and not ({"confirmed", "approved"} & answer.keys()):
        try:
            given = json.loads(wrapped)
        except (ValueError, RecursionError):
            raise InvalidAnswerError("the text under 'response' is no JSON") from None
        if not isinstance(given, dict):
            raise InvalidAnswerError("the text under 'response' is no JSON object")
        given = cast("dict[str, Any]", given)
    said = {given[name] for name in ("confirmed", "approved") if name in given and _is_bool(given[name])}
    wrong = [name for name in ("confirmed", "approved") if name in given and not _is_bool(given[name])]
    if wrong or len(said) != 1:
        raise InvalidAnswerError(
            f"it holds {sorted(given)}; give 'confirmed' (or 'approved') as true or false, and a 'payload' "
            "if the tool expects one"
        )
    hint = given.get("hint")
    return Confirmation(said.pop(), plain_copy(given.get("payload")), hint if isinstance(hint, str) else "")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to one pending call. `PendingCall.approve`, `reject` and `reply` make it.

    Attributes:
        id: The pending call's.
        response: Plain values.
        answered_by: Who gave it; it is kept in the log.
    """

    id: str
    response: Mapping[str, Any]
    answered_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for an answer from outside. Its run is paused when nothing else is left to do.

    Attributes:
        id: What an answer names.
        function_call_id: The id of the tool's call; the same as `id` but where leave is asked for.
        tool: The tool's name.
        arguments: What the model gave.
        kind: What it waits for.
        hint: What the tool asks; `""` if it says nothing.
        payload: What the tool gave with the question; `None` if nothing.
        invocation_id: The run.
        agent: The agent whose call it is.
        branch: The agent's branch.
        since: Since when, in seconds since the epoch.
        place: Its place among the calls of its turn.
    """

    id: str
    function_call_id: str
    tool: str
    arguments: Mapping[str, Any]
    kind: PendingKind
    invocation_id: str
    agent: str
    since: float
    hint: str = ""
    payload: Any = None
    branch: str | None = None
    place: int = 0

    def approve(self, payload: Any = None, *, answered_by: str | None = None) -> Answer:
        """Let it be made.

        Args:
            payload: Plain values for the tool, as `tool_context.confirmation.payload`.
            answered_by: Who says so.

        Raises:
            InvalidAnswerError: It does not ask for leave, but for a result.
        """
        self._check_asks("approved")
        return Answer(self.id, {"confirmed": True, "payload": payload}, answered_by)

    def reject(self, reason: str = "", *, answered_by: str | None = None) -> Answer:
        """Do not let it be made; the model is told, with the reason.

        Raises:
            InvalidAnswerError: It does not ask for leave, but for a result.
        """
        self._check_asks("rejected")
        return Answer(self.id, {"confirmed": False, "hint": reason}, answered_by)

    def reply(self, response: Mapping[str, Any], *, answered_by: str | None = None) -> Answer:
        """Give its result, which the model is told; to a call that asks for leave, what `approve` says.

        Raises:
            InvalidAnswerError: It asks for leave, and the mapping gives none and refuses none.
        """
        if self.kind is PendingKind.CONFIRMATION:
            confirmation_in(response)
        return Answer(self.id, dict(response), answered_by)

    def _check_asks(self, done: str) -> None:
        if self.kind is PendingKind.LONG_RUNNING:
            raise InvalidAnswerError(
                f"call {self.id} of tool {self.tool!r} waits for its result and cannot be {done}: use reply()"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in camelCase."""
        return {
            "id": self.id,
            "functionCallId": self.function_call_id,
            "tool": self.tool,
            "arguments": plain_copy(self.arguments),
            "kind": str(self.kind),
            "hint": self.hint,
            "payload": plain_copy(self.payload),
            "invocationId": self.invocation_id,
            "agent": self.agent,
            "branch": self.branch,
            "since": self.since,
            "place": self.place,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(
            id=data["id"],
            function_call_id=data["functionCallId"],
            tool=data["tool"],
            arguments=plain_copy(data["arguments"]),
            kind=PendingKind(data["kind"]),
            hint=data.get("hint", ""),
            payload=plain_copy(data.get("payload")),
            invocation_id=data["invocationId"],
            agent=data["agent"],
            branch=data.get("branch"),
            since=data["since"],
            place=data.get("place", 0),
        )


def oldest_first(calls: Iterable[PendingCall]) -> list[PendingCall]:
    """Return calls in the order in which they came to wait, those of one turn in that of the turn."""
    return sorted(calls, key=lambda call: (call.since, call.place))
