"""What tests of clients share: models of one's own, and callers on threads of their own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Generic, TypeVar

from intermission import CancelScope
from intermission.content import Content
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate

__all__ = ["PATIENCE", "Caller", "Telling", "behind", "covered", "together", "until"]

PATIENCE = 30.0  # seconds; a test that waits longer than this has hung

T = TypeVar("T")


class Telling:
    """A model that answers what a function makes of the last message, or raises what that raises.

    Attributes:
        asked: The last message of each request, in order.
        threads: On which thread each was asked.
    """

    name = "telling"

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.threads: list[threading.Thread] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        self.asked.append(request.contents[-1].text)
        self.threads.append(threading.current_thread())
        yield ModelResponse(content=Content.model(self._answer(request.contents[-1].text)))


def behind(gate: Gate, answer: str = "late") -> Callable[[str], str]:
    """Return what gives a `Telling` its answer when the gate is open."""

    def told(asked: str) -> str:
        gate.wait()
        return answer

    return told


class Caller(Generic[T]):
    """A call on a thread of its own, with the context variables of who makes this."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._raised: BaseException | None = None
        self.thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._call())
        except BaseException as error:  # noqa: BLE001 - it is for the test to judge
            self._raised = error

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the call has not returned"
        if self._raised is not None:
            raise self._raised
        return self._value[0]


def together(count: int, call: Callable[[int], T]) -> list[Caller[T]]:
    """Make so many calls at once, each with its number."""

    def numbered(number: int) -> Callable[[], T]:
        return lambda: call(number)

    return [Caller(numbered(number)) for number in range(count)]


def covered(scope: CancelScope, call: Callable[[], T]) -> T:
    """Make a call inside a scope."""
    with scope:
        return call()


def until(condition: Callable[[], bool]) -> None:
    """Look at what nobody tells, again and again, until it is true."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        pause.wait(0.001)
