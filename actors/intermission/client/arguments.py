"""The arguments of clients' calls: each is looked at first, and what it cannot be is a failed result."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, cast

from intermission.client.errors import ValidationError
from intermission.client.result import LlmResult
from intermission.client.turns import TurnResult
from intermission.content import Content, Part
from intermission.pending import Answer
from intermission.runs.plan import Answers, as_answers

__all__ = ["Previous", "answers_of", "check_listener", "failing", "message_of", "session_after", "session_of"]

Previous: TypeAlias = LlmResult[TurnResult] | TurnResult
"""A turn that the next one follows: its result, or the value of that."""


@contextmanager
def failing() -> Generator[list[LlmResult[Any]]]:
    """Make a failed result of what the block raises, and put it into the list."""
    failed: list[LlmResult[Any]] = []
    try:
        yield failed
    except Exception as error:  # noqa: BLE001 - it is the call's result
        failed.append(LlmResult[Any].failure(error))


def message_of(text: object) -> Content:
    """Return what the user says.

    Raises:
        ValidationError: It is blank, or no message.
    """
    if isinstance(text, str) and text.strip():
        return Content.user(text)
    if isinstance(text, Content) and text.parts:
        parts: list[object] = [*text.parts]
        if not all(isinstance(part, Part) for part in parts):
            raise ValidationError("a Content holds Parts, and one of these is none")
        return text
    if not isinstance(text, str | Content):
        raise ValidationError(f"give a text or a Content, not {type(text).__name__}")
    raise ValidationError("the message is blank: there is nothing to run on")


def session_of(session_id: object) -> str:
    """Return a session's id.

    Raises:
        ValidationError: It is none.
    """
    if not isinstance(session_id, str) or not session_id:
        raise ValidationError(f"a session id is a text that is not empty, not {session_id!r}")
    return session_id


def session_after(previous: object) -> str:
    """Return the session of a turn.

    Raises:
        ValidationError: It is no turn, or one that has failed.
    """
    if isinstance(previous, LlmResult):
        result = cast("LlmResult[object]", previous)
        if result.error is not None:
            raise ValidationError(
                "the turn before has failed, and names no session: recover(session_id) goes on with it, and "
                "run(text, session_id=…) begins the next one"
            ) from result.error
        previous = result.get()
    if not isinstance(previous, TurnResult):
        raise ValidationError(f"give the result of a turn, not {type(previous).__name__}")
    return previous.session_id


def check_listener(listener: object) -> None:
    """Refuse what cannot listen to a stream.

    Raises:
        ValidationError: It has no `on_event`, or a method that would have to be awaited.
    """
    if not callable(getattr(listener, "on_event", None)):
        raise ValidationError("a listener needs a method on_event")
    for name in ("on_event", "on_complete", "on_error"):
        if iscoroutinefunction(getattr(listener, name, None)):
            raise ValidationError(
                f"{name} of a listener must be a plain method: it is called on a thread, and never awaited"
            )


def answers_of(given: object) -> list[Answer]:
    """Return answers; of two to one call the last.

    Raises:
        ValidationError: There is none, or one is no answer or holds other than plain values.
    """
    if not isinstance(given, Mapping | Sequence) or isinstance(given, str):
        raise ValidationError(f"give a list of Answers, or a mapping, not {type(given).__name__}")
    try:
        answers = as_answers(cast(Answers, given))
    except TypeError as error:
        raise ValidationError(f"an answer cannot be taken: {error}") from error
    if not answers:
        raise ValidationError("there is no answer: give at least one")
    return list({answer.id: answer for answer in answers}.values())
