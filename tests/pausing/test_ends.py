"""Runs that end otherwise while calls wait: by a stop, an error, a deadline, a cancel."""

from collections.abc import Callable

import pytest

from apps import KEY, records
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionTool,
    LlmAgent,
    ParallelAgent,
    RunConfig,
    RunStatus,
    RunTimeoutError,
    SequentialAgent,
    ToolContext,
    UnknownCallError,
)
from intermission.agents.effects import Call, Steps
from intermission.testing import Gate, ManualClock, calls
from intermission_storage import MemoryEventLog
from pausing import PATIENCE, WAIT, Story, asked, asking, llm, shown, waiting, words


class Working(BaseAgent):
    """Waits at a gate, then does something; the second time it only says so."""

    def __init__(self, gate: Gate, then: Callable[[], object] = str) -> None:
        super().__init__("work")
        self.gate, self.then, self.begun = gate, then, 0

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        self.begun += 1
        if self.begun == 1:
            yield Call(self.gate.wait)
            yield Call(self.then)
        yield context.event(self.name, content=Content.model("worked"))


class Pausing(LlmAgent):
    """Opens a gate when it is left, which it is when it pauses."""

    def __init__(self, name: str, left: Gate, base: LlmAgent) -> None:
        super().__init__(name, base.model, tools=list(base.tools.values()))
        self.left = left

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            yield from super().run(context)
        finally:
            self.left.open()


def both(work: Working, pausing: LlmAgent) -> SequentialAgent:
    """One agent that pauses and one that works, and then another."""
    return SequentialAgent("seq", sub_agents=[ParallelAgent("par", sub_agents=[pausing, work]), llm("next")])


REST = ["par ends", "seq at next", "next says next is done", "next ends", "seq ends"]


def fail() -> None:
    """Fail."""
    raise RuntimeError("broken")


@pytest.mark.parametrize("pausing", [asking, waiting])
def test_a_branch_that_fails_closes_the_calls_of_the_others_and_going_on_by_the_id_opens_them(
    pausing: Callable[[str], LlmAgent],
) -> None:
    gate = Gate()
    work, leaf = Working(gate, fail), Pausing("a", gate, pausing("a"))
    with Story(both(work, leaf)) as story:
        with pytest.raises(RuntimeError, match="broken"):
            story.say()
        assert (story.result.status, story.pending) == (RunStatus.FAILED, [])
        failed = story.result.invocation_id
        (call,) = [call for event in story.events for call in event.function_calls][-1:]
        late = story.runner.resume(**KEY, answers={call.id: {"confirmed": True}})
        assert "resume(invocation_id=" in story.refused(UnknownCallError, late)

        assert story.go_on(failed) == ["work@par.work says worked", "work@par.work ends"]
        assert (story.result.status, [one.id for one in story.pending]) == (RunStatus.PAUSED, [call.id])
        assert story.answer(*story.pending)[-5:] == REST
    assert (work.begun, asked(leaf)) == (2, 2)
    assert story.result.status is RunStatus.COMPLETED


def test_a_run_that_expires_while_a_call_waits_is_gone_on_with_by_its_id() -> None:
    gate, clock, stuck = Gate(), ManualClock(), Gate()
    work, leaf = Working(gate, stuck.wait), Pausing("a", gate, waiting("a"))
    with Story(both(work, leaf), clock=clock) as story:
        run = story.runner.run(**KEY, message="hi", config=RunConfig(timeout=10)).start()
        stuck.arrived()
        assert len(story.pending) == 1
        clock.advance(10)
        with pytest.raises(RunTimeoutError):
            story.play(run)
        stuck.open()
        assert (story.result.status, story.pending) == (RunStatus.EXPIRED, [])

        assert story.go_on(run.invocation_id) == ["work@par.work says worked", "work@par.work ends"]
        assert story.answer(*story.pending) == ["a@par.a says a is done", "a@par.a ends", *REST]
    assert work.begun == 2


def test_a_run_that_is_stopped_while_a_call_waits_is_stopped_and_the_call_is_closed() -> None:
    gate, stuck = Gate(), Gate()
    work, leaf = Working(gate, stuck.wait), Pausing("a", gate, waiting("a"))
    with Story(both(work, leaf)) as story:
        run = story.runner.run(**KEY, message="hi").start()
        stuck.arrived()
        (call,) = story.pending
        run.stop("enough")
        stuck.open()
        story.play(run)
        assert story.events[-1].error_code == "stopped"
        assert (story.result.status, story.result.reason, story.pending) == (RunStatus.STOPPED, "enough", [])
        late = story.runner.resume(**KEY, answers=[call.reply({"ok": 1})])
        assert "stopped" in story.refused(UnknownCallError, late)

        before = story.position
        assert story.go_on(run.invocation_id) == []
        assert (story.result.status, story.position) == (RunStatus.COMPLETED, before)
        assert story.say("next")[0] == "seq at par"


def test_a_tool_that_stops_the_run_beside_a_call_that_waits_stops_it() -> None:
    def enough(tool_context: ToolContext) -> str:
        """Stop."""
        tool_context.stop("enough")
        return "stopped"

    agent = llm("A", calls(("wait", {}), ("enough", {})), tools=[enough, WAIT])
    with Story(agent) as story:
        story.say()
        assert (story.result.status, story.result.reason, story.pending) == (RunStatus.STOPPED, "enough", [])


@pytest.mark.parametrize("by", ["run", "key", "key of the paused"])
def test_a_run_that_is_cancelled_while_calls_wait_closes_them_and_is_gone_on_with_on_purpose(by: str) -> None:
    gate, stuck = Gate(), Gate()
    work, leaf = Working(gate, stuck.wait), Pausing("a", gate, waiting("a"))
    with Story(both(work, leaf)) as story:
        run = story.runner.run(**KEY, message="hi").start()
        stuck.arrived()
        if by == "key of the paused":
            stuck.open()
            assert run.result(PATIENCE).status is RunStatus.PAUSED
            assert story.runner.cancel(**KEY, invocation_id=run.invocation_id, reason="no").durable
        elif by == "key":
            story.runner.cancel(**KEY, reason="no")
        else:
            run.cancel("no")
        stuck.open()
        run.result(PATIENCE)
        assert story.pending == []
        ended = [record.data for record in records(story.log) if record.kind == "run_ended"][-1]
        assert (ended["status"], ended["reason"]) == ("cancelled", "no")

        gone_on = story.go_on(run.invocation_id)
        # Where it was paused already, the other branch had ended.
        assert gone_on == (
            [] if by == "key of the paused" else ["work@par.work says worked", "work@par.work ends"]
        )
        assert len(story.pending) == 1
        assert story.answer(*story.pending) == ["a@par.a says a is done", "a@par.a ends", *REST]


def test_a_run_that_is_cancelled_while_it_is_gone_on_with_is_gone_on_with_again() -> None:
    gate, made = Gate(), list[str]()

    def pay(tool_context: ToolContext) -> dict[str, str]:
        """Pay."""
        made.append(tool_context.function_call_id)
        if len(made) == 1:
            gate.wait()
        return {"paid": "yes"}

    agent = llm("A", calls(("pay", {})), tools=[FunctionTool(pay, require_confirmation=True)])
    with Story(agent) as story:
        story.say()
        (call,) = story.pending
        run = story.runner.resume(**KEY, answers=[call.approve()]).start()
        gate.arrived()
        run.cancel("no")
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert story.pending == []

        # The leave that was given stands: the call is made once more, under its id.
        assert story.go_on(run.invocation_id) == ["A hears pay", "A says A is done", "A ends"]
    assert made == [call.function_call_id] * 2


def test_closing_the_runner_keeps_what_waits_and_another_one_goes_on() -> None:
    first = Story(SequentialAgent("seq", sub_agents=[waiting("a"), llm("b")]))
    with first:
        first.say()
        paused = first.result
    with Story(SequentialAgent("seq", sub_agents=[llm("a", tools=[WAIT]), llm("b")]), first.log) as story:
        assert list(paused.pending) == story.pending
        assert story.answer(*story.pending)[-1] == "seq ends"
        assert story.result.invocation_id == paused.invocation_id


def test_who_looks_on_sees_the_pause_and_what_comes_of_the_answer() -> None:
    with Story(waiting("a")) as story:
        story.say()
        assert [words(event) for event in story.runner.attach(**KEY)] == ["user says hi", "a calls wait"]
        story.answer(*story.pending)
        seen = shown(story.runner.attach(**KEY))
        assert seen[-3:] == ["user hears wait", "a says a is done", "a ends"]


def test_what_another_runner_has_asked_or_answered_is_seen_by_one_that_knew_the_session_before() -> None:
    log = MemoryEventLog()
    first = Story(llm("a", "nothing", calls(("wait", {})), tools=[WAIT]), log)
    second = Story(llm("a", tools=[WAIT]), log)
    with first, second:
        first.say()
        second.say()
        first.say()
        (call,) = first.pending
        assert second.answer(call) == ["a says a is done", "a ends"]
        assert first.answer(call) == []
        assert first.result.status is RunStatus.COMPLETED
        assert first.go_on(call.invocation_id) == []
        assert first.result.status is RunStatus.COMPLETED
