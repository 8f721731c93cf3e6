"""Asking a model outside of any run: what is asked, and what comes of it, as a result."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias, cast

from intermission.client.errors import CancelledError, ValidationError, is_cancellation
from intermission.client.result import LlmResult
from intermission.content import Content, Part
from intermission.errors import IntermissionError, ModelError, ModelErrorKind
from intermission.kernel.crash import text_of
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models.base import Model, ModelRequest, ModelResponse
from intermission.runs.model_turns import closable

__all__ = ["Asked", "ask", "cancelled_by", "request_of"]

Asked: TypeAlias = str | Content | Sequence[Content]
"""A user's text, one message, or a conversation, oldest message first."""


def request_of(asked: Asked, instruction: str, options: Mapping[str, Any] | None) -> ModelRequest:
    """Return the question to a model.

    Raises:
        ValidationError: There is nothing to ask, or something is of another type than it must be.
    """
    contents = _contents(asked)
    if not isinstance(instruction, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise ValidationError(f"instruction must be a text, not {type(instruction).__name__}")
    if not isinstance(options, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise ValidationError(f"options must be a mapping, or None, not {type(options).__name__}")
    return ModelRequest(contents=contents, instruction=instruction, generate_config=dict(options or {}))


def _contents(asked: object) -> tuple[Content, ...]:
    if isinstance(asked, str):
        if not asked.strip():
            raise ValidationError("the text is blank: there is nothing to ask")
        return (Content.user(asked),)
    if isinstance(asked, Content):
        contents: tuple[Content, ...] = (asked,)
    elif isinstance(asked, Sequence):
        given = cast("Sequence[object]", asked)
        contents = tuple(each for each in given if isinstance(each, Content))
        if len(contents) < len(given):
            raise ValidationError("a conversation holds Contents, and one of these is none")
    else:
        raise ValidationError(f"give a text, a Content or a list of them, not {type(asked).__name__}")
    if not contents or not all(content.parts for content in contents):
        raise ValidationError("a message without parts, or no message at all, asks nothing")
    parts: list[object] = [part for content in contents for part in content.parts]
    if not all(isinstance(part, Part) for part in parts):
        raise ValidationError("a Content holds Parts, and one of these is none")
    return contents


def ask(model: Model, request: ModelRequest, scope: CancelScope) -> LlmResult[ModelResponse]:
    """Ask a model on this thread, and return what came of it.

    Args:
        model: Which.
        request: What.
        scope: Covers the call; the current one. If it is cancelled before, the model is not asked.
    """
    if scope.cancelled:
        return LlmResult[ModelResponse].failure(cancelled_by(scope))
    try:
        with closing(closable(model.generate(request))) as responses:
            for response in responses:
                scope.check()  # an answer that has met a cancel is none, as in a run
                if not response.partial:
                    return LlmResult[ModelResponse].success(response)
        raise ModelError(f"model {model.name} ended without a whole response", kind=ModelErrorKind.OTHER)
    except (Exception, Cancelled, asyncio.CancelledError) as error:  # noqa: BLE001 - it is the caller's to handle
        return LlmResult[ModelResponse].failure(_failure(error, scope))


def cancelled_by(scope: CancelScope, cause: BaseException | None = None) -> CancelledError:
    """Return the error of a call whose scope is cancelled, or that was cancelled in itself."""
    error = CancelledError("the call was cancelled", reason=scope.reason, source=scope.source)
    error.__cause__ = cause
    return error


def _failure(error: BaseException, scope: CancelScope) -> IntermissionError:
    # The scope first: whatever a model makes of being cancelled, it was.
    if scope.cancelled or is_cancellation(error):
        return cancelled_by(scope, error)
    if isinstance(error, IntermissionError):
        return error
    kind = ModelErrorKind.OTHER
    if isinstance(error, TimeoutError):
        kind = ModelErrorKind.TIMEOUT
    elif isinstance(error, ConnectionError):
        kind = ModelErrorKind.NETWORK
    failure = ModelError(f"the model raised {text_of(error)}", kind=kind)
    failure.__cause__ = error
    return failure
