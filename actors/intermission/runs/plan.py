"""`Resumption`, what a run is asked to go on with, and `Plan`, what its session makes of that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from intermission.content import Content
from intermission.pending import Answer, PendingCall
from intermission_storage import Kind, Record
from intermission_storage.codec import encode_value

__all__ = ["Answers", "Plan", "Resumption", "answers_in", "as_answers"]

Answers: TypeAlias = Iterable[Answer] | Mapping[str, Mapping[str, Any]]
"""Answers to pending calls, or a mapping of their ids to what is answered."""


def as_answers(given: Answers | None) -> tuple[Answer, ...]:
    """Return answers, each looked at.

    Raises:
        TypeError: One is no `Answer`, or what it says no mapping.
        EncodingError: One holds other than plain values.
    """
    if given is None:
        return ()
    if isinstance(given, Mapping):
        mapping = cast("Mapping[str, Mapping[str, Any]]", given)
        answers = tuple(Answer(name, response) for name, response in mapping.items())
    else:
        answers = tuple(given)
    for answer in answers:
        if not isinstance(answer, Answer):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"an answer must be an Answer, as PendingCall.approve() makes it, not {answer!r}")
        if not isinstance(answer.response, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
            raise TypeError(
                f"the answer to {answer.id!r} must be a mapping, not {type(answer.response).__name__}"
            )
        encode_value(dict(answer.response))
    return answers


def answers_in(message: Content) -> tuple[Answer, ...]:
    """Return the answers that a message holds as function responses."""
    return tuple(Answer(response.id, response.response) for response in message.function_responses)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a run is asked to go on with.

    Attributes:
        invocation_id: The invocation; `None` if the answers tell.
        answers: Answers to pending calls.
        max_attempts: With it, the run is one that its process has left, and ends if that has died in it so
            often.
        take_over: Whether it is taken from a process that lives, too.
    """

    invocation_id: str | None = None
    answers: tuple[Answer, ...] = ()
    max_attempts: int | None = None
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How an invocation is gone on with.

    Attributes:
        invocation_id: The invocation.
        agent: The name of the agent that it began with; `None` for the root.
        answers: The answers that count.
        open: The calls of the invocation that still wait for one.
        branch: The branch of the calls that are answered.
        attempt: How often it is gone on with because its process had died.
        take_over: See `Resumption`.
        error: Why it ends at once instead.
    """

    invocation_id: str
    agent: str | None = None
    answers: tuple[Answer, ...] = ()
    open: tuple[PendingCall, ...] = ()
    branch: str | None = None
    attempt: int = 0
    take_over: bool = False
    error: Exception | None = None

    def records(self, time: float) -> list[Record]:
        """The records that calls were answered; the answers are in the user event behind them."""
        records: list[Record] = []
        for answer in self.answers:
            data: dict[str, Any] = {
                "invocationId": self.invocation_id,
                "callId": answer.id,
                "timestamp": time,
            }
            if answer.answered_by is not None:
                data["answeredBy"] = answer.answered_by
            records.append(Record(Kind.ANSWER, data))
        return records
