from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.models.ndjson import json_lines


def test_each_line_that_is_not_blank_is_given() -> None:
    assert list(json_lines([b'{"a": 1}\n\r\n \n{"b": 2}\r\n'])) == ['{"a": 1}', '{"b": 2}']


def test_the_last_line_needs_no_end() -> None:
    assert list(json_lines([b"one\ntw", b"o"])) == ["one", "two"]


def test_a_line_comes_out_before_more_of_the_stream_is_asked_for() -> None:
    def stream() -> Iterator[bytes]:
        yield b"one\n"
        raise AssertionError("asked for more")

    assert next(json_lines(stream())) == "one"


def test_a_line_that_is_not_utf8_is_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(json_lines([b"\xff\n"]))


@given(
    texts=st.lists(st.text(min_size=1).filter(lambda text: "\n" not in text)),
    cuts=st.lists(st.integers(min_value=0, max_value=200)),
)
def test_no_split_of_the_bytes_changes_the_lines(texts: list[str], cuts: list[int]) -> None:
    stream = "\n".join(texts).encode()
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(places)]

    assert list(json_lines(pieces)) == list(json_lines([stream]))
