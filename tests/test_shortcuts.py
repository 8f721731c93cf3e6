"""What is made by a shorter way comes out as by the long one."""

import uuid
from dataclasses import FrozenInstanceError, fields

import pytest

from intermission import Event
from intermission.events import OpenEvent
from intermission.ids import new_hex, new_id


def test_an_event_that_was_open_is_the_event_that_its_own_constructor_makes() -> None:
    long = Event(id="1", invocation_id="i", author="a", timestamp=1.5)
    short = OpenEvent("1", "i", "a", 1.5).freeze()

    assert type(short) is Event
    assert [getattr(short, one.name) for one in fields(Event)] == [
        getattr(long, one.name) for one in fields(Event)
    ]
    assert short == long
    with pytest.raises(FrozenInstanceError):
        short.author = "b"  # type: ignore[misc]  # that is what is tried


def test_ids_have_the_form_of_a_random_uuid() -> None:
    for text in (new_hex(), new_id()):
        found = uuid.UUID(text)
        assert found.version == 4
        assert found.variant == uuid.RFC_4122
        assert text in {str(found), found.hex}
    assert new_hex() != new_hex()
