import concurrent.futures

import pytest

from intermission import ModelError, ModelErrorKind
from intermission.client import CancelledError, LlmError, LlmResult

GOOD = LlmResult[int].success(3)
ERROR = ModelError("busy", kind=ModelErrorKind.RATE_LIMIT, retry_after=2.5)
BAD: LlmResult[int] = LlmResult[int].failure(ERROR)


def test_a_success_has_a_value_and_no_error() -> None:
    assert (GOOD.is_success, GOOD.is_failure, GOOD.error, GOOD.kind) == (True, False, None, None)
    assert (GOOD.get(), GOOD.get_or_none(), GOOD.recoverable, GOOD.retry_after) == (3, 3, False, None)
    assert LlmResult[None].success(None).is_success


def test_a_failure_has_an_error_and_only_reading_its_value_raises() -> None:
    assert (BAD.is_success, BAD.is_failure, BAD.error, BAD.get_or_none()) == (False, True, ERROR, None)
    with pytest.raises(LlmError, match="busy") as raised:
        BAD.get()
    assert raised.value.error is raised.value.__cause__ is ERROR
    for what in (BAD, raised.value):
        assert (what.kind, what.recoverable, what.retry_after) == (ModelErrorKind.RATE_LIMIT, True, 2.5)


def test_map_changes_a_value_and_leaves_a_failure() -> None:
    assert GOOD.map(str).get() == "3"
    assert BAD.map(str).error is ERROR
    with pytest.raises(ZeroDivisionError):
        GOOD.map(lambda value: value // 0)


def test_the_future_of_a_result_is_done_and_cannot_be_cancelled() -> None:
    for result in (GOOD, BAD, LlmResult[int].failure(CancelledError("it was cancelled"))):
        future = result.to_future()
        assert future.done()
        assert not future.cancel()
        assert not future.cancelled()
    assert concurrent.futures.wait([GOOD.to_future()], timeout=0).not_done == set()
    assert GOOD.to_future().result(0) == 3
    with pytest.raises(LlmError) as raised:
        BAD.to_future().result(0)
    assert raised.value.__cause__ is ERROR
