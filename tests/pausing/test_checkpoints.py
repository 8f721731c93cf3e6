"""What the events of an invocation tell of how far its agents had come, and which calls wait."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import pytest

from intermission import (
    Content,
    Event,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    Part,
    RunStatus,
    SequentialAgent,
)
from intermission.agents.progress import AgentState, Checkpoint, Progress
from intermission.agents.tree import names_below
from intermission.sessions.pauses import Pauses
from intermission.testing import calls
from intermission_storage import Appended, Kind, MemoryEventLog, Record, StorageError
from intermission_storage.log import BatchOptions
from pausing import WAIT, Story, llm, mark, model_of, resumable, seed, waiting
from play import answering, calling, said

TREE = SequentialAgent("seq", sub_agents=[ParallelAgent("par", sub_agents=[llm("a"), llm("b")]), llm("c")])
PLACE = {"current_sub_agent": "par"}


def progress(*events: Event) -> Progress:
    return Progress(events, "e-1", names_below(TREE))


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ([], None),
        ([mark("a", agent_state={"n": 1})], Checkpoint({"n": 1})),
        ([mark("a", agent_state={})], Checkpoint()),
        ([mark("a", agent_state={"n": 1}), mark("a", agent_state={"n": 2})], Checkpoint({"n": 2})),
        ([mark("a", agent_state={"n": 1}), mark("a", end_of_agent=True)], Checkpoint(ended=True)),
        ([mark("a", agent_state={"n": 1}, end_of_agent=True)], Checkpoint(ended=True)),
        ([mark("a", said="bye", end_of_agent=True)], Checkpoint()),
        ([mark("a", end_of_agent=True), mark("a", agent_state={"n": 1})], Checkpoint({"n": 1})),
        ([mark("a", agent_state={"n": 1}), mark("a", said="on")], Checkpoint({"n": 1})),
        ([mark("a", said="begun")], Checkpoint()),
        ([mark("a", agent_state={"n": 1}), mark("a", end_of_agent=True), mark("a", said="on")], Checkpoint()),
        ([mark("a", said="hi", agent_state={"n": 1})], Checkpoint({"n": 1})),
        ([mark("a")], None),
        ([replace(mark("user"), content=Content.user("hi"))], None),
        ([mark("a", said="hi", branch="x")], None),
        ([replace(mark("a", said="hi"), invocation_id="e-2")], None),
        ([mark("b", end_of_agent=True)], None),
    ],
)
def test_the_last_events_of_an_agent_on_its_branch_tell_how_far_it_had_come(
    events: list[Event], known: Checkpoint | None
) -> None:
    assert progress(*events).take("a", None) == known


def test_each_checkpoint_is_taken_once() -> None:
    found = progress(mark("a", end_of_agent=True))
    assert (found.take("a", None), found.take("a", None)) == (Checkpoint(ended=True), None)


def test_a_workflow_that_moves_on_forgets_the_agents_below_it_on_its_branches_and_no_others() -> None:
    ends = [
        mark("par", end_of_agent=True),
        mark("a", branch="par.a", end_of_agent=True),
        mark("b", branch="par.b", end_of_agent=True),
        mark("c", end_of_agent=True),
        mark("other", end_of_agent=True),
    ]
    found = progress(*ends, mark("seq", agent_state=PLACE))
    places = [("par", None), ("a", "par.a"), ("b", "par.b"), ("c", None)]
    assert [found.take(name, branch) for name, branch in places] == [None] * 4
    assert found.take("other", None) == Checkpoint(ended=True)

    found = progress(*ends, mark("seq", branch="x", agent_state=PLACE))
    assert [found.take(name, branch) for name, branch in places] == [Checkpoint(ended=True)] * 4


def test_what_agents_in_a_loop_did_in_the_round_before_is_forgotten_in_the_log_too() -> None:
    inner = ParallelAgent("par", sub_agents=[llm("a"), llm("b")])
    app = resumable(LoopAgent("loop", max_iterations=2, sub_agents=[inner]))
    log = MemoryEventLog()
    round_of = [
        mark("loop", agent_state={"current_sub_agent": "par", "times_looped": 0}),
        mark("par", agent_state={}),
        mark("a", branch="par.a", end_of_agent=True),
        mark("b", branch="par.b", end_of_agent=True),
        mark("par", end_of_agent=True),
        mark("loop", agent_state={"current_sub_agent": "par", "times_looped": 1}),
        mark("par", agent_state={}),
        mark("a", branch="par.a", end_of_agent=True),
    ]
    id = seed(log, app, *round_of, ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        assert story.go_on(id) == ["b@par.b says b is done", "b@par.b ends", "par ends", "loop ends"]


def test_what_an_agent_keeps_counts_as_changed_until_it_is_taken() -> None:
    state = AgentState({"list": [1]})
    assert not state.changed
    state["list"].append(2)
    assert state.changed
    taken = state.take()
    assert not state.changed
    state["list"].append(3)
    assert (taken, state.changed) == ({"list": [1, 2]}, True)


# Which calls wait.


def long_running(*ids: str, of: tuple[str, ...] = ()) -> Event:
    """An event with calls, of which some are long-running: all by default."""
    return replace(calling(*ids), long_running_tool_ids=of or ids)


def began(call_id: str, outcome: str = "pending") -> Record:
    return Record(Kind.CALL_FINISHED, {"callId": call_id, "outcome": outcome})


def says(*ids: str) -> Event:
    """The user answers."""
    parts = [Part(function_response=FunctionResponse(id, "look", {"ok": True})) for id in ids]
    return said(Content("user", tuple(parts)), "user")


@pytest.mark.parametrize(
    ("items", "waits"),
    [
        ([long_running("c-1"), began("c-1")], ["c-1"]),
        ([calling("c-1"), began("c-1")], []),
        ([long_running("c-1", "c-2", of=("c-2",)), began("c-2")], ["c-2"]),
        ([long_running("c-1", of=("c-9",)), began("c-1")], []),
        ([long_running("c-1")], []),
        ([long_running("c-1"), began("c-1", "finished"), answering("c-1")], []),
        ([long_running("c-1"), began("c-1"), says("c-1")], []),
        ([long_running("c-1"), began("c-1"), says("c-2")], ["c-1"]),
        ([long_running("c-1"), began("c-1"), answering("c-2"), answering("c-3")], ["c-1"]),
        ([long_running("c-1", "c-2"), began("c-1"), began("c-2"), says("c-2")], ["c-1"]),
        ([long_running("c-1"), began("c-1"), answering("c-1", author="b")], ["c-1"]),
    ],
)
def test_a_call_waits_from_its_beginning_to_its_own_answer_whatever_comes_between(
    items: list[Event | Record], waits: list[str]
) -> None:
    pauses = Pauses()
    pauses.take_in(items)
    assert list(pauses.calls) == waits
    pauses.take_in(items)
    assert list(pauses.calls) == waits


def test_an_answer_is_for_its_own_call_also_where_the_names_of_branches_begin_alike() -> None:
    # a_1 begins a_10: their calls have ids of their own, and no answer reaches the other.
    leaves = [llm(name, calls(("wait", {})), tools=[WAIT]) for name in ("a_1", "a_10")]
    with Story(ParallelAgent("par", sub_agents=leaves)) as story:
        story.say()
        by_agent = {call.agent: call for call in story.pending}
        assert story.answer(by_agent["a_10"]) == ["a_10@par.a_10 says a_10 is done", "a_10@par.a_10 ends"]
        assert story.pending == [by_agent["a_1"]]
        assert story.answer(by_agent["a_1"])[-1] == "par ends"


def test_a_leaf_below_a_sequence_on_a_branch_hears_its_own_answer_and_no_other() -> None:
    below = llm("deep", calls(("wait", {})), tools=[WAIT])
    beside = llm("beside", calls(("wait", {})), tools=[WAIT])
    tree = ParallelAgent("par", sub_agents=[SequentialAgent("s", sub_agents=[below]), beside])
    with Story(tree) as story:
        story.say()
        deep, other = sorted(story.pending, key=lambda call: call.agent, reverse=True)
        assert deep.branch == "par.s"
        story.answer(deep.reply({"for": "deep"}))
        story.answer(other.reply({"for": "beside"}))
    for agent, name in ((below, "deep"), (beside, "beside")):
        (heard,) = last_request(agent).function_responses
        assert heard.response == {"for": name}


def last_request(agent: LlmAgent) -> Content:
    """The end of what an agent's model was asked last."""
    last: Content = model_of(agent).requests[-1].contents[-1]
    return last


class NotingLog(MemoryEventLog):
    """Notes which records come together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = list[list[str]]()

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Unpack[BatchOptions],
    ) -> None:
        """See `EventLog.submit`."""
        self.batches.append([str(record.kind) for record in records])
        super().submit(stream, records, done, **options)


def test_checkpoints_stand_in_one_commit_with_what_they_belong_to() -> None:
    log = NotingLog()
    with Story(SequentialAgent("seq", sub_agents=[llm("a"), waiting("b")]), log) as story:
        story.say()
        assert log.batches == [
            ["session_created", "run_started", "event"],
            ["event"],  # where the sequence is
            ["event", "event"],  # what the agent says, with its end
            ["event"],
            ["event", "call_started"],
            ["call_finished", "run_ended"],
        ]
        del log.batches[:]
        story.answer(*story.pending)
    assert log.batches == [["run_started", "answer", "event"], ["event", "event"], ["event", "run_ended"]]


def test_a_call_of_a_custom_tool_that_is_long_running_waits_too() -> None:
    class Remote(LongRunningFunctionTool):
        """A tool of one's own."""

    def order(n: int) -> None:
        """Order."""

    with Story(llm("a", calls(("order", {"n": 1})), tools=[Remote(order)])) as story:
        story.say()
        (call,) = story.pending
        assert call.arguments == FunctionCall("", "", {"n": 1}).args
