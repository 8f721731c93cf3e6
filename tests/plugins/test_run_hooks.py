"""Hooks around a run: its message, its beginning, its end and its error."""

import contextvars
import logging
import threading
import traceback
from typing import Any

import pytest

from apps import APP, KEY, app_of, kinds
from hooks import BOTH_KINDS, app_plugged, doing, plugin
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    HookResultError,
    LlmAgent,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Call, Steps
from intermission.keys import SessionKey
from intermission.sessions.records import open_run, run_started, session_created, session_entry
from intermission.testing import FaultyLog, Gate, ScriptedModel
from intermission_storage import LogFullError, MemoryEventLog


def llm(*replies: Any, default: Any = None) -> LlmAgent:
    return LlmAgent("agent", ScriptedModel(*replies, default=default))


# The message.


@BOTH_KINDS
def test_content_takes_the_place_of_the_message_in_the_log_and_for_all_that_comes_after(kind: str) -> None:
    seen: list[str] = []

    def message(*, invocation_context: AgentContext, user_message: Content) -> Content:
        seen.append(user_message.text)
        return Content.user(user_message.text.upper())

    def before(*, invocation_context: AgentContext) -> None:
        seen.append(invocation_context.events[-1].text)

    log, model = MemoryEventLog(), ScriptedModel("ok")
    app = app_plugged(
        LlmAgent("agent", model),
        plugin("plugin", kind, on_user_message_callback=message, before_run_callback=before),
    )
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hello")
        assert [event.text for event in run] == ["ok"]
        assert [event.text for event in run.result(0).events] == ["HELLO", "ok"]
    assert seen == ["hello", "HELLO"]
    assert model.requests[0].contents[-1].text == "HELLO"
    assert kinds(log) == ["session_created", "run_started", "event", "event", "run_ended"]


def test_the_hook_sees_the_state_that_comes_with_the_message_and_what_it_changes_is_stored_with_it() -> None:
    seen: list[dict[str, Any]] = []

    def message(*, invocation_context: AgentContext, user_message: Content) -> None:
        seen.append(dict(invocation_context.state))
        invocation_context.state["words"] = len(user_message.text.split())

    def before(*, invocation_context: AgentContext) -> None:
        seen.append(dict(invocation_context.state))

    app = app_plugged(llm("a", "b"), plugin(on_user_message_callback=message, before_run_callback=before))
    with Runner(app, log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="one two", state_delta={"kept": 1, "gone": 2, "temp:now": 3}).result()
        result = runner.run(**KEY, message="three", state_delta={"gone": None}).result()
        state = runner.sessions.get(**KEY).state
    assert seen == [
        {"kept": 1, "gone": 2, "temp:now": 3},
        {"kept": 1, "gone": 2, "words": 2, "temp:now": 3},
        {"kept": 1, "words": 2},
        {"kept": 1, "words": 1},
    ]
    assert dict(result.events[0].actions.state_delta) == {"gone": None, "words": 1}
    assert state == {"kept": 1, "words": 1}


def test_a_run_is_admitted_when_its_message_is_stored_and_not_while_it_is_looked_at() -> None:
    gate, log = Gate(), MemoryEventLog()
    app = app_plugged(llm("ok"), plugin(on_user_message_callback=doing(gate.wait)))
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi")
        run.begin()
        gate.arrived()
        assert (run.state, kinds(log)) == ("queued", ["session_created", "run_started"])
        gate.open()
        run.start()
        assert run.result().status is RunStatus.COMPLETED


@BOTH_KINDS
def test_a_message_hook_that_raises_fails_the_run_whose_message_is_not_stored(kind: str) -> None:
    error, log = ValueError("no"), MemoryEventLog()

    def refuse(*, user_message: Content, **_: Any) -> None:
        if user_message.text == "bad":
            raise error

    with Runner(
        app_plugged(llm(default="ok"), plugin("plugin", kind, on_user_message_callback=refuse)), log=log
    ) as runner:
        with pytest.raises(ValueError, match="no") as raised:
            runner.run(**KEY, message="bad").start()
        assert raised.value is error
        assert kinds(log) == ["session_created", "run_started", "run_ended"]
        assert runner.run(**KEY, message="good").answer() == "ok"


@pytest.mark.parametrize("wrong", ["hello", Content("user", ())])
def test_a_message_that_is_no_content_or_an_empty_one_is_an_error_that_names_the_hook(wrong: Any) -> None:
    def replace_message(**_: Any) -> Any:
        return wrong

    app = app_plugged(llm("ok"), plugin(on_user_message_callback=replace_message))
    with (
        Runner(app, log=MemoryEventLog()) as runner,
        pytest.raises(HookResultError, match="replace_message returned"),
    ):
        runner.run(**KEY, message="hi").result()


def test_a_message_that_cannot_be_stored_ends_its_run_and_the_session_stays_usable() -> None:
    log = FaultyLog()
    app = app_plugged(llm(default="ok"), plugin(on_user_message_callback=doing(lambda: None)))
    with Runner(app, log=log) as runner:
        runner.run(**KEY, message="first").result()
        log.refuse("event", LogFullError("no room"))
        with pytest.raises(LogFullError):
            runner.run(**KEY, message="second").start()
        assert runner.run(**KEY, message="third").answer() == "ok"


def test_a_run_whose_process_died_before_its_message_was_stored_leaves_its_session_usable() -> None:
    log, key = MemoryEventLog(), SessionKey(APP, "u", "s")
    dead = MemoryEventLog(share=log)
    created = session_created(key, 0.0)
    entries = [session_entry(key, 0.0, created.data["id"]), open_run(key, "e-dead")]
    dead.append(key.stream, [created, run_started("e-dead", 0.0)], claim=True, put=entries)
    dead.close()
    app = app_plugged(llm("ok"), plugin(on_user_message_callback=doing(lambda: None)))
    with Runner(app, log=log) as runner:
        assert [run.status for run in runner.sessions.runs(**KEY)] == [None]
        assert runner.run(**KEY, message="hi").answer() == "ok"
        assert runner.cancel(**KEY, invocation_id="e-dead").accepted
        statuses = [run.status for run in runner.sessions.runs(**KEY)]
    assert statuses == [RunStatus.CANCELLED, RunStatus.COMPLETED]


# The beginning.


@BOTH_KINDS
def test_content_before_the_run_is_its_answer_stored_and_shown_and_no_agent_runs(kind: str) -> None:
    called: list[str] = []

    def before(*, invocation_context: AgentContext) -> Content:
        called.append("before")
        return Content.model("closed today")

    hooks = plugin(
        "one", kind, before_run_callback=before, after_run_callback=doing(lambda: called.append("after"))
    )
    never = plugin("two", before_run_callback=doing(lambda: called.append("never")))
    model = ScriptedModel()
    with Runner(app_plugged(LlmAgent("agent", model), hooks, never), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        events = list(run)
        assert [(event.author, event.text) for event in events] == [("model", "closed today")]
        assert run.result(0).events[1:] == events
        assert run.result(0).text == "closed today"
    assert (model.requests, called) == ([], ["before", "after"])


@BOTH_KINDS
@pytest.mark.parametrize("hook", ["before_run_callback", "after_run_callback"])
def test_an_error_of_a_hook_around_the_run_fails_the_run(kind: str, hook: str) -> None:
    error, called = ValueError("no"), list[str]()

    def fail(**_: Any) -> None:
        raise error

    app = app_plugged(
        llm("ok"),
        plugin("one", kind, **{hook: fail}),
        plugin("two", **{hook: doing(lambda: called.append("later"))}),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert (result.status, result.error, called) == (RunStatus.FAILED, error, [])


# The end.


@BOTH_KINDS
def test_after_the_run_is_called_when_all_its_events_are_shown_and_before_its_end_is_stored(
    kind: str,
) -> None:
    seen: list[tuple[list[str], list[str]]] = []
    log = MemoryEventLog()

    def after(*, invocation_context: AgentContext) -> None:
        seen.append(([event.text for event in invocation_context.events], kinds(log)[-2:]))

    with Runner(app_plugged(llm("ok"), plugin("plugin", kind, after_run_callback=after)), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer() == "ok"
    assert seen == [(["hi", "ok"], ["event", "event"])]


@BOTH_KINDS
def test_after_the_run_is_called_for_a_run_that_was_stopped(kind: str) -> None:
    gate, called = Gate(), list[str]()

    class Stopping(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield Call(gate.wait)
            yield from llm("never").run(context)

    def after(*, invocation_context: AgentContext) -> None:
        called.append(invocation_context.events[-1].error_code or "")
        invocation_context.state["after"] = True

    app = app_plugged(Stopping("agent"), plugin("plugin", kind, after_run_callback=after))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.stop("enough")
        gate.open()
        result = run.result()
        assert runner.sessions.get(**KEY).state == {"after": True}
    assert (result.status, result.reason, called) == (RunStatus.STOPPED, "enough", ["stopped"])


def test_after_the_run_is_called_neither_after_an_error_nor_after_a_cancel() -> None:
    gate, called = Gate(), list[str]()

    class Waiting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield Call(gate.wait)
            raise ValueError

    app = app_plugged(Waiting("agent"), plugin(after_run_callback=doing(lambda: called.append("after"))))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        assert run.result().status is RunStatus.CANCELLED
        gate.open()
        assert runner.run(**KEY, message="hi").result().status is RunStatus.FAILED
    assert called == []


# The error.


@BOTH_KINDS
def test_a_run_error_is_told_as_the_object_that_it_is_and_the_run_does_not_wait_for_that(kind: str) -> None:
    error, told, gate = ValueError("broken"), threading.Event(), Gate()
    seen: list[Any] = []

    class Failing(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield from ()
            context.callback_data["left"] = "behind"
            raise error

    def first(*, invocation_context: AgentContext, error: Exception) -> None:
        seen.append((invocation_context.invocation_id, invocation_context.callback_data, error))
        raise RuntimeError("a hook's own")

    def second(**_: Any) -> None:
        gate.wait()
        told.set()

    app = app_plugged(
        Failing("agent"),
        plugin("one", kind, on_run_error_callback=first),
        plugin("two", on_run_error_callback=second),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result().error is error
        gate.arrived()
        assert not told.is_set()
        gate.open()
        assert told.wait(30)
    assert seen == [(run.invocation_id, {"left": "behind"}, error)]


def test_what_such_a_hook_raises_is_logged_with_session_and_invocation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("a hook's own")

    app = app_plugged(llm(), plugin(on_run_error_callback=fail))
    with caplog.at_level(logging.ERROR, "intermission"), Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result().status is RunStatus.FAILED
    (record,) = [one for one in caplog.records if "fail raised" in one.getMessage()]
    assert record.levelno == logging.ERROR
    assert (record.__dict__["session"], record.__dict__["invocation"]) == ("s", run.invocation_id)
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a hook's own"


def test_a_run_that_is_cancelled_has_no_error_to_be_told() -> None:
    told: list[Exception] = []
    gates = [Gate(), Gate()]

    def look_at(*, invocation_context: AgentContext, error: Exception) -> None:
        told.append(error)

    app = app_plugged(
        LlmAgent("agent", ScriptedModel(), before_agent_callback=doing(lambda: gates[0].wait())),
        plugin(on_run_error_callback=look_at),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gates[0].arrived()
        run.cancel()
        assert run.result().status is RunStatus.CANCELLED
        gates.pop(0).open()
        expired = runner.run(**KEY, message="hi", config=RunConfig(timeout=0.3)).result()
        assert expired.status is RunStatus.EXPIRED
        gates[0].open()
    assert told == [expired.error]


# What hooks share.


def test_what_one_hook_leaves_in_the_callback_data_all_later_ones_of_the_run_find() -> None:
    def remember(name: str) -> Any:
        def hook(*args: Any, **keywords: Any) -> None:
            context = args[0] if args else keywords.get("invocation_context") or keywords["callback_context"]
            context.callback_data.setdefault("names", []).append(name)
            if name == "after run":
                found.append(context.callback_data["names"])

        return hook

    found: list[list[str]] = []
    app = app_plugged(
        LlmAgent("agent", ScriptedModel(default="ok"), after_agent_callback=remember("after agent")),
        plugin(
            on_user_message_callback=remember("message"),
            before_run_callback=remember("before run"),
            before_model_callback=remember("before model"),
            on_event_callback=remember("event"),
            after_run_callback=remember("after run"),
        ),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        for _ in range(2):
            runner.run(**KEY, message="hi").result()
    assert found == [["message", "before run", "before model", "event", "after agent", "after run"]] * 2


def test_context_variables_of_the_caller_are_those_of_every_hook() -> None:
    caller = contextvars.ContextVar("caller", default="nobody")
    found: list[str] = []
    app = app_plugged(
        llm("ok"),
        plugin("one", before_run_callback=doing(lambda: found.append(caller.get()))),
        plugin("two", "async", after_run_callback=doing(lambda: found.append(caller.get()))),
        plugin("three", on_event_callback=doing(lambda: found.append(caller.get()))),
        plugin("four", "async", on_run_end=doing(lambda: found.append(caller.get()))),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        token = caller.set("somebody")
        run = runner.run(**KEY, message="hi")
        caller.reset(token)
        run.result()
    assert found == ["somebody"] * 4


def test_a_run_without_hooks_has_none_of_their_frames() -> None:
    seen: list[str] = []

    class Looking(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            seen.extend(frame.name for frame in traceback.extract_stack())
            yield context.event(self.name, content=Content.model("seen"))

    with Runner(app_of(Looking("agent")), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result()
    assert not {"agent_steps", "run_steps"} & set(seen)
