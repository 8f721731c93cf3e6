import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial

import pytest

from callers import PATIENCE, Caller, Telling, behind
from intermission import CancelScope, Content, ModelErrorKind
from intermission.client import CancelledError, LlmClient, SubmittedCall
from intermission.models import ChatCompletions, ModelRequest, ModelResponse
from intermission.testing import Gate, ModelServer, silent, text


def test_a_cancel_of_a_submitted_call_really_ends_it_and_that_of_a_pools_future_does_not(
    server: ModelServer, client: LlmClient
) -> None:
    gate = Gate()
    server.enqueue(text(gate, "late"))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(copy_context().run, client.complete, "hello")
        gate.arrived()
        assert not future.cancel()
        gate.open()
        assert future.result(PATIENCE).get().text == "late"
    server.enqueue(silent("answer"))
    call = client.submit("hello")
    server.wait_held()
    assert not call.is_done
    assert call.cancel("enough")
    result = call.result(PATIENCE)
    assert isinstance(result.error, CancelledError)
    assert (result.error.reason, result.error.source) == ("enough", "caller")
    server.wait_aborted()
    assert call.cancel()
    assert call.result() is result


def test_giving_up_the_wait_for_a_call_leaves_it_going() -> None:
    gate = Gate()
    with LlmClient(Telling(behind(gate))) as client:
        call = client.submit("hello")
        with pytest.raises(TimeoutError, match="it goes on"):
            call.result(0.001)
        with CancelScope(shield=True) as scope:
            scope.cancel("no time")
            given_up = call.result()
        assert isinstance(given_up.error, CancelledError)
        assert "the call goes on" in str(given_up.error)
        gate.open()
        assert call.result(PATIENCE).get().text == "late"
        assert not call.cancel()


def test_a_call_in_line_is_cancelled_at_once_and_its_model_is_never_asked() -> None:
    gate = Gate()
    model = Telling(behind(gate, "ok"))
    with LlmClient(model, workers=1) as client:
        first = client.submit("first")
        gate.arrived()
        with CancelScope() as scope:
            second, third = client.submit("second"), client.submit("third")
            scope.cancel("enough")
            fourth = client.submit("fourth")  # it is cancelled as it comes
        for call in (second, third, fourth):
            assert isinstance(call.result(0).error, CancelledError)
        gate.open()
        assert first.result(PATIENCE).is_success
        assert client.submit("fifth").result(PATIENCE).is_success
    assert model.asked == ["first", "fifth"]


@pytest.mark.race
def test_a_cancel_that_comes_late_does_not_reach_what_its_thread_does_next(load: None) -> None:
    begin = threading.Barrier(2)

    def answer(asked: str) -> str:
        if asked == "a":
            begin.wait(PATIENCE)
        return asked.upper()

    def cancel(call: SubmittedCall) -> bool:
        begin.wait(PATIENCE)
        return call.cancel()

    with LlmClient(Telling(answer), workers=1) as client:
        for _ in range(125):
            first, second = client.submit("a"), client.submit("b")
            canceller = Caller(partial(cancel, first))
            assert second.result(PATIENCE).get().text == "B"
            assert isinstance(first.result(PATIENCE).error, CancelledError) is canceller.result()


def test_a_cancel_that_was_accepted_stands_even_if_the_answer_is_there() -> None:
    tidying = Gate()

    class Tidy(Telling):
        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            try:
                yield ModelResponse(content=Content.model("paid"))
            finally:
                tidying.wait()

    with LlmClient(Tidy(str)) as client:
        call = client.submit("hello")
        tidying.arrived()
        assert call.cancel("enough")
        tidying.open()
        assert isinstance(call.result(PATIENCE).error, CancelledError)


def test_a_submitted_call_has_the_context_variables_of_who_submits_it() -> None:
    who = ContextVar("who", default="nobody")
    with LlmClient(Telling(lambda _: who.get())) as client:
        who.set("ada")
        call = client.submit("hello")
        who.set("ben")
        assert call.result(PATIENCE).get().text == "ada"


def test_a_model_that_would_end_the_program_fails_its_call_and_costs_no_thread() -> None:
    def leave(asked: str) -> str:
        raise SystemExit(asked)

    with LlmClient(Telling(leave), workers=1) as client:
        for _ in range(3):
            result = client.submit("hello").result(PATIENCE)
            assert result.kind is ModelErrorKind.OTHER
            assert result.error is not None
            assert isinstance(result.error.__cause__, SystemExit)


def test_a_close_cancels_what_was_submitted_and_leaves_no_thread() -> None:
    with ModelServer(default=silent("answer")) as server:
        client = LlmClient(ChatCompletions("small", base_url=server.url), workers=2)
        calls = [client.submit("hello") for _ in range(4)]
        server.wait_held(2)
        threads = [each for each in threading.enumerate() if each.name.startswith("intermission-llm-")]
        assert len(threads) == 2
        assert all(thread.daemon for thread in threads)
        client.close()
        assert all(isinstance(call.result(0).error, CancelledError) for call in calls)
        assert not any(thread.is_alive() for thread in threads)
