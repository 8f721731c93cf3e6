"""`event_data`: the data strings of a server-sent-event stream, out of bytes that arrive in any pieces."""

import re
from collections.abc import Iterable, Iterator

__all__ = ["event_data"]

# Only these end a line. str.splitlines would also cut at U+2028 and others, which JSON may hold as they are.
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def event_data(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event as soon as its last line is there.

    Several data lines of one event are joined by a line feed. Comments, other fields and events without
    data are left out: they keep a connection alive and say nothing. An event that the stream's end cuts
    off before its blank line is yielded as it stands; whether it is whole is for the reader to judge.

    Raises:
        UnicodeDecodeError: An event's data are not UTF-8.
    """
    data: list[bytes] = []
    for line in _lines(chunks):
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
        elif data:
            yield from _joined(data)
            data.clear()
    yield from _joined(data)


def _joined(data: list[bytes]) -> Iterator[str]:
    # Decoded only here: a character may be split between chunks, but never between events.
    text = b"\n".join(data).decode()
    if text:
        yield text


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines without their ends; the last one also if nothing ends it."""
    lines = _split(chunks)
    yield next(lines).removeprefix(_BYTE_ORDER_MARK)
    yield from lines


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    after_return = False
    for chunk in chunks:
        if not chunk:
            continue
        # A carriage return ends its line at once, without a wait for the line feed that may come next.
        pieces = _LINE_END.split(chunk.removeprefix(b"\n") if after_return else chunk)
        after_return = chunk.endswith(b"\r")
        for piece in pieces[:-1]:
            yield b"".join((*begun, piece))
            begun.clear()
        begun.append(pieces[-1])
    yield b"".join(begun)
