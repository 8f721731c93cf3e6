import asyncio
import concurrent.futures
import os
import signal
import threading
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

import pytest

from callers import Caller, Telling, covered, together
from intermission import Cancelled, CancelScope, Content, ModelError, ModelErrorKind, Part
from intermission.client import (
    CancelledError,
    ClientClosedError,
    LlmClient,
    LlmError,
    LlmResult,
    ValidationError,
)
from intermission.models import ChatCompletions
from intermission.testing import Gate, ManualClock, ModelServer, ScriptedModel, error, silent, text

ASKED = ["hello", Content.user("hello"), [Content.user("hi"), Content.model("Hi!"), Content.user("hello")]]
KINDS_OF_QUESTIONS = ["a text", "a message", "a conversation"]


def nothing(_: str) -> str:
    raise AssertionError("the model was asked")


@pytest.mark.parametrize("asked", ASKED, ids=KINDS_OF_QUESTIONS)
def test_the_model_is_asked_once_and_on_the_thread_of_who_calls(asked: str | Content | list[Content]) -> None:
    model = Telling(str.upper)
    with LlmClient(model) as client:
        here = client.complete(asked)
        caller = Caller(lambda: client.complete(asked))
        assert [here.get().text, caller.result().get().text] == ["HELLO", "HELLO"]
    assert model.threads == [threading.current_thread(), caller.thread]


def test_an_answer_has_its_tokens_and_why_it_ended_and_the_question_its_options(
    server: ModelServer, client: LlmClient
) -> None:
    server.enqueue(text("Hello."))
    answer = client.complete("hello", instruction="Be brief.", options={"temperature": 0}).get()
    assert (answer.text, answer.finish_reason) == ("Hello.", "stop")
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    (request,) = server.requests
    assert request["temperature"] == 0
    assert [message["content"] for message in request["messages"]] == ["Be brief.", "hello"]


def test_fifty_threads_share_a_client_and_each_has_its_own_answer() -> None:
    all_here = threading.Barrier(50)

    def echo(asked: str) -> str:
        all_here.wait(30)
        return f"echo of {asked}"

    with LlmClient(Telling(echo)) as client:
        callers = together(50, lambda number: client.complete(f"query {number}"))
        answers = [caller.result().get().text for caller in callers]
    assert answers == [f"echo of query {number}" for number in range(50)]


def test_as_many_threads_as_call_are_in_the_service_at_once() -> None:
    count, all_here = max(64, 4 * (os.cpu_count() or 1)), Gate()
    with (
        ModelServer(default=text("served", all_here)) as server,
        LlmClient(ChatCompletions("small", base_url=server.url)) as client,
    ):
        callers = together(count, lambda number: client.complete(f"query {number}"))
        all_here.arrived(count)  # the server answers nobody before
        all_here.open()
        failed = [result for caller in callers if (result := caller.result()).is_failure]
    assert failed == [], f"{len(failed)} of {count} were not served"


@pytest.mark.parametrize("how", ["another thread", "the scope above", "a deadline"])
def test_a_cancel_of_its_scope_ends_a_call_at_once_and_the_scope_stays_cancelled(
    how: str, server: ModelServer, client: LlmClient, clock: ManualClock
) -> None:
    server.enqueue(silent("answer"))
    with CancelScope() as above:
        scope = CancelScope(timeout=60)
        caller = Caller(partial(covered, scope, lambda: client.complete("hello")))
        server.wait_held()
        if how == "a deadline":
            clock.advance(60)
        else:
            (scope if how == "another thread" else above).cancel("enough")
        result = caller.result()
    assert scope.cancelled
    assert isinstance(result.error, CancelledError)
    assert (result.kind, result.recoverable) == (ModelErrorKind.CANCELLED, False)
    assert result.error.source == ("deadline" if how == "a deadline" else None)
    assert how == "a deadline" or result.error.reason == "enough"
    server.wait_aborted()  # the service sees the connection end


def test_a_signal_handler_that_cancels_the_scope_wakes_the_main_thread(
    server: ModelServer, client: LlmClient
) -> None:
    server.enqueue(silent("answer"))

    def interrupt() -> None:
        server.wait_held()
        os.kill(os.getpid(), signal.SIGINT)

    with CancelScope() as scope:

        def handle(number: int, frame: FrameType | None) -> None:
            scope.cancel("the signal")

        before = signal.signal(signal.SIGINT, handle)
        try:
            sender = Caller(interrupt)
            result = client.complete("hello")
            sender.result()
        finally:
            signal.signal(signal.SIGINT, before)
    assert isinstance(result.error, CancelledError)
    assert result.error.reason == "the signal"


def test_the_next_call_in_a_cancelled_scope_fails_at_once_and_one_in_a_shield_goes_on() -> None:
    model = Telling(str.upper)
    with LlmClient(model) as client, CancelScope() as scope:
        scope.cancel("enough")
        for asked in ASKED:
            assert isinstance(client.complete(cast(Any, asked)).error, CancelledError)
        with CancelScope() as below:
            assert isinstance(client.complete("hello").error, CancelledError)
            assert below.cancelled
        assert model.asked == []
        with CancelScope(shield=True):
            assert client.complete("hello").get().text == "HELLO"
        assert scope.cancelled
        assert isinstance(client.complete("hello").error, CancelledError)
    assert model.asked == ["hello"]


OWN_CANCELS = [Cancelled("mine"), concurrent.futures.CancelledError(), asyncio.CancelledError()]


@pytest.mark.parametrize("raised", OWN_CANCELS, ids=lambda each: f"{type(each).__module__}")
@pytest.mark.parametrize("asked", ASKED, ids=KINDS_OF_QUESTIONS)
def test_a_cancel_that_a_model_raises_by_itself_is_a_failed_result_with_it_as_the_cause(
    raised: BaseException, asked: str | Sequence[Content]
) -> None:
    with LlmClient(Telling(lambda _: _raise(raised))) as client, CancelScope() as scope:
        result = client.complete(asked)
        assert isinstance(result.error, CancelledError)
        assert result.error.__cause__ is raised
        assert not scope.cancelled


def _raise(error: BaseException) -> str:
    raise error


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (TimeoutError("slow"), ModelErrorKind.TIMEOUT),
        (ConnectionResetError("gone"), ModelErrorKind.NETWORK),
        (KeyError("x"), ModelErrorKind.OTHER),
        (ModelError("no", kind=ModelErrorKind.RATE_LIMIT, retry_after=1.0), ModelErrorKind.RATE_LIMIT),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_a_model_is_a_failure_of_its_kind_but_in_a_cancelled_scope_a_cancel(
    raised: Exception, kind: ModelErrorKind
) -> None:
    with CancelScope() as scope:
        model = Telling(lambda asked: (asked == "cancel" and scope.cancel(), _raise(raised))[1])
        with LlmClient(model) as client:
            clean = client.complete("hello")
            assert (clean.kind, raised in {clean.error, clean.error and clean.error.__cause__}) == (
                kind,
                True,
            )
            cancelled = client.complete("cancel")
    assert (cancelled.kind, cancelled.recoverable) == (ModelErrorKind.CANCELLED, False)
    assert cancelled.error is not None
    assert cancelled.error.__cause__ is raised
    assert model.asked == ["hello", "cancel"]  # neither was tried again


def test_an_answer_that_meets_the_cancel_of_its_call_is_none() -> None:
    with CancelScope() as scope, LlmClient(Telling(lambda _: (scope.cancel(), "paid")[1])) as client:
        assert isinstance(client.complete("hello").error, CancelledError)


def test_a_cancel_in_a_back_off_ends_the_call_and_nothing_is_sent_again(
    server: ModelServer, client: LlmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping, sleep = Gate(), CancelScope.sleep
    sleeping.open()

    def told(scope: CancelScope, seconds: float) -> None:
        sleeping.wait()
        sleep(scope, seconds)

    monkeypatch.setattr(CancelScope, "sleep", told)
    server.enqueue(error("rate_limit", retry_after=20))
    scope = CancelScope()
    caller = Caller(partial(covered, scope, lambda: client.complete("hello")))
    sleeping.arrived()
    scope.cancel("enough")
    assert isinstance(caller.result().error, CancelledError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_program_passes(raised: type[BaseException]) -> None:
    with LlmClient(Telling(lambda _: _raise(raised()))) as client, pytest.raises(raised):
        client.complete("hello")


WRONG: dict[str, Any] = {
    "nothing": None,
    "a number": 3,
    "a blank": " \n",
    "no message": [],
    "nothing in a message": Content("user", ()),
    "something in a list": [Content.user("hi"), None],
    "what is no part": Content("user", (cast(Any, None),)),
}


class _Odd(dict[str, Any]):
    def __iter__(self) -> Any:
        raise OSError("it cannot be read")

    keys = __iter__

    def __bool__(self) -> bool:
        return True


class _Unreadable(Exception):
    def __str__(self) -> str:
        raise OSError("it cannot be read")


def test_an_error_that_cannot_tell_its_text_is_a_failure_like_others() -> None:
    def refuse(asked: str) -> str:
        raise _Unreadable

    with LlmClient(Telling(refuse)) as client:
        failed = client.complete("hello")
        assert isinstance(failed.error and failed.error.__cause__, _Unreadable)
        with pytest.raises(LlmError):
            LlmResult[Any].failure(_Unreadable()).get()


@pytest.mark.parametrize("workers", [0, None, float("nan")], ids=repr)
def test_a_client_without_workers_is_one_whose_every_call_says_why(workers: Any) -> None:
    with LlmClient(Telling(str.upper), workers=workers) as client:
        for result in (client.complete("hello"), client.submit("hello").result(0)):
            assert "workers" in str(result.error)


@pytest.mark.parametrize("asked", WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_is_a_failed_result_and_asks_nobody(asked: Any) -> None:
    threads = threading.active_count()
    with LlmClient(Telling(nothing)) as client:
        for result in (client.complete(asked), client.submit(asked).result(0)):
            assert isinstance(result.error, ValidationError)
            assert result.kind is ModelErrorKind.VALIDATION
        for wrong in ({"instruction": None}, {"options": 3}):
            assert isinstance(client.complete("hello", **cast(Any, wrong)).error, ValidationError)
        for result in (client.complete("a", options=_Odd()), client.submit("a", options=_Odd()).result(0)):
            assert isinstance(result.error, OSError)
        assert threading.active_count() == threads


@pytest.mark.parametrize("model", ["nobody/nothing", None, 7, "anthropic/"], ids=repr)
def test_a_client_without_a_model_is_one_whose_every_call_says_why(model: Any) -> None:
    with LlmClient(model) as client:
        for result in (client.complete("hello"), client.submit("hello").result(0)):
            assert isinstance(result.error, ModelError)
            assert result.kind is ModelErrorKind.CONFIGURATION


def test_the_class_of_a_model_is_none_and_the_failure_says_that_it_is_a_class() -> None:
    kind: Any = ScriptedModel
    with LlmClient(kind) as client:
        assert "not the class ScriptedModel" in str(client.complete("hello").error)


def test_a_model_that_says_nothing_whole_has_failed() -> None:
    class Mute(Telling):
        def generate(self, request: Any) -> Any:
            return iter(())

    with LlmClient(Mute(str)) as client:
        assert "without a whole response" in str(client.complete("hello").error)


def test_a_closed_client_refuses_every_call_and_closes_its_model_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[int] = []

    class Closable(Telling):
        def close(self) -> None:
            closed.append(1)
            raise OSError("it was broken")

    client = LlmClient(Closable(str.upper))
    assert client.complete("hello").is_success
    with client:
        pass
    client.close()
    assert closed == [1]
    assert "could not be closed" in caplog.text
    for result in (client.complete("hello"), client.submit("hello").result(0)):
        assert isinstance(result.error, ClientClosedError)


def test_a_picture_and_its_question_are_one_message() -> None:
    model = ScriptedModel("A cat.")
    content = Content("user", (Part(text="What is this?"), Part(text="(a picture)")))
    with LlmClient(model) as client:
        assert client.complete(content).get().text == "A cat."
    assert model.requests[0].contents == (content,)
