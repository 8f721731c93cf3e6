"""Loops, and who is left when an agent escalates."""

from dataclasses import replace
from itertools import islice

import pytest

from apps import KEY, app_of
from intermission import (
    AgentContext,
    AgentTreeChangedError,
    App,
    BaseAgent,
    CallbackContext,
    CancelSource,
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    Part,
    Runner,
    RunStatus,
    SequentialAgent,
    UnknownCallError,
    exit_loop,
)
from intermission.agents.effects import Call, Ended, Escalate, RunAgent, SaveState, Steps
from intermission.testing import Gate, calls
from intermission_storage import MemoryEventLog
from pausing import ASK, PATIENCE, WAIT, Story, llm, mark, paused_in, resumable, seed, shown, waiting

CRITIC_LEAVES = calls(("exit_loop", {}))


class Speaker(BaseAgent):
    """Says some things, one of which may escalate; before that it waits at a gate, if it has one."""

    def __init__(self, name: str, *said: str, escalates: str = "", gate: Gate | None = None) -> None:
        super().__init__(name)
        self.said = said or (name,)
        self.escalates = escalates
        self.gate = gate

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        if self.gate is not None:
            yield Call(self.gate.wait)
        for said in self.said:
            actions = EventActions(escalate=said == self.escalates)
            yield context.event(self.name, content=Content.model(said), actions=actions)


def plain(agent: BaseAgent) -> list[str]:
    """What a run of an app without checkpoints shows."""
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        return shown(runner.run(**KEY, message="hi"))


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
def test_a_workflow_without_sub_agents_says_nothing_and_completes(
    kind: type[SequentialAgent | ParallelAgent | LoopAgent],
) -> None:
    assert plain(kind("empty")) == []
    with Story(kind("empty")) as story:
        assert story.say() == (["empty at", "empty ends"] if kind is ParallelAgent else ["empty ends"])
    assert story.result.status is RunStatus.COMPLETED


def test_a_sequence_shows_its_sub_agents_in_order_in_one_invocation() -> None:
    contexts = list[AgentContext]()

    class Noting(Speaker):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            contexts.append(context)
            yield from super().run(context)

    assert plain(SequentialAgent("seq", sub_agents=[Noting("a", "1", "2"), Noting("b")])) == [
        "a says 1",
        "a says 2",
        "b says b",
    ]
    assert [context.agent_name for context in contexts] == ["a", "b"]
    assert len({(context.invocation_id, context.session_id) for context in contexts}) == 1


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_loop_with_a_limit_repeats_its_sub_agents_as_often(rounds: int) -> None:
    loop = LoopAgent("loop", sub_agents=[Speaker("a"), Speaker("b")], max_iterations=rounds)
    assert plain(loop) == ["a says a", "b says b"] * rounds


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_round_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=r"'loop'.*number of rounds"):
        LoopAgent("loop", max_iterations=limit)


def test_an_endless_loop_can_be_left_by_who_looks_at_it() -> None:
    agent = LoopAgent("loop", sub_agents=[Speaker("a")])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        with run:
            assert [event.text for event in islice(run, 10)] == ["a"] * 10
        result = run.result(PATIENCE)
    report = run.cancel_report
    assert result.status is RunStatus.CANCELLED
    assert report is not None
    assert report.source is CancelSource.CONSUMER_LOST


def test_who_escalates_is_heard_and_neither_its_own_rest_nor_what_comes_after_it() -> None:
    leaving = Speaker("b", "1", "2", "3", escalates="2")
    loop = LoopAgent("loop", sub_agents=[Speaker("a"), leaving, Speaker("c")])
    assert plain(SequentialAgent("seq", sub_agents=[loop, Speaker("d")])) == [
        *("a says a", "b says 1", "b says 2, escalates", "d says d")
    ]


def test_an_answer_before_a_sub_agent_skips_that_one_only_in_each_round() -> None:
    def before(context: CallbackContext) -> Content:
        return Content.model(f"no {context.agent_name}")

    first = llm("a", before_agent_callback=before)
    assert plain(LoopAgent("loop", sub_agents=[first, Speaker("b")], max_iterations=3)) == [
        *["a says no a", "b says b"] * 3
    ]


def test_who_escalates_inside_a_sequence_leaves_the_innermost_loop_and_no_other() -> None:
    inner = SequentialAgent(
        "inner", sub_agents=[llm("critic", CRITIC_LEAVES, tools=[exit_loop]), Speaker("never")]
    )
    loops = LoopAgent(
        "outer", max_iterations=2, sub_agents=[LoopAgent("loop", sub_agents=[inner]), Speaker("b")]
    )
    # The second time round the critic leaves nothing, so that the inner loop needs a limit.
    loops.sub_agents[0].max_iterations = 1  # type: ignore[attr-defined]  # a LoopAgent
    with Story(loops) as story:
        assert story.say() == [
            "outer at loop 0",
            "loop at inner 0",
            "inner at critic",
            "critic calls exit_loop",
            "critic hears exit_loop, escalates",
            "loop ends",
            "outer at b 0",
            "b says b",
            "b ends",
            "outer at loop 1",
            "loop at inner 0",
            "inner at critic",
            "critic says critic is done",
            "critic ends",
            "inner at never",
            "never says never",
            "never ends",
            "inner ends",
            "loop ends",
            "outer at b 1",
            "b says b",
            "b ends",
            "outer ends",
        ]


def test_where_nothing_ends_by_it_who_escalates_only_says_so() -> None:
    assert plain(
        SequentialAgent("seq", sub_agents=[Speaker("a", "1", "2", escalates="1"), Speaker("b")])
    ) == [*("a says 1, escalates", "a says 2", "b says b")]


def test_an_agent_of_ones_own_may_end_by_escalation_and_is_told() -> None:
    told = list[object]()

    class Until(BaseAgent):
        ends_on_escalation = True

        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            for agent in self.sub_agents:
                told.append((yield RunAgent(agent)))
            yield context.event(self.name, content=Content.model("left"))

    class Leaving(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield Escalate()
            yield context.event(self.name, content=Content.model("never"))

    agents = [Speaker("a"), Speaker("b", "1", "2", escalates="1"), Leaving("c"), Speaker("d")]
    assert plain(Until("until", sub_agents=agents)) == [
        *("a says a", "b says 1, escalates", "d says d", "until says left")
    ]
    assert told == [None, Ended.ESCALATED, Ended.ESCALATED, None]


def loop_of_two(rounds: int) -> LoopAgent:
    return LoopAgent("loop", sub_agents=[Speaker("a"), Speaker("b")], max_iterations=rounds)


def gone_on(app: App, *events: Event, ended: RunStatus | None = None) -> list[str]:
    """What is shown of a run that goes on behind these events."""
    log = MemoryEventLog()
    id = seed(log, app, *events, ended=ended)
    with Story(app, log) as story:
        return story.go_on(id)


def test_a_loop_goes_on_with_the_sub_agent_and_the_round_that_it_had_come_to() -> None:
    state = {"current_sub_agent": "b", "times_looped": 1}
    assert gone_on(resumable(loop_of_two(3)), mark("loop", agent_state=state)) == [
        *("b says b", "b ends", "loop at a 2", "a says a", "a ends", "loop at b 2", "b says b", "b ends"),
        "loop ends",
    ]


def test_a_loop_that_had_done_its_rounds_only_ends() -> None:
    state = {"current_sub_agent": "a", "times_looped": 3}
    assert gone_on(resumable(loop_of_two(3)), mark("loop", agent_state=state)) == ["loop ends"]


@pytest.mark.parametrize(
    "state",
    [
        {"current_sub_agent": "a", "times_looped": "two"},
        {"current_sub_agent": "a", "times_looped": True},
        {"current_sub_agent": "z", "times_looped": 0},
        {"current_sub_agent": None, "times_looped": 0},
    ],
)
def test_a_place_in_a_loop_that_it_does_not_have_fails_the_run_and_begins_nothing_anew(
    state: dict[str, object],
) -> None:
    with pytest.raises(AgentTreeChangedError, match="'loop'"):
        gone_on(resumable(loop_of_two(3)), mark("loop", agent_state=state))


def test_a_loop_that_pauses_ends_neither_itself_nor_its_round() -> None:
    with Story(LoopAgent("loop", sub_agents=[waiting("a"), Speaker("b")], max_iterations=5)) as story:
        assert story.say() == ["loop at a 0", "a calls wait"]
    assert story.result.status is RunStatus.PAUSED


def test_branches_are_shown_as_they_come_each_on_one_that_ends_with_its_name() -> None:
    gate = Gate()
    agents = [Speaker("slow", gate=gate), Speaker("fast")]
    with Runner(app_of(ParallelAgent("par", sub_agents=agents)), log=MemoryEventLog()) as runner:
        events = iter(runner.run(**KEY, message="hi"))
        first = next(events)
        gate.open()
        (second,) = events
    assert [(event.author, event.branch) for event in (first, second)] == [
        ("fast", "par.fast"),
        ("slow", "par.slow"),
    ]


@pytest.mark.parametrize("deep", [False, True])
def test_a_branch_that_escalates_ends_the_others_and_what_follows_runs(deep: bool) -> None:
    never, gate = Gate(), Gate()

    class Stuck(Speaker):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield context.event(self.name, content=Content.model("begun"))
            gate.open()
            yield Call(context.cancellation.wait)
            yield context.event(self.name, content=Content.model("never"))

    leaving: BaseAgent = Speaker("leaving", "on", "off", "never", escalates="off", gate=gate)
    if deep:
        leaving = SequentialAgent("in_between", sub_agents=[leaving, Speaker("never")])
    parallel = ParallelAgent("par", sub_agents=[Stuck("stuck"), leaving])
    seen = plain(SequentialAgent("seq", sub_agents=[parallel, Speaker("after")]))
    branch = "par.in_between" if deep else "par.leaving"
    assert seen == [
        "stuck@par.stuck says begun",
        f"leaving@{branch} says on",
        f"leaving@{branch} says off, escalates",
        "after says after",
    ]
    assert never.arrivals == 0


def parallel_of(*agents: BaseAgent) -> ParallelAgent:
    return ParallelAgent("par", sub_agents=agents)


def test_a_parallel_agent_keeps_that_it_began_once_and_skips_what_had_ended() -> None:
    with Story(parallel_of(waiting("a"), llm("b"))) as story:
        assert story.say().count("par at") == 1
        assert story.answer(*story.pending) == ["a@par.a says a is done", "a@par.a ends", "par ends"]


def test_branches_that_had_all_ended_need_no_more_than_the_end_of_the_parallel_agent() -> None:
    app = resumable(parallel_of(llm("a"), SequentialAgent("b", sub_agents=[llm("c")])))
    ends = [mark(name, branch=f"par.{name}", end_of_agent=True) for name in ("a", "b")]
    assert gone_on(app, mark("par", agent_state={}), *ends) == ["par ends"]


def test_an_escalation_ends_the_parallel_agent_though_another_branch_waits() -> None:
    gate = Gate()

    class Noting(LlmAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            try:
                yield from super().run(context)
            finally:
                gate.open()  # it waits, so that its generator is closed

    pausing = Noting("a", llm("x", calls(("wait", {}))).model, tools=[WAIT])
    leaving = Speaker("b", escalates="b", gate=gate)
    with Story(SequentialAgent("seq", sub_agents=[parallel_of(pausing, leaving), llm("next")])) as story:
        seen = story.say()
        assert seen[2:] == [
            "a@par.a calls wait",
            "b@par.b says b, escalates",
            "par ends",
            "seq at next",
            "next says next is done",
            "next ends",
            "seq ends",
        ]
        assert story.result.status is RunStatus.COMPLETED
        assert story.pending == []
        late = story.runner.resume(**KEY, answers={call_of(story).id: {"ok": True}})
        assert "escalated" in story.refused(UnknownCallError, late)


def call_of(story: Story) -> FunctionCall:
    """The first call of a story."""
    return next(call for event in story.events for call in event.function_calls)


def test_a_turn_that_escalates_and_waits_leaves_the_loop_when_it_is_answered() -> None:
    both = calls(("exit_loop", {}), ("wait", {}))
    loop = LoopAgent("loop", sub_agents=[llm("w", both, tools=[exit_loop, WAIT]), Speaker("never")])
    with Story(loop) as story:
        assert story.say() == ["loop at w 0", "w calls exit_loop wait", "w hears exit_loop, escalates"]
        assert story.result.status is RunStatus.PAUSED
        assert story.answer(*story.pending) == ["loop ends"]


def test_a_turn_that_escalates_and_asks_leaves_the_loop_when_that_is_approved() -> None:
    both = calls(("exit_loop", {}), ("ask", {}))
    loop = LoopAgent("loop", sub_agents=[llm("w", both, tools=[exit_loop, ASK]), Speaker("never")])
    with Story(loop) as story:
        assert story.say()[2:] == ["w calls adk_request_confirmation", "w hears exit_loop, escalates"]
        assert story.answer(*story.pending) == ["w hears ask", "loop ends"]


def test_an_escalation_whose_process_died_behind_it_ends_the_loop_when_the_run_is_gone_on_with() -> None:
    left = mark("critic", agent_state=None, escalate=True, skip_summarization=True)
    response = Part(function_response=FunctionResponse("c-1", "exit_loop", {}))
    call = Content.model(calls=[FunctionCall("c-1", "exit_loop", {})])
    loop = LoopAgent("loop", sub_agents=[llm("critic", tools=[exit_loop]), Speaker("never")])
    assert gone_on(
        resumable(loop),
        mark("loop", agent_state={"current_sub_agent": "critic", "times_looped": 0}),
        replace(mark("critic"), content=call),
        replace(left, content=Content("user", (response,))),
    ) == ["loop ends"]


def test_what_an_agent_saves_in_an_app_without_checkpoints_is_not_stored() -> None:
    class Saving(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield SaveState({"at": 1})
            yield context.event(self.name, content=Content.model(str(dict(context.agent_state))))

    assert plain(Saving("a")) == ["a says {'at': 1}"]


def test_a_pause_in_a_branch_of_a_loop_comes_back_in_its_round() -> None:
    writer = llm("w", calls(("wait", {})), "again", tools=[WAIT])
    critic = llm("critic", CRITIC_LEAVES, tools=[FunctionTool(exit_loop)])
    loop = LoopAgent("loop", sub_agents=[parallel_of(writer), critic])
    with Story(loop) as story:
        (call,) = paused_in(story)
        assert story.answer(call) == [
            *("w@par.w says again", "w@par.w ends", "par ends", "loop at critic 0"),
            *("critic calls exit_loop", "critic hears exit_loop, escalates", "loop ends"),
        ]
