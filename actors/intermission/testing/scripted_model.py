"""`ScriptedModel`: a model without a network that answers as the test says."""

from collections.abc import Iterator

from intermission.content import Content
from intermission.errors import ModelError
from intermission.models.base import ModelRequest, ModelResponse
from intermission.testing.replies import CallsReply, ErrorReply, Reply, TextReply, text
from intermission.testing.script import Script
from intermission.testing.sync import Gate

__all__ = ["ScriptedModel"]


class ScriptedModel:
    """A `Model` that answers with the given replies in order. Any number of threads may use it.

    Args:
        replies: `text(…)`, `calls(…)`, `error(…)`, or a `str`, which is `text` of one piece.
        default: The reply when they are used up; `None` makes one more request an `AssertionError`.
        name: The model's name.

    Raises:
        TypeError: A reply is none of these.
    """

    def __init__(
        self, *replies: Reply | str, default: Reply | str | None = None, name: str = "scripted"
    ) -> None:
        self._script = Script[ModelRequest, Reply](
            [_reply(reply) for reply in replies], None if default is None else _reply(default)
        )
        self._name = name

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._name

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked so far, oldest first."""
        return self._script.requests

    def enqueue(self, reply: Reply | str) -> None:
        """Put one more reply behind those that wait.

        Raises:
            TypeError: It is no reply.
        """
        self._script.enqueue(_reply(reply))

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`. The reply is taken by this call, not by the first `next`.

        Raises:
            AssertionError: The script is used up.
        """
        return _answer(self._script.take(request), request.streaming)


def _reply(reply: Reply | str) -> Reply:
    checked = text(reply) if isinstance(reply, str) else reply
    if not isinstance(checked, Reply):  # pyright: ignore[reportUnnecessaryIsInstance] - tests without types
        raise TypeError(f"a ScriptedModel takes text(…), calls(…), error(…), or a str, not {reply!r}")
    return checked


def _answer(reply: Reply, streaming: bool) -> Iterator[ModelResponse]:
    match reply:
        case ErrorReply():
            raise ModelError(
                reply.message, kind=reply.kind, status=reply.status, retry_after=reply.retry_after
            )
        case TextReply() | CallsReply():
            for piece in reply.pieces:
                if isinstance(piece, Gate):
                    piece.wait()
                elif streaming and piece:
                    yield ModelResponse(content=Content.model(piece), partial=True)
            yield ModelResponse(content=reply.content, usage=reply.usage)
