"""Hooks before and after an agent."""

import asyncio
from typing import Any

import pytest

from apps import KEY, app_of, records
from hooks import BOTH_KINDS, app_plugged, doing, of_kind, plugin
from intermission import (
    AgentContext,
    BaseAgent,
    CallbackContext,
    Cancelled,
    Content,
    Event,
    HookResultError,
    LlmAgent,
    RunConfig,
    Runner,
    RunStatus,
    UnrequestedCancelError,
)
from intermission.agents import Fork, RunAgent
from intermission.agents.effects import Steps
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog

PATIENCE = 10.0


class Saying(BaseAgent):
    """Says its name."""

    def run(self, context: AgentContext) -> Steps:
        yield context.event(self.name, content=Content.model(self.name))


class Silent(BaseAgent):
    """Says nothing."""

    def run(self, context: AgentContext) -> Steps:
        yield from ()


class Above(BaseAgent):
    """Runs the agents below it, in the way that it is given."""

    def __init__(self, how: str, *below: BaseAgent, **callbacks: Any) -> None:
        super().__init__("above", **callbacks)
        self.how, self.below = how, below

    def run(self, context: AgentContext) -> Steps:
        if self.how == "fork":
            yield Fork(self.below)
        for agent in self.below if self.how != "fork" else ():
            if self.how == "run":
                yield RunAgent(agent)
            else:
                yield from agent.run(context)
        yield context.event(self.name, content=Content.model("done"))


def shown(agent: BaseAgent, *plugins: Any) -> list[Event]:
    """Return what a run of the agent shows; what is stored must say the same."""
    with Runner(app_plugged(agent, *plugins), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        events = list(run)
        assert run.result(0).status is RunStatus.COMPLETED
        assert run.result(0).events[1:] == events
    return events


def texts(events: list[Event]) -> list[str]:
    return [f"{event.author}: {event.text}" for event in events]


@BOTH_KINDS
def test_content_before_an_agent_is_its_answer_and_neither_it_nor_what_comes_after_runs(kind: str) -> None:
    called: list[str] = []

    def before(context: CallbackContext) -> Content:
        called.append(context.invocation_id)
        return Content.model("not now")

    def after(context: CallbackContext) -> None:
        called.append("after")

    agent = Saying("agent", before_agent_callback=of_kind(kind, before), after_agent_callback=after)
    events = shown(agent)
    assert texts(events) == ["agent: not now"]
    assert called == [events[0].invocation_id]


@BOTH_KINDS
def test_content_after_an_agent_is_one_more_event_of_it(kind: str) -> None:
    def after(context: CallbackContext) -> Content:
        return Content.model(f"after {context.events[-1].text}")

    assert texts(shown(Saying("agent", after_agent_callback=of_kind(kind, after)))) == [
        "agent: agent",
        "agent: after agent",
    ]


def test_plugins_come_before_callbacks_in_their_order_and_the_first_answer_ends_the_chain() -> None:
    called: list[str] = []

    def asked(name: str, answer: Content | None = None) -> Any:
        def hook(*_: Any, **__: Any) -> Content | None:
            called.append(name)
            return answer

        return hook

    callbacks = [asked("one"), asked("two", Content.model("two")), asked("three")]
    first, second = (plugin(name, before_agent_callback=asked(name)) for name in ("first", "second"))
    assert texts(shown(Saying("agent", before_agent_callback=callbacks), first, second)) == ["agent: two"]
    assert called == ["first", "second", "one", "two"]

    called.clear()
    last_word = plugin("first", before_agent_callback=asked("first", Content.model("first")))
    assert texts(shown(Saying("agent", before_agent_callback=callbacks), last_word, second)) == [
        "agent: first"
    ]
    assert called == ["first"]


@pytest.mark.parametrize(("how", "hooked"), [("run", ["above", "a"]), ("from", ["above"])])
def test_hooks_are_called_for_each_agent_that_runs_but_not_for_what_is_part_of_another(
    how: str, hooked: list[str]
) -> None:
    called: list[str] = []

    def before(*, agent: BaseAgent, callback_context: CallbackContext) -> None:
        called.append(agent.name)

    def after(*, agent: BaseAgent, callback_context: CallbackContext) -> None:
        called.append(f"{agent.name} ended")

    watch = plugin(before_agent_callback=before, after_agent_callback=after)
    assert texts(shown(Above(how, Saying("a")), watch)) == ["a: a", "above: done"]
    assert [name for name in called if " " not in name] == hooked
    assert [name for name in called if " " in name] == [f"{name} ended" for name in reversed(hooked)]


def test_an_answer_in_the_place_of_one_agent_ends_neither_its_siblings_nor_who_runs_it() -> None:
    skipped = Saying("a", before_agent_callback=doing(lambda: Content.model("skipped")))
    assert texts(shown(Above("run", skipped, Saying("b")))) == ["a: skipped", "b: b", "above: done"]
    forked = shown(Above("fork", skipped, Saying("b")))
    assert sorted(texts(forked)[:2]) == ["a: skipped", "b: b"]
    assert {event.author: event.branch for event in forked} == {"a": "a", "b": "b", "above": None}


@BOTH_KINDS
@pytest.mark.parametrize("when", ["before_agent_callback", "after_agent_callback"])
def test_a_change_of_the_state_travels_with_the_next_event_or_with_one_of_its_own(
    kind: str, when: str
) -> None:
    def change(context: CallbackContext) -> None:
        context.state["seen"] = 1

    hooks: dict[str, Any] = {when: of_kind(kind, change)}
    alone = shown(Silent("agent", **hooks))
    assert [(event.content, dict(event.actions.state_delta)) for event in alone] == [(None, {"seen": 1})]
    spoken = shown(Saying("agent", **hooks))
    deltas = [dict(event.actions.state_delta) for event in spoken]
    assert deltas == ([{"seen": 1}] if when == "before_agent_callback" else [{}, {"seen": 1}])


def test_an_action_that_a_callback_asks_for_travels_with_an_event_too() -> None:
    def leave(context: CallbackContext) -> None:
        context.actions.escalate = True

    (event,) = shown(Silent("agent", after_agent_callback=leave))
    assert (event.content, event.actions.escalate) == (None, True)


@BOTH_KINDS
@pytest.mark.parametrize("when", ["before_agent_callback", "after_agent_callback"])
def test_what_is_no_content_is_an_error_that_names_the_callback(kind: str, when: str) -> None:
    def wrong(_: CallbackContext) -> str:
        return "hello"

    hooks: dict[str, Any] = {when: of_kind(kind, wrong)}
    with Runner(app_of(Saying("agent", **hooks)), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert isinstance(result.error, HookResultError)
    assert isinstance(result.error, TypeError)
    name = "wrong" if kind == "plain" else "later"
    assert result.error.hook.endswith(name)
    what = f"{name} returned an instance of str; it may return None or an instance of Content"
    assert what in str(result.error)
    assert "hello" not in str(result.error)


@pytest.mark.scenario("D12")
@BOTH_KINDS
@pytest.mark.parametrize("when", ["before_agent_callback", "after_agent_callback"])
def test_a_callback_that_raises_fails_its_run_with_that_error_and_the_next_run_works(
    kind: str, when: str
) -> None:
    error, log = RuntimeError("broken"), MemoryEventLog()
    broken = [True]

    def fail(_: CallbackContext) -> None:
        if broken.pop():
            raise error

    hooks: dict[str, Any] = {when: of_kind(kind, fail)}
    with Runner(app_of(LlmAgent("agent", ScriptedModel(default="ok"), **hooks)), log=log) as runner:
        result = runner.run(**KEY, message="a").result()
        assert (result.status, result.error) == (RunStatus.FAILED, error)
        broken.append(False)
        assert runner.run(**KEY, message="b").answer() == "ok"
    ends = [record.data for record in records(log) if record.kind == "run_ended"]
    assert ends[0]["error"] == {"type": "RuntimeError", "message": "broken"}


@pytest.mark.parametrize(
    ("kind", "cancelled"),
    [("plain", asyncio.CancelledError), ("plain", Cancelled), ("async", asyncio.CancelledError)],
    ids=["plain", "plain, of a scope", "async"],
)
@pytest.mark.parametrize(
    "hook",
    ["on_user_message_callback", "before_agent_callback", "after_model_callback", "on_event_callback"],
)
def test_a_hook_that_cancels_itself_fails_its_run_by_name_and_the_next_run_works(
    kind: str, cancelled: type[BaseException], hook: str
) -> None:
    broken = [True]

    def give_up(**_: Any) -> None:
        if broken and broken.pop():
            raise cancelled

    gate = Gate()  # hooks after a model see a partial first; the run must not end before they fail
    model = ScriptedModel(text("o", gate, "k"), default=text("o", "k"))
    app = app_plugged(LlmAgent("agent", model), plugin("plugin", kind, **{hook: give_up}))
    with Runner(app, log=MemoryEventLog(), config=RunConfig(streaming=True)) as runner:
        run = runner.run(**KEY, message="a")
        name = "give_up" if kind == "plain" else "later"
        with pytest.raises(
            UnrequestedCancelError, match=rf"the hook .*{name} was cancelled, and not by its run"
        ) as failed:
            run.answer(PATIENCE)
        gate.open()
        assert isinstance(failed.value.__cause__, cancelled)
        assert run.status is RunStatus.FAILED
        assert runner.run(**KEY, message="b").answer(PATIENCE) == "ok"


def test_the_last_event_ends_the_run_in_its_commit_unless_something_comes_after_it() -> None:
    def kinds_of_last_commit(agent: BaseAgent, *plugins: Any) -> bool:
        log = _Commits()
        with Runner(app_plugged(agent, *plugins), log=log) as runner:
            runner.run(**KEY, message="hi").result()
        return log.kinds[-1] == ["event", "run_ended"]

    model = ScriptedModel(default="ok")
    nothing = doing(lambda: None)
    assert kinds_of_last_commit(LlmAgent("agent", model))
    assert kinds_of_last_commit(LlmAgent("agent", model, before_agent_callback=nothing))
    assert kinds_of_last_commit(LlmAgent("agent", model), plugin(before_run_callback=nothing))
    assert not kinds_of_last_commit(LlmAgent("agent", model, after_agent_callback=nothing))
    assert not kinds_of_last_commit(LlmAgent("agent", model), plugin(after_run_callback=nothing))
    assert not kinds_of_last_commit(LlmAgent("agent", model), plugin(on_event_callback=nothing))


class _Commits(MemoryEventLog):
    """Keeps the kinds of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[list[str]] = []

    def submit(self, stream: str, records: Any, done: Any, **options: Any) -> None:
        """See `EventLog.submit`."""
        self.kinds.append([record.kind for record in records])
        super().submit(stream, records, done, **options)
