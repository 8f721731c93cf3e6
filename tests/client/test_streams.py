import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from callers import PATIENCE, Caller, Telling, behind, covered, together, until
from intermission import (
    CancelScope,
    Event,
    LongRunningFunctionTool,
    ModelError,
    NothingToResumeError,
    RunStatus,
    SessionNotFoundError,
)
from intermission.client import (
    AgentClient,
    AgentStream,
    CancelledError,
    LlmResult,
    TurnResult,
    turns,
)
from intermission.runs.stream import GAP
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, error, text
from intermission_storage import StorageError


class Ears:
    """A listener that keeps what it hears.

    Args:
        hear: Called with each event before it is kept.
    """

    def __init__(self, hear: Callable[[Event], object] = lambda _: None) -> None:
        self._hear = hear
        self.events: list[Event] = []
        self.ends: list[TurnResult | Exception] = []
        self.threads: list[threading.Thread] = []

    def on_event(self, event: Event) -> None:
        self.threads.append(threading.current_thread())
        self.events.append(event)
        self._hear(event)

    def on_complete(self, result: TurnResult) -> None:
        self._end(result)

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def _end(self, end: TurnResult | Exception) -> None:
        self.threads.append(threading.current_thread())
        self.ends.append(end)

    @property
    def said(self) -> str:
        return "".join(event.delta for event in self.events)


def test_a_listener_gets_the_events_in_order_then_one_end_all_on_a_thread_of_its_stream() -> None:
    ears = Ears()
    with AgentClient(ScriptedModel(text("Once ", "upon ", "a time.")), streaming=True) as client:
        stream = client.stream("s", "Tell me a story.", ears).get()
        result = stream.result(PATIENCE)
        assert stream.is_done
    assert [event.delta for event in ears.events if event.text] == ["Once ", "upon ", "a time.", ""]
    assert ears.ends == [result.get()]
    assert result.get().text == "Once upon a time."
    (thread,) = set(ears.threads)
    assert thread.name == f"intermission-stream-{stream.invocation_id}"
    assert thread.daemon
    assert (stream.session_id, result.get().session_id) == ("s", "s")


def test_a_turn_that_fails_is_told_by_its_error_and_one_without_ends_hears_events_alone() -> None:
    class Bare:
        def __init__(self) -> None:
            self.heard = 0

        def on_event(self, event: Event) -> None:
            self.heard += 1

    ears, bare = Ears(), Bare()
    with AgentClient(ScriptedModel(error("service"), "ok")) as client:
        failed = client.stream("s", "hello", ears).get().result(PATIENCE)
        assert isinstance(failed.error, ModelError)
        assert (ears.events, ears.ends) == ([], [failed.error])
        assert client.stream_recover("s", bare).get().result(PATIENCE).get().text == "ok"
        assert bare.heard > 0


def test_a_stream_that_is_refused_is_a_failed_result_and_its_listener_hears_nothing() -> None:
    ears, log = Ears(), FaultyLog()
    with AgentClient(ScriptedModel("ok"), log=log) as client:
        log.refuse("event", StorageError("the disk is full"))
        refused: list[LlmResult[AgentStream]] = [client.stream("s", "hello", ears)]
        assert isinstance(refused[0].error, StorageError)
        refused.append(client.stream_resume("none", {"call": {}}, ears))
        assert isinstance(refused[1].error, SessionNotFoundError)
        assert client.run("hello", session_id="done").is_success
        refused.append(client.stream_recover("done", ears))
        assert isinstance(refused[2].error, NothingToResumeError)
        commit, scope = log.hold("event"), CancelScope()
        held = Caller(partial(covered, scope, lambda: client.stream("t", "hello", ears)))
        commit.arrived()
        scope.cancel("no time")
        until(lambda: client.session("t").get().active()[0].state == "ending")
        commit.open()
        assert isinstance(held.result().error, CancelledError)
        assert client.session("t").get().active() == []
    log.close()
    assert (ears.events, ears.ends) == ([], [])
    assert not [each for each in threading.enumerate() if each.name.startswith("intermission-stream")]


def test_a_paused_turn_is_a_complete_one_and_its_answers_are_streamed_as_well() -> None:
    first, second = Ears(), Ears()
    with AgentClient(
        ScriptedModel(calls(("ask", {})), "So it is."), tools=[LongRunningFunctionTool(ask)]
    ) as client:
        (call,) = client.stream("s", "Why?", first).get().result(PATIENCE).get().pending
        done = client.stream_resume("s", [call.reply({"answer": "So."})], second).get().result(PATIENCE)
    assert [end.status for end in first.ends if isinstance(end, TurnResult)] == [RunStatus.PAUSED]
    assert second.ends == [done.get()]
    assert second.said == "So it is."


def ask() -> None:
    """Ask somebody."""


def test_a_cancel_while_the_listener_waits_ends_the_turn_at_once_and_it_can_be_gone_on_with() -> None:
    gate, ears = Gate(), Ears()
    model = ScriptedModel(text(gate, "late"), "And now?")
    with AgentClient(model) as client:
        stream = client.stream("s", "hello", ears).get()
        gate.arrived()
        stream.cancel("enough")
        (turn,) = client.session("s").get().runs()
        assert (turn.status, turn.reason) == (RunStatus.CANCELLED, "enough")
        assert client.session("s").get().active() == []
        result = stream.result(PATIENCE)
        assert isinstance(result.error, CancelledError)
        assert (result.error.reason, ears.ends) == ("enough", [result.error])
        stream.cancel()
        gate.open()
        assert client.recover("s").get().text == "And now?"


@pytest.mark.parametrize("over", [False, True], ids=["while it goes on", "when it is over"])
def test_a_cancel_while_the_listener_is_busy_drops_all_events_but_the_one_in_hand(over: bool) -> None:
    busy, last = Gate(), Gate()
    ears = Ears(lambda _: busy.wait())
    pieces: list[Any] = ["piece "] * 3000
    model = ScriptedModel(text(*pieces, *([] if over else [last])))
    with AgentClient(model, streaming=True) as client:
        stream = client.stream("s", "hello", ears).get()
        busy.arrived()
        if over:
            until(lambda: client.session("s").get().runs()[-1].status is not None)
        else:
            last.arrived()
        stream.cancel()
        last.open()
        busy.open()
        result = stream.result(PATIENCE)
        assert len(ears.events) == 1
        assert len(ears.ends) == 1
        assert ears.ends == [result.get_or_none() or result.error]
        assert result.is_success is over
        assert over or isinstance(result.error, CancelledError)


def test_twenty_cancels_at_once_are_one_end() -> None:
    gate, ears = Gate(), Ears()
    with AgentClient(Telling(behind(gate))) as client:
        stream = client.stream("s", "hello", ears).get()
        gate.arrived()
        for caller in together(20, lambda number: stream.cancel(f"{number}")):
            caller.result()
        assert isinstance(stream.result(PATIENCE).error, CancelledError)
        gate.open()
    assert len(ears.ends) == 1


def test_a_slow_listener_holds_up_no_turn_and_misses_pieces_behind_one_mark_but_no_event() -> None:
    slow = Gate()
    ears = Ears(lambda _: slow.wait())
    with AgentClient(ScriptedModel(text(*["piece "] * 3000)), streaming=True) as client:
        stream = client.stream("s", "hello", ears).get()
        slow.arrived()
        until(lambda: client.session("s").get().runs()[-1].status is RunStatus.COMPLETED)
        assert not stream.is_done
        slow.open()
        assert stream.result(PATIENCE).get().text == "piece " * 3000
        stored = [event.seq for event in client.session("s").get().events() if event.author != "user"]
    assert [event.error_code for event in ears.events].count(GAP) == 1
    assert [event.seq for event in ears.events if event.seq is not None] == stored
    assert len(ears.events) < 1100
    assert ears.said == "piece " * 3000


def test_a_turn_whose_end_cannot_be_stored_ends_its_stream_with_that_error() -> None:
    ears, log = Ears(), FaultyLog()
    with AgentClient(ScriptedModel("ok"), log=log) as client:
        log.refuse("run_ended", StorageError("the disk is full"))
        result = client.stream("s", "hello", ears).get().result(PATIENCE)
        assert isinstance(result.error, StorageError)
        assert ears.ends == [result.error]
    log.close()


def test_the_wait_of_a_cancel_is_not_shortened_by_a_cancelled_scope_but_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate, ears, log = Gate(), Ears(), FaultyLog()
    with AgentClient(Telling(behind(gate)), log=log) as client:
        stream = client.stream("s", "hello", ears).get()
        gate.arrived()
        commit = log.hold("run_ended")
        monkeypatch.setattr(turns, "_PATIENCE", 0.01)
        stream.cancel()
        assert "has not ended within 0.01 s" in caplog.text
        monkeypatch.undo()
        scope = CancelScope()
        scope.cancel("no time")
        canceller = Caller(partial(covered, scope, stream.cancel))
        commit.arrived()
        assert canceller.thread.is_alive()
        commit.open()
        canceller.result()
        assert scope.cancelled
        assert client.session("s").get().runs()[-1].status is RunStatus.CANCELLED
        assert isinstance(stream.result(PATIENCE).error, CancelledError)
        gate.open()
    log.close()


def test_a_wait_for_a_stream_may_be_cut_short_again_and_again_and_each_result_is_the_same_object() -> None:
    gate = Gate()
    with AgentClient(Telling(behind(gate))) as client:
        stream = client.stream("s", "hello", Ears()).get()
        gate.arrived()
        scope = CancelScope()
        waiter = Caller(partial(covered, scope, stream.result))
        scope.cancel("no time")
        given_up = waiter.result()
        assert isinstance(given_up.error, CancelledError)
        assert "the turn goes on" in str(given_up.error)
        with pytest.raises(TimeoutError, match="goes on"):
            stream.result(0.001)
        waiters = together(8, lambda _: stream.result())
        gate.open()
        results = [waiter.result() for waiter in waiters]
        assert {id(result) for result in results} == {id(stream.result())}
        assert results[0].get().text == "late"


def test_a_close_ends_the_streams_and_leaves_no_thread_of_them() -> None:
    gate, told = Gate(), Gate()

    class Slow(Ears):
        def _end(self, end: TurnResult | Exception) -> None:
            super()._end(end)
            told.wait()

    ears = Slow()
    client = AgentClient(Telling(behind(gate)))
    stream = client.stream("s", "hello", ears).get()
    gate.arrived()
    closer = Caller(lambda: client.close(grace=0))
    told.arrived()
    closer.thread.join(0.1)
    assert closer.thread.is_alive()  # it waits for the listener, for a second at most
    told.open()
    closer.result()
    assert not [each for each in threading.enumerate() if each.name.startswith("intermission-stream")]
    assert "interrupted" in str(stream.result(0).error)
    assert len(ears.ends) == 1
    gate.open()


def test_a_stream_for_which_there_is_no_thread_is_refused_and_its_turn_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, start = Gate(), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("intermission-stream"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ears = Ears()
    with AgentClient(Telling(behind(gate))) as client:
        assert "new thread" in str(client.stream("s", "hello", ears).error)
        assert client.session("s").get().active() == []
        assert client.session("s").get().runs()[-1].status is RunStatus.CANCELLED
        gate.open()
    assert (ears.events, ears.ends) == ([], [])
