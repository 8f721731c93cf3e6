from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from intermission.errors import ModelErrorKind
from intermission.models.failures import Failures, seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("7", 7.0), ("1.5", 1.5), ("-3", 0.0), ("soon", None), ("nan", None), ("inf", None)],
)
def test_a_wait_is_asked_for_in_seconds(header: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(header) == seconds


def test_a_wait_is_asked_for_by_a_date() -> None:
    now = datetime.now(UTC)
    ahead = seconds_to_wait(format_datetime(now + timedelta(hours=1), usegmt=True))

    assert ahead is not None
    assert 3500 < ahead <= 3600
    assert seconds_to_wait(format_datetime(now - timedelta(hours=1), usegmt=True)) == 0.0


def test_a_long_detail_is_cut_and_its_white_space_made_plain() -> None:
    message = str(Failures().malformed("what", "a\n\n  b" + "x" * 10_000))

    assert message.startswith("what: a bxxx")
    assert message.endswith("x…")
    assert len(message) < 600


def test_a_key_is_hidden_before_the_detail_is_cut() -> None:
    key = "sk-0123456789"
    message = str(Failures(key).failed(ModelErrorKind.OTHER, f"what {key}", "x" * 495 + key))

    assert "sk-" not in message


def test_a_placeholder_that_is_no_key_garbles_no_message() -> None:
    assert str(Failures("x").failed(ModelErrorKind.OTHER, "an example")) == "an example"


@pytest.mark.parametrize(
    ("error", "kind", "shown"),
    [
        ({"message": "too many", "code": 429}, ModelErrorKind.RATE_LIMIT, "too many"),
        ({"message": "too long", "code": "context_length_exceeded"}, ModelErrorKind.SERVICE, "too long"),
        ({"message": "fine?", "code": 0}, ModelErrorKind.SERVICE, "fine?"),
        ({"detail": "odd"}, ModelErrorKind.SERVICE, '{"detail": "odd"}'),
        ("a mere text", ModelErrorKind.SERVICE, "a mere text"),
    ],
)
def test_an_error_inside_an_answer_tells_its_kind_if_it_holds_a_status(
    error: object, kind: ModelErrorKind, shown: str
) -> None:
    reported = Failures().reported(error)

    assert reported.kind is kind
    assert str(reported).endswith(f": {shown}")
