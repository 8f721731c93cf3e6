import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.keys import SessionKey

ANY_TEXT = st.text(st.characters(codec=None), min_size=1)  # half surrogate pairs too
KEYS = st.builds(SessionKey, ANY_TEXT, ANY_TEXT, ANY_TEXT)


@given(KEYS, KEYS)
def test_two_sessions_never_share_a_stream(one: SessionKey, other: SessionKey) -> None:
    assert (one.stream == other.stream) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b/c", "d"), ("a", "b", "c/d")),
        (("a", "b%2Fc", "d"), ("a", "b/c", "d")),
        (("app", "u1", "s"), ("app", "u2", "s")),
    ],
)
def test_separators_inside_a_key_do_not_make_it_another(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert SessionKey(*one).stream != SessionKey(*other).stream


def test_an_empty_part_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="user_id"):
        SessionKey("app", "", "s")


def test_a_part_that_is_no_text_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="session_id must be a str, not int"):
        SessionKey("app", "u", 7)  # type: ignore[arg-type]  # callers without types do this
