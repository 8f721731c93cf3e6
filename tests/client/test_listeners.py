"""Listeners that raise, cancel, or do what they must not: one end, always, or none for the worst."""

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from typing import Any

import pytest

from callers import PATIENCE
from intermission import Cancelled, CancelScope, Event, RunRecord, RunStatus
from intermission.client import (
    AgentClient,
    AgentStream,
    CancelledError,
    ListenerError,
    LlmResult,
    TurnResult,
    ValidationError,
)
from intermission.testing import Gate, ScriptedModel, text


class Odd:
    """A listener that does something odd at its first event.

    Attributes:
        ends: What it was told at the end, and whether its scope was cancelled then.
    """

    def __init__(self, act: Callable[["Odd"], object]) -> None:
        self._act = act
        self.stream: AgentStream | None = None
        self.known = Gate()  # opened when the stream is known
        self.heard = 0
        self.ends: list[tuple[TurnResult | Exception, bool]] = []
        self.seen: object = None

    def on_event(self, event: Event) -> None:
        self.heard += 1
        self.known.wait()
        self._act(self)

    def on_complete(self, result: TurnResult) -> None:
        self._end(result)

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def _end(self, end: TurnResult | Exception) -> None:
        scope = CancelScope.current()
        assert scope is not None
        self.ends.append((end, scope.cancelled))


def played(odd: Odd) -> tuple[LlmResult[TurnResult], RunRecord]:
    """What a stream came to with this listener, and its turn in the log, which another one goes on with."""
    last = Gate()
    model = ScriptedModel(text("One ", "two ", "three ", last), "And now?")
    with AgentClient(model, streaming=True) as client:
        odd.stream = client.stream("s", "hello", odd).get()
        last.arrived()  # more events wait than the first
        odd.known.open()
        result = odd.stream.result(PATIENCE)
        (turn,) = client.session("s").get().runs()
        last.open()
        assert client.recover("s").get().text == "And now?"
    return result, turn


def test_what_a_listener_raises_fails_its_turn_and_is_what_it_is_told() -> None:
    error = ValueError("deaf")

    def act(_: Odd) -> None:
        raise error

    odd = Odd(act)
    result, turn = played(odd)
    assert result.error is error
    assert (odd.heard, odd.ends) == (1, [(error, False)])
    assert (turn.status, turn.error) == (RunStatus.FAILED, "ValueError: deaf")


def cancel_scope(_: Odd) -> None:
    scope = CancelScope.current()
    assert scope is not None
    scope.cancel("enough")


def cancel_scope_and_raise(odd: Odd) -> None:
    cancel_scope(odd)
    raise ValueError("deaf")


def raising(error: BaseException) -> Callable[[Odd], None]:
    def act(_: Odd) -> None:
        raise error

    return act


CANCELS = {
    "its scope": cancel_scope,
    "its scope, and raises": cancel_scope_and_raise,
    "Cancelled": raising(Cancelled("enough")),
    "asyncio.CancelledError": raising(asyncio.CancelledError()),
    "concurrent.futures.CancelledError": raising(concurrent.futures.CancelledError()),
}


@pytest.mark.parametrize("how", CANCELS)
def test_a_listener_that_cancels_its_scope_or_raises_a_cancel_cancels_its_turn(how: str) -> None:
    odd = Odd(CANCELS[how])
    result, turn = played(odd)
    assert isinstance(result.error, CancelledError)
    assert result.error.reason == ("" if "Error" in how else "enough")
    assert (result.error.__cause__ is None) is (how == "its scope")
    assert (odd.heard, odd.ends, turn.status) == (1, [(result.error, False)], RunStatus.CANCELLED)


def test_a_listener_that_fails_fatally_is_called_no_more_and_its_turn_is_cancelled() -> None:
    odd = Odd(raising(SystemExit(3)))
    result, turn = played(odd)
    assert isinstance(result.error, ListenerError)
    assert isinstance(result.error.__cause__, SystemExit)
    assert (odd.heard, odd.ends, turn.status) == (1, [], RunStatus.CANCELLED)


def test_a_listener_may_cancel_its_own_stream_and_gets_one_end() -> None:
    def act(odd: Odd) -> None:
        assert odd.stream is not None
        odd.stream.cancel("enough")
        odd.stream.cancel()

    odd = Odd(act)
    result, turn = played(odd)
    assert isinstance(result.error, CancelledError)
    assert (odd.heard, odd.ends, turn.status) == (1, [(result.error, False)], RunStatus.CANCELLED)


def test_a_listener_that_would_wait_for_itself_is_told_at_once() -> None:
    def act(odd: Odd) -> None:
        assert odd.stream is not None
        odd.seen = odd.stream.result().error
        odd.stream.cancel()

    odd = Odd(act)
    played(odd)
    assert isinstance(odd.seen, ValidationError)


@pytest.mark.parametrize("raised", [ValueError, SystemExit, Cancelled])
def test_an_end_that_raises_is_logged_and_the_outcome_stands(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    class Late(Odd):
        def _end(self, end: TurnResult | Exception) -> None:
            super()._end(end)
            raise raised

    late = Late(lambda _: None)
    late.known.open()
    with AgentClient(ScriptedModel("ok")) as client:
        stream = client.stream("s", "hello", late).get()
        assert stream.result(PATIENCE).get().text == "ok"
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert (vars(record)["session"], vars(record)["invocation"]) == ("s", stream.invocation_id)
    assert len(late.ends) == 1


def test_an_end_that_cannot_be_looked_up_is_logged_and_the_stream_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        broken = False

        def on_event(self, event: Event) -> None:
            self.broken = True

        @property
        def on_complete(self) -> Any:
            if self.broken:
                raise OSError("it is broken")
            return None

    with AgentClient(ScriptedModel("ok")) as client:
        assert client.stream("s", "hello", Broken()).get().result(PATIENCE).get().text == "ok"
    assert "on_complete of a listener raised" in caplog.text
