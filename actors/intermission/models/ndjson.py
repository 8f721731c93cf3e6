"""`json_lines`: the lines of a stream of JSON texts, out of bytes that arrive in any pieces."""

from collections.abc import Iterable, Iterator

__all__ = ["json_lines"]


def json_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield each line that is not blank as soon as its end is there.

    What the stream's end cuts off before a line feed is yielded as it stands; whether it is whole is for the
    reader to judge.

    Raises:
        UnicodeDecodeError: A line is not UTF-8.
    """
    begun: list[bytes] = []
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            yield from _decoded(b"".join((*begun, line)))
            begun.clear()
        begun.append(rest)
    yield from _decoded(b"".join(begun))


def _decoded(line: bytes) -> Iterator[str]:
    # Decoded only here: a character may be split between chunks, but never between lines.
    text = line.decode("utf-8-sig").strip()
    if text:
        yield text
