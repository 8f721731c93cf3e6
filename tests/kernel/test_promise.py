import threading

import pytest

from intermission.kernel.promise import Promise
from intermission.testing import Gate


def test_the_first_answer_of_a_promise_stands() -> None:
    promise: Promise[str] = Promise()
    promise.keep("first")
    promise.keep("second")
    promise.fail(ValueError("third"))

    assert promise.wait() == "first"


def test_a_failed_promise_raises_where_it_is_waited_for() -> None:
    promise: Promise[str] = Promise()
    promise.fail(ValueError("no"))
    promise.keep("too late")

    with pytest.raises(ValueError, match="no"):
        promise.wait()


def test_a_promise_wakes_the_thread_that_waits() -> None:
    promise: Promise[str] = Promise()
    gate, got = Gate(), list[str]()

    def wait() -> None:
        gate.wait()
        got.append(promise.wait())

    waiting = threading.Thread(target=wait)
    waiting.start()
    gate.arrived()
    gate.open()
    promise.keep("here")
    waiting.join(30)

    assert got == ["here"]
