from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.models.sse import event_data


def test_each_event_gives_its_data() -> None:
    assert list(event_data([b"data: one\n\ndata: two\n\n"])) == ["one", "two"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    stream = end.join([b"data: one", b"", b"data: two", b"", b""])
    assert list(event_data([stream])) == ["one", "two"]


def test_a_line_end_split_between_chunks_ends_one_line() -> None:
    assert list(event_data([b"data: one\r", b"", b"\ndata: two\r", b"\n\r", b"\n"])) == ["one\ntwo"]


def test_several_data_lines_are_one_event() -> None:
    assert list(event_data([b"data: one\ndata:\ndata: three\n\n"])) == ["one\n\nthree"]


def test_one_space_after_the_colon_is_left_out_and_no_more() -> None:
    assert list(event_data([b"data:one\n\ndata:  two \n\n"])) == ["one", " two "]


def test_comments_other_fields_and_empty_events_say_nothing() -> None:
    stream = b": ping\n\nevent: ping\nid: 7\nretry: 10\n\ndata\n\ndata:\n\ndatum: no\n\ndata: yes\n:\n\n"
    assert list(event_data([stream])) == ["yes"]


def test_a_byte_order_mark_before_the_stream_is_left_out() -> None:
    assert list(event_data([b"\xef\xbb", b"\xbfdata: one\n\n"])) == ["one"]


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n"])
def test_the_last_event_needs_no_blank_line(tail: bytes) -> None:
    assert list(event_data([b"data: one\n\ndata: two" + tail])) == ["one", "two"]


def test_a_stream_of_nothing_has_no_events() -> None:
    assert list(event_data([])) == []


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_what_only_python_takes_for_a_line_end_stays_in_the_data(separator: str) -> None:
    assert list(event_data([f"data: a{separator}b\n\n".encode()])) == [f"a{separator}b"]


def test_a_character_split_between_chunks_is_whole() -> None:
    stream = "data: añ€😀\n\n".encode()
    assert list(event_data(bytes([byte]) for byte in stream)) == ["añ€😀"]


def test_data_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(event_data([b"data: \xff\n\n"]))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_comes_out_before_more_of_the_stream_is_asked_for(end: bytes) -> None:
    def stream() -> Iterator[bytes]:
        yield b"data: one" + end + end
        raise AssertionError("asked for more")

    assert next(event_data(stream())) == "one"


@given(
    texts=st.lists(st.text(min_size=1).filter(lambda text: not set(text) & {"\r", "\n"})),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(min_value=0, max_value=200)),
)
def test_no_split_of_the_bytes_changes_the_events(texts: list[str], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(b"data: " + text.encode() + end + b": ping" + end + end for text in texts)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[start:stop] for start, stop in pairwise(bounds)]

    assert list(event_data(pieces)) == texts
