import re
import threading
from typing import Any

import pytest

from intermission.content import Content, FunctionCall
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models import Model, ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, calls, error, stream, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))


def test_it_is_a_model_with_a_name() -> None:
    model: Model = ScriptedModel(name="parrot")
    assert model.name == "parrot"


def test_replies_come_in_order_and_then_the_default() -> None:
    model = ScriptedModel("one", text("two"), default="more")
    model.enqueue("three")

    said = [next(model.generate(WHOLE)).content.text for _ in range(5)]
    assert said == ["one", "two", "three", "more", "more"]


def test_a_request_is_recorded_and_takes_its_reply_when_it_is_made() -> None:
    model = ScriptedModel("one", "two")
    first, second = model.generate(STREAMED), model.generate(WHOLE)

    assert model.requests == [STREAMED, WHOLE]
    assert next(second).content.text == "two"
    assert next(first).content.text == "one"


def test_a_used_up_script_shows_the_last_message_of_the_request_and_says_what_to_do() -> None:
    model = ScriptedModel("one")
    model.generate(WHOLE)

    with pytest.raises(
        AssertionError, match=r"used up.*request 2, which ends with .*text='hello'.*default"
    ) as error:
        model.generate(ModelRequest(contents=(Content.user("long ago"), *WHOLE.contents)))
    assert "long ago" not in str(error.value)


def test_streamed_text_comes_in_its_pieces_and_then_whole() -> None:
    model = ScriptedModel(text("one ", "", "two", usage=Usage(1, 2, 3)))

    assert list(model.generate(STREAMED)) == [
        ModelResponse(content=Content.model("one "), partial=True),
        ModelResponse(content=Content.model("two"), partial=True),
        ModelResponse(content=Content.model("one two"), usage=Usage(1, 2, 3)),
    ]


def test_plain_text_comes_whole() -> None:
    (response,) = ScriptedModel(text("one ", "two")).generate(WHOLE)

    assert response == ModelResponse(content=Content.model("one two"), usage=Usage(10, 2, 12))


def test_calls_have_no_ids() -> None:
    (response,) = ScriptedModel(calls(("add", {"a": 1}), ("now", {}))).generate(STREAMED)

    assert response.content == Content.model(
        calls=[FunctionCall("", "add", {"a": 1}), FunctionCall("", "now", {})]
    )
    assert response.usage == Usage(10, 2, 12)


def test_text_before_calls_is_streamed() -> None:
    partial, last = ScriptedModel(calls(("now", {}), text="Let me see.")).generate(STREAMED)

    assert partial == ModelResponse(content=Content.model("Let me see."), partial=True)
    assert last.content.text == "Let me see."


def test_an_empty_reply_is_an_answer_without_parts() -> None:
    (response,) = ScriptedModel(text()).generate(STREAMED)

    assert response.content == Content("model", ())


def test_an_error_is_raised_as_it_was_scripted() -> None:
    model = ScriptedModel(error("rate_limit", "slowly", status=429, retry_after=3.0))

    with pytest.raises(ModelError, match="slowly") as caught:
        next(model.generate(WHOLE))
    assert caught.value.kind is ModelErrorKind.RATE_LIMIT
    assert (caught.value.status, caught.value.retry_after) == (429, 3.0)


def test_an_error_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="bad_mood"):
        error("bad_mood")


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_a_reply_stops_at_its_gate(request_: ModelRequest) -> None:
    gate, responses = Gate(), list[ModelResponse]()
    answer = ScriptedModel(text("one ", gate, "two")).generate(request_)
    if request_.streaming:
        assert next(answer).content.text == "one "
    thread = threading.Thread(target=lambda: responses.extend(answer))

    thread.start()
    gate.arrived()
    assert not responses
    gate.open()
    thread.join(30)

    assert responses[-1].content.text == "one two"


def test_many_threads_get_each_reply_once() -> None:
    model = ScriptedModel(*map(str, range(200)))
    said, lock, start = list[str](), threading.Lock(), Gate()

    def ask() -> None:
        start.wait()
        for _ in range(25):
            text = next(model.generate(WHOLE)).content.text
            with lock:
                said.append(text)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    start.open()
    for thread in threads:
        thread.join(30)

    assert sorted(said, key=int) == list(map(str, range(200)))
    assert len(model.requests) == 200


@pytest.mark.parametrize("reply", [7, ["one", "two"], ValueError("no"), wire(b"one")])
def test_what_is_no_reply_is_refused_when_it_is_given(reply: Any) -> None:
    with pytest.raises(TypeError, match=r"takes text\(…\), calls"):
        ScriptedModel(reply)
    with pytest.raises(TypeError, match=r"takes text\(…\), calls"):
        ScriptedModel(default=reply)
    with pytest.raises(TypeError, match=r"takes text\(…\), calls"):
        ScriptedModel().enqueue(reply)


@pytest.mark.parametrize(
    ("make", "piece"),
    [
        (text, 7),
        (text, b"one"),
        (text, ["one"]),
        (wire, "one"),
        (stream, 7),
        (calls, "add"),
        (calls, ("add", 7)),
    ],
)
def test_a_piece_of_a_wrong_type_is_refused_when_it_is_given(make: Any, piece: Any) -> None:
    with pytest.raises(TypeError, match=rf"{make.__name__}\(\) takes .* not {re.escape(repr(piece))}"):
        make(piece)


def test_what_a_model_writes_in_the_place_of_arguments_comes_as_it_is() -> None:
    [call] = calls(("look", "{broken")).content.function_calls
    written: object = call.args
    assert (call.name, written) == ("look", "{broken")
