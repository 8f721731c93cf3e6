"""`Wire`: a protocol that a `ModelServer` speaks: how a scripted reply looks there."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from intermission.errors import ModelErrorKind
from intermission.testing.replies import CallsReply, Cut, ErrorReply, Pings, StreamReply, TextReply
from intermission.testing.sync import Gate

__all__ = ["StreamPiece", "Wire", "error_status"]

StreamPiece: TypeAlias = bytes | Gate | Pings | Cut

_STATUSES = {
    ModelErrorKind.AUTHENTICATION: 401,
    ModelErrorKind.RATE_LIMIT: 429,
    ModelErrorKind.TIMEOUT: 504,
    ModelErrorKind.SERVICE: 500,
    ModelErrorKind.VALIDATION: 400,
    ModelErrorKind.OTHER: 418,
}


class Wire(Protocol):
    """One protocol: pure values, no sockets.

    Attributes:
        content_type: That of a streamed answer.
        ping: What keeps a stream alive and says nothing.
        end_marker: What a whole stream ends with; empty for a protocol that has none.
    """

    content_type: str
    ping: bytes
    end_marker: bytes

    def serves(self, path: str) -> bool:
        """Return whether requests to a path, given without its query, are of this protocol."""
        ...

    def streams(self, path: str, request: Mapping[str, Any]) -> bool:
        """Return whether the answer to a request is to be streamed."""
        ...

    def problems(self, request: Mapping[str, Any]) -> list[str]:
        """Return what the real service would refuse in a request; nothing for one that is legal."""
        ...

    def whole_body(self, reply: TextReply | CallsReply, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON body of an answer that is not streamed."""
        ...

    def stream_events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]
    ) -> Iterator[StreamPiece]:
        """Yield a streamed answer, event by event and as the reply has it, all but its end marker."""
        ...

    def error_body(self, message: str, kind: ModelErrorKind, status: int) -> dict[str, Any]:
        """Return the JSON body of a refusal."""
        ...


def error_status(reply: ErrorReply) -> int | None:
    """Return the status of an answer that makes a client raise the reply's error; `None` to hang up instead.

    Raises:
        ValueError: No answer means that kind: a client finds it on its own.
    """
    if reply.status is not None:
        return reply.status
    if reply.kind is ModelErrorKind.NETWORK:
        return None
    if reply.kind not in _STATUSES:
        raise ValueError(f"no answer of a server means {reply.kind.value!r}; give error() a status")
    return _STATUSES[reply.kind]
