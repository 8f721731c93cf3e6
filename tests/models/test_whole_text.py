import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.models.whole_text import TextPieces, whole_text

HIGH, LOW = "\ud83d", "\ude00"  # the halves of 😀
# Each unit is what one JSON escape gives: a character, or half of one.
UNITS = st.lists(st.sampled_from(["a", "é", "😀", "\ufeff", "\x00", HIGH, LOW]))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("plain é 😀", "plain é 😀"),
        (HIGH + LOW, "😀"),
        (HIGH, "\ufffd"),
        (f"a{HIGH}b", "a\ufffdb"),
        (f"a{LOW}b", "a\ufffdb"),
        (f"{LOW}{HIGH}", "\ufffd\ufffd"),
        (f"{HIGH}{HIGH}{LOW}", "\ufffd😀"),
    ],
)
def test_halves_become_a_character_or_a_replacement(text: str, whole: str) -> None:
    assert whole_text(text) == whole


def test_a_first_half_is_held_back_until_the_next_piece() -> None:
    pieces = TextPieces()

    assert [pieces.add(piece) for piece in (f"a{HIGH}", "", f"{LOW}b", HIGH, "c")] == [
        "a",
        "",
        "😀b",
        "",
        "\ufffdc",
    ]


def test_a_half_that_no_other_follows_comes_out_at_the_end_and_once() -> None:
    pieces = TextPieces()

    assert (pieces.add(f"a{HIGH}"), pieces.end(), pieces.end()) == ("a", "\ufffd", "")


@given(units=UNITS, cuts=st.lists(st.integers(min_value=0, max_value=20)))
def test_no_split_of_a_text_changes_it_and_every_piece_is_text(units: list[str], cuts: list[int]) -> None:
    text = "".join(units)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = TextPieces()
    shown = [*(pieces.add(text[start:stop]) for start, stop in pairwise(bounds)), pieces.end()]

    assert "".join(shown) == whole_text(text)
    assert all(json.loads(json.dumps(piece).encode()) == piece and piece.encode() for piece in shown if piece)
