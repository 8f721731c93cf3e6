import json
import logging
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest

from intermission.errors import ModelError, ModelErrorKind
from intermission.models.failures import Failures, seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
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


def test_all_of_a_malformed_text_goes_to_the_log_at_debug_without_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "intermission")
    Failures("sk-0123456789").malformed("what", "x" * 10_000 + "sk-0123456789 the end")

    (record,) = caplog.records
    assert record.levelname == "DEBUG"
    assert record.getMessage() == f"what: {'x' * 10_000}[key] the end"


@pytest.mark.parametrize("spelled", ["it's\\\"<é/+&", "plain-enough"])
def test_a_key_is_hidden_in_every_spelling(spelled: str) -> None:
    detail = f"{spelled} {spelled!r} {json.dumps(spelled)} {quote(spelled)} {quote(spelled, safe='')}"

    assert Failures(spelled, "").hide(detail) == "[key] '[key]' \"[key]\" [key] [key]"


def test_half_a_character_in_a_detail_is_replaced() -> None:
    assert str(Failures().malformed("what", "a\ud83d")) == "what: a\ufffd"


def test_a_placeholder_that_is_no_key_garbles_no_message() -> None:
    assert str(Failures("x").failed(ModelErrorKind.OTHER, "an example")) == "an example"


@pytest.mark.parametrize(
    ("error", "kind", "shown"),
    [
        ({"message": "too many", "code": 429}, ModelErrorKind.RATE_LIMIT, "too many"),
        ({"message": "too long", "code": "context_length_exceeded"}, ModelErrorKind.SERVICE, "too long"),
        ({"message": "fine?", "code": 0}, ModelErrorKind.SERVICE, "fine?"),
        ({"type": "overloaded_error", "message": "busy"}, ModelErrorKind.SERVICE, "busy"),
        ({"type": "rate_limit_error", "message": "slow"}, ModelErrorKind.RATE_LIMIT, "slow"),
        ({"status": "PERMISSION_DENIED", "message": "no"}, ModelErrorKind.AUTHENTICATION, "no"),
        (
            {"code": "invalid_api_key", "type": "request", "message": "no"},
            ModelErrorKind.AUTHENTICATION,
            "no",
        ),
        ({"detail": "odd"}, ModelErrorKind.SERVICE, '{"detail": "odd"}'),
        ("a mere text", ModelErrorKind.SERVICE, "a mere text"),
    ],
)
def test_an_error_inside_an_answer_tells_its_kind_if_it_holds_a_status_or_a_word_for_it(
    error: object, kind: ModelErrorKind, shown: str
) -> None:
    reported = Failures().reported(error)

    assert reported.kind is kind
    assert str(reported).endswith(f": {shown}")


KEY = "sk-0123456789"


def failing(error: Exception) -> Generator[str]:
    yield "one"
    raise error


def chained(outer: Exception, *causes: Exception) -> Exception:
    link = outer
    for cause in causes:
        link.__context__ = cause
        link = cause
    return outer


def guarded_failure(error: Exception) -> ModelError:
    steps = Failures(KEY).guarded(failing(error))
    assert next(steps) == "one"
    with pytest.raises(ModelError) as caught:
        next(steps)
    return caught.value


def test_any_exception_is_a_service_error_with_the_original_as_its_cause() -> None:
    failed = guarded_failure(KeyError("odd"))

    assert failed.kind is ModelErrorKind.SERVICE
    assert "KeyError('odd')" in str(failed)
    assert isinstance(failed.__cause__, KeyError)


@pytest.mark.parametrize(
    "error",
    [
        KeyError(f"odd {KEY}"),
        chained(KeyError("odd"), ValueError("fine"), OSError(f"bad {KEY}")),
        UnicodeDecodeError("utf-8", KEY.encode(), 0, 1, "odd"),  # its text hides what its arguments show
        json.JSONDecodeError("odd", KEY, 0),
        chained(ModelError("failed", kind=ModelErrorKind.OTHER), KeyError(KEY)),
    ],
    ids=["itself", "its context", "its arguments", "its attributes", "the context of a model error"],
)
def test_an_exception_that_shows_the_key_is_nobodys_cause_and_nobodys_context(error: Exception) -> None:
    failed = guarded_failure(error)

    assert (failed.__cause__, failed.__context__) == (None, None)
    assert KEY not in str(failed)


def test_a_model_error_passes_with_its_cause() -> None:
    error = chained(ModelError("failed", kind=ModelErrorKind.OTHER), KeyError("odd"))

    assert guarded_failure(error) is error
    assert isinstance(error.__context__, KeyError)


def test_what_a_consumer_throws_in_passes_and_closes_the_steps() -> None:
    closed: list[bool] = []

    def steps() -> Generator[str]:
        try:
            yield "one"
        finally:
            closed.append(True)

    held = steps()  # so that it is not closed for want of a reference
    guarded = Failures(KEY).guarded(held)
    next(guarded)
    with pytest.raises(KeyError, match="theirs"):
        guarded.throw(KeyError("theirs"))
    assert closed == [True]


@pytest.mark.parametrize(
    "said",
    [
        "<html>bad gateway",
        '{"error": {"details": [{"retryDelay": "34s"',
        '{"error": "no"}',
        '{"error": {"details": {"retryDelay": "34s"}}}',
        '{"error": {"details": [7, {"retryDelay": 34}, {"retryDelay": "soon"}, {"violations": 7}]}}',
        "[" * 20_000,
        "[]",
    ],
    ids=["a page", "cut off", "a text", "no list", "no details", "too deep", "nothing"],
)
def test_a_refusal_that_explains_itself_in_no_way_that_is_known_is_what_its_status_says(said: str) -> None:
    failed = Failures().refused("http://x", 429, said, "7")

    assert (failed.kind, failed.status, failed.retry_after) == (ModelErrorKind.RATE_LIMIT, 429, 7.0)
    assert failed.retryable
    assert Failures().refused("http://x", 429, said, None).retry_after is None


@pytest.mark.parametrize("form", ['{"error": %s}', '[{"error": %s}]'], ids=["object", "list"])
def test_what_google_says_of_a_refusal_counts_also_within_an_answer(form: str) -> None:
    error = '{"code": 429, "message": "no", "details": [{"retryDelay": "34.5s"}]}'
    failed = Failures().reported_in(json.loads(form % error))

    assert failed is not None
    assert (failed.kind, failed.retry_after) == (ModelErrorKind.RATE_LIMIT, 34.5)
    assert Failures().refused("http://x", 429, form % error, None).retry_after == 34.5


def test_of_the_tokens_that_come_later_the_newest_are_hidden() -> None:
    failures = Failures("the-key-0123")
    tokens = [f"token-number-{number:04}" for number in range(600)]
    for token in tokens:
        failures.hide_also(token)

    assert failures.hide(" ".join(("the-key-0123", tokens[0], *tokens[-512:]))) == " ".join(
        ("[key]", tokens[0], *["[key]"] * 512)
    )
