"""Context variables: those of the caller are current in all code of its run, and of no other."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, Key, app_with
from intermission import (
    AgentContext,
    App,
    BaseAgent,
    Content,
    Event,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    Part,
    RunConfig,
    Runner,
    ToolContext,
    ToolExecution,
)
from intermission.agents.effects import Call, Steps, call_tools
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import LmdbEventLog, MemoryEventLog
from loops import PATIENCE
from races import at_once

WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Noting(LlmAgent):
    """Notes who runs it, then is an ordinary agent."""

    def __init__(self, notes: dict[str, str], model: ScriptedModel, *tools: Callable[..., Any]) -> None:
        super().__init__("agent", model, tools=tools)
        self.notes = notes

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        self.notes["agent"] = WHO.get()
        yield Call(lambda: self.notes.update(call=WHO.get()))
        yield from super().run(context)


def test_what_is_set_before_the_run_is_made_is_seen_by_all_its_code_though_it_is_changed_later() -> None:
    notes, done = dict[str, str](), threading.Event()

    def tool() -> str:
        notes["tool"] = WHO.get()
        return "done"

    async def task() -> str:
        notes["task"] = WHO.get()
        return "done"

    def on_event(event: Event) -> None:
        notes["event"] = WHO.get()

    def on_finally(_: object) -> None:
        notes["finally"] = WHO.get()
        done.set()

    model = ScriptedModel(calls(("tool", {}), ("task", {})), "ok")
    with Runner(App("app", Noting(notes, model, tool, task)), log=MemoryEventLog()) as runner:
        token = WHO.set("the caller")
        run = runner.run(**KEY, message="hi")
        WHO.reset(token)
        run.subscribe(on_event, on_finally=on_finally)
        assert done.wait(PATIENCE)
    assert notes == dict.fromkeys(["agent", "call", "tool", "task", "event", "finally"], "the caller")
    assert WHO.get() == "nobody"


def test_a_run_made_on_a_loop_has_the_context_of_its_task() -> None:
    seen = list[tuple[str, str]]()

    def tool(tool_context: ToolContext) -> str:
        seen.append((WHO.get(), tool_context.session_id))
        return "done"

    async def ask(who: str) -> None:
        WHO.set(who)
        await runner.run(user_id="u", session_id=who, message="hi")

    async def main() -> None:
        await asyncio.gather(*[asyncio.create_task(ask(who)) for who in "abc"])

    model = ScriptedModel(*[calls(("tool", {}))] * 3, default="ok")
    with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
        asyncio.run(main())
    assert len(seen) == 3
    assert all(who == session for who, session in seen)


def test_what_a_run_changes_is_seen_by_no_other_run_of_its_session_and_no_caller() -> None:
    seen = list[str]()

    def tool() -> str:
        seen.append(WHO.get())
        WHO.set("the run")
        return "done"

    model = ScriptedModel(calls(("tool", {})), "ok", calls(("tool", {})), "ok")
    with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
        for _ in range(2):
            runner.run(**KEY, message="hi").answer(PATIENCE)
    assert seen == ["nobody", "nobody"]
    assert WHO.get() == "nobody"


def test_runs_of_three_threads_have_each_the_context_of_its_own() -> None:
    seen: dict[str, set[str]] = {}

    class Telling(ScriptedModel):
        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            seen.setdefault(request.contents[-1].text, set()).add(WHO.get())
            return super().generate(request)

    with Runner(app_with(Telling(default="ok")), log=MemoryEventLog()) as runner:

        def work(who: str) -> None:
            WHO.set(who)
            key = Key(user_id="u", session_id=who)
            for _ in range(10):
                runner.run(**key, message=who).answer(PATIENCE)

        at_once(*[partial(work, who) for who in "abc"])
    assert seen == {who: {who} for who in "abc"}


@pytest.mark.parametrize("mode", list(ToolExecution))
def test_what_a_tool_sets_is_its_own_in_every_mode(mode: ToolExecution) -> None:
    seen = list[str]()

    def plain() -> str:
        seen.append(WHO.get())
        WHO.set("a plain tool")
        return "done"

    async def task() -> str:
        seen.append(WHO.get())
        WHO.set("an async tool")
        return "done"

    turn = calls(("plain", {}), ("task", {}), ("plain", {}))
    model = ScriptedModel(turn, turn, "ok")
    with Runner(app_with(model, plain, task), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode)).answer(PATIENCE)
    assert seen == ["nobody"] * 6


def test_what_an_agent_sets_for_a_while_can_be_reset_after_its_events_were_stored(tmp_path: Path) -> None:
    seen = list[str]()

    class Resetting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            for number in range(20):
                token = WHO.set(f"event {number}")
                yield context.event(self.name, content=Content.model("ok"))
                seen.append(WHO.get())
                WHO.reset(token)

    with (
        LmdbEventLog(tmp_path / "log", sync=False) as log,
        Runner(App("app", Resetting("resetting")), log=log) as runner,
    ):
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    assert seen == [f"event {number}" for number in range(20)]


def test_what_an_agent_sets_stays_with_it_when_another_thread_goes_on_with_it() -> None:
    seen, threads = list[str](), set[int]()
    gate = Gate()

    async def task() -> str:
        seen.append(WHO.get())
        return "done"

    def stuck() -> str:
        gate.wait()
        return "late"

    class Setting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            WHO.set("the agent")
            for name in ("task", "stuck", "task"):
                threads.add(threading.get_ident())
                call = FunctionCall(f"c-{len(seen)}-{name}", name, {})
                yield context.event(self.name, content=Content("model", (Part(function_call=call),)))
                yield from call_tools([call], tools)
                seen.append(WHO.get())
            yield context.event(self.name, content=Content.model("ok"))

    tools = {function.__name__: FunctionTool(function) for function in (task, stuck)}
    config = RunConfig(tool_timeout=0.05)
    with Runner(App("app", Setting("setting")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=config)
        assert run.answer(PATIENCE) == "ok"
        gate.open()
        assert run.wait_terminated(PATIENCE)
    assert seen == ["nobody", "the agent", "the agent", "nobody", "the agent"]
    assert len(threads) > 1
    assert WHO.get() == "nobody"
