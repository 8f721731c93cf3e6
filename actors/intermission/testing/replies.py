"""What a scripted model answers: the vocabulary that `ScriptedModel` and `ModelServer` share."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from intermission.content import Content, FunctionCall
from intermission.errors import ModelErrorKind
from intermission.events import Usage
from intermission.testing.sync import Gate

__all__ = [
    "CallsReply",
    "Cut",
    "ErrorReply",
    "Pings",
    "Reply",
    "Silence",
    "SilentReply",
    "StreamReply",
    "TextReply",
    "WireReply",
    "calls",
    "error",
    "silent",
    "stream",
    "text",
    "wire",
]

_INPUT_TOKENS = 10  # of every reply that is given no usage; a reply does not know its request


@dataclass(frozen=True, slots=True)
class TextReply:
    """See `text`."""

    pieces: tuple[str | Gate, ...]
    usage: Usage

    @property
    def content(self) -> Content:
        """The whole answer."""
        return Content.model("".join(piece for piece in self.pieces if isinstance(piece, str)))


@dataclass(frozen=True, slots=True)
class CallsReply:
    """See `calls`."""

    calls: tuple[tuple[str, Mapping[str, Any] | str], ...]
    text: str
    usage: Usage

    @property
    def pieces(self) -> tuple[str | Gate, ...]:
        """What is streamed before the calls."""
        return (self.text,)

    @property
    def content(self) -> Content:
        """The whole answer; its calls have no ids, as a `Model` gives them."""
        # Whoever runs the calls must stand arguments of any type: the reply may be there to show just that.
        return Content.model(
            self.text, calls=[FunctionCall("", name, cast(Any, args)) for name, args in self.calls]
        )


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """See `error`."""

    kind: ModelErrorKind
    message: str
    status: int | None
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class WireReply:
    """See `wire`."""

    chunks: tuple[bytes | Gate, ...]
    status: int
    content_type: str
    headers: Mapping[str, str]


class Cut(StrEnum):
    """How a stream ends too early.

    `RESET`: the connection is reset. `CLOSE`: it is closed in the middle of the body. `END`: the body ends
    as it should, but without the protocol's end marker.
    """

    RESET = "reset"
    CLOSE = "close"
    END = "end"


@dataclass(frozen=True, slots=True)
class Pings:
    """A comment line, every so many seconds, until the client hangs up."""

    every: float = 0.01


@dataclass(frozen=True, slots=True)
class StreamReply:
    """See `stream`."""

    pieces: tuple[str | bytes | Gate | Pings | Cut, ...]
    usage: Usage


class Silence(StrEnum):
    """What a server does not do any more, with a client that it has accepted.

    `HANDSHAKE`: answer the greeting of TLS; without TLS it is the next. `REQUEST`: read the request.
    `ANSWER`: answer the request that it has read.
    """

    HANDSHAKE = "handshake"
    REQUEST = "request"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class SilentReply:
    """See `silent`."""

    silence: Silence


Reply = TextReply | CallsReply | ErrorReply


def text(*pieces: str | Gate, usage: Usage | None = None) -> TextReply:
    """Answer with text.

    Args:
        pieces: Each text is streamed as a chunk of its own. At a `Gate` the reply stops until the test
            opens it; so does an answer that is not streamed, before anything of it is sent.
        usage: The tokens that the model reports; by default as many as there are words.

    Raises:
        TypeError: A piece is neither.
    """
    _check("text", pieces, str, Gate)
    words = sum(len(piece.split()) for piece in pieces if isinstance(piece, str))
    return TextReply(pieces, usage or _usage(words))


def calls(
    *calls: tuple[str, Mapping[str, Any] | str], text: str = "", usage: Usage | None = None
) -> CallsReply:
    """Answer with calls of tools.

    Args:
        calls: Name and arguments of each; a `str` is what a model has written in their place.
        text: What the model says before them.
        usage: The tokens that the model reports; by default as many as there are words and calls.

    Raises:
        TypeError: A call is no pair of a name and arguments.
    """
    for call in calls:
        match call:
            case (str(), Mapping() | str()):
                pass
            case _:
                raise TypeError(f'calls() takes pairs, as in calls(("add", {{"a": 1}})), not {call!r}')
    return CallsReply(calls, text, usage or _usage(len(text.split()) + len(calls)))


def error(
    kind: ModelErrorKind | str,
    message: str = "a scripted error",
    *,
    status: int | None = None,
    retry_after: float | None = None,
) -> ErrorReply:
    """Fail. `ScriptedModel` raises the `ModelError`; `ModelServer` answers so that a client has to raise it.

    Args:
        kind: What goes wrong.
        message: What the service says about it.
        status: The HTTP status; `None` for one that fits the kind, and for none from `ScriptedModel`.
        retry_after: Seconds that the service asks to wait.

    Raises:
        ValueError: There is no such kind.
    """
    return ErrorReply(ModelErrorKind(kind), message, status, retry_after)


def wire(
    *chunks: bytes | Gate,
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> WireReply:
    """Answer with exactly these bytes and close the connection; for `ModelServer` alone.

    The close ends the body. `headers` can say otherwise: with `{"Transfer-Encoding": "chunked"}` the
    bytes hold the framing too, with `{"Content-Length": "9"}` the body may fall short of it.

    Args:
        chunks: Each is sent when its turn comes; at a `Gate` the reply stops until the test opens it.
        status: The HTTP status.
        content_type: The header of that name.
        headers: Further headers.

    Raises:
        TypeError: A chunk is neither bytes nor a gate.
    """
    _check("wire", chunks, bytes, Gate)
    return WireReply(chunks, status, content_type, dict(headers or {}))


def stream(*pieces: str | bytes | Gate | Pings | Cut) -> StreamReply:
    """Stream an answer that something is wrong with; for `ModelServer` alone, whatever the request asks for.

    Args:
        pieces: A `str` is a chunk with that text. `bytes` are sent as they are: a chunk that is malformed,
            or `b"data: [DONE]\\n\\n"` with something behind it. At a `Gate` the stream stops until the test
            opens it, at `Pings` it says nothing from then on. A `Cut` breaks it off.

    Raises:
        TypeError: A piece is none of these.
    """
    _check("stream", pieces, str, bytes, Gate, Pings)
    words = sum(
        len(piece.split()) for piece in pieces if isinstance(piece, str) and not isinstance(piece, Cut)
    )
    return StreamReply(pieces, _usage(words))


def silent(silence: Silence | str) -> SilentReply:
    """Say nothing, and hold the connection until the client hangs up; for `ModelServer` alone.

    One that does not get as far as a request is given to the next connection, not to the next request.

    Raises:
        ValueError: There is no such silence.
    """
    return SilentReply(Silence(silence))


def _check(name: str, pieces: tuple[object, ...], *types: type) -> None:
    for piece in pieces:
        if not isinstance(piece, types):
            known = ", ".join(each.__name__ for each in types)
            raise TypeError(f"{name}() takes pieces of these types: {known}; not {piece!r}")


def _usage(output_tokens: int) -> Usage:
    return Usage(_INPUT_TOKENS, output_tokens, _INPUT_TOKENS + output_tokens)
