"""What another process finds that goes on: approvals, what plugins are told, the message, custom state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY
from failpoints import Diary, Points
from intermission import (
    AgentTreeChangedError,
    Answer,
    App,
    BaseAgent,
    Content,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    NothingToResumeError,
    Part,
    PendingCall,
    PendingKind,
    Plugin,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    RunRecord,
    RunResult,
    RunStatus,
    SequentialAgent,
)
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog
from left import recovered
from nursery import KILLED, Nursery
from planned import Looking, planned_app
from stepping import Stepping, stepping_app
from tour import tour

APPROVED = "after the commit of run started + answer + user's responses of adk_request_confirmation #1"


class Told(Plugin):
    """Keeps which ends it was told of: how, and whether from the log."""

    def __init__(self) -> None:
        super().__init__("told")
        self.ends: list[tuple[RunStatus, bool]] = []

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """See `Plugin`."""
        self.ends.append((result.status, isinstance(run, RunRecord)))


@pytest.mark.scenario("C21")
def test_an_approval_counts_in_another_process_with_other_objects_and_settings(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tour", tmp_path, die=APPROVED) == KILLED
    diary, told = Diary(tmp_path), Told()
    app = tour(diary, Points(diary))
    other = App(APP, app.root_agent, plugins=[told], resumability_config=app.resumability_config)
    seen: list[str] = []
    with Runner(other, log=tmp_path / "log", config=RunConfig(streaming=True, max_llm_calls=50)) as runner:
        assert runner.pending(**KEY) == []
        (run,) = runner.recover()
        run.subscribe(lambda event: seen.append(event.text))
        assert run.answer(60) == "done"
        assert runner.pending(**KEY) == []
    assert [line[0] for line in diary.read("effects")].count("send") == 1
    assert told.ends == [(RunStatus.COMPLETED, False)]
    assert "done" in seen


def test_plugins_are_told_of_the_end_and_not_of_the_death(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("tools", tmp_path, die="after the effect of tool_1 #1") == KILLED
    diary, told = Diary(tmp_path), Told()
    gate = Gate()
    held = LlmAgent("agent", ScriptedModel(text(gate, "late")), tools=_tools(diary))
    runner = Runner(_resumable(held, told), log=tmp_path / "log")
    (run,) = runner.recover()
    run.start()
    gate.arrived()
    assert told.ends == []
    runner.close(grace=0)
    gate.open()
    assert told.ends == [(RunStatus.INTERRUPTED, False)]
    app = planned_app(diary, Points(diary), plugins=[told])
    with Runner(app, log=tmp_path / "log") as runner:
        assert recovered(runner)[0].status is RunStatus.COMPLETED
    assert told.ends == [(RunStatus.INTERRUPTED, False), (RunStatus.COMPLETED, False)]
    with Runner(app, log=tmp_path / "log"):
        pass
    assert len(told.ends) == 2


def _tools(diary: Diary) -> list[Any]:
    agent = planned_app(diary, Points(diary)).root_agent
    assert isinstance(agent, LlmAgent)
    return list(agent.tools.values())


def _resumable(agent: BaseAgent, *plugins: Plugin) -> App:
    return App(APP, agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))


def test_a_run_whose_app_has_lost_a_tool_stays_as_it_is_and_the_session_goes_on(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die="after the effect of tool_1 #1") == KILLED
    diary = Diary(tmp_path)
    with Runner(planned_app(diary, Points(diary), 2), log=tmp_path / "log") as runner:
        for _ in range(2):
            (failed,) = runner.recover_all().failed
            assert isinstance(failed.result.error, AgentTreeChangedError)
            assert "tool_2" in str(failed.result.error)
        assert runner.run(**KEY, message="again").answer(60) == "done"
        record = runner.sessions.runs(**KEY)[0]
    with Runner(planned_app(diary, Points(diary)), log=tmp_path / "log") as runner:
        assert runner.resume(**KEY, invocation_id=record.invocation_id).answer(60) == "done"


def _known(call: PendingCall) -> Answer:
    return call.reply({"receipt": 7})


@pytest.mark.scenario("F6")
@pytest.mark.parametrize(
    ("answer", "effects", "told"),
    [
        (PendingCall.approve, 2, {"times": 2}),
        (PendingCall.reject, 1, "unknown"),
        (_known, 1, {"receipt": 7}),
    ],
)
def test_whether_a_call_is_made_again_is_asked_and_can_be_answered_in_three_ways(
    answer: Callable[[PendingCall], Answer],
    effects: int,
    told: Any,
    nursery: Nursery,
    tmp_path: Path,
) -> None:
    die = "after the effect of charge #1"
    assert nursery.live("tour", tmp_path, die=die, on_resume="ask") == KILLED
    diary = Diary(tmp_path)
    with Runner(tour(diary, Points(diary), "ask"), log=tmp_path / "log") as runner:
        (result,) = recovered(runner)
        assert result.status is RunStatus.PAUSED
        (pending,) = runner.pending(**KEY)
        assert (pending.kind, pending.tool) == (PendingKind.RESUME, "charge")
        assert pending.function_call_id == diary.read("effects")[1][1]
        assert "charge" in pending.hint
        runner.resume(**KEY, answers=[answer(pending)]).result(60)
    assert [line[0] for line in diary.read("effects")].count("charge") == effects
    (responses,) = (said for name, said in diary.read("asked") if name == "planner" and said)
    assert responses[0] == {"times": 1}
    assert (responses[1] if isinstance(told, dict) else responses[1]["outcome"]) == told


@pytest.mark.scenario("C9")
def test_a_run_whose_process_died_before_its_first_step_begins_from_the_stored_message(
    nursery: Nursery, tmp_path: Path
) -> None:
    die = "after the commit of session created + run started + user's text #1"
    assert nursery.live("tools", tmp_path, die=die) == KILLED
    model = ScriptedModel(default="done")
    agent = LlmAgent("agent", model, tools=_tools(Diary(tmp_path)))
    with Runner(_resumable(agent), log=tmp_path / "log") as runner:
        assert [result.text for result in recovered(runner)] == ["done"]
    assert [content.text for content in model.requests[0].contents] == ["go"]


def test_a_run_whose_process_died_while_plugins_looked_at_its_message_waits_for_that(
    nursery: Nursery, tmp_path: Path
) -> None:
    die = "before the commit of user's text #1"
    diary = Diary(tmp_path)
    assert nursery.live("tools", tmp_path, die=die, looks=True) == KILLED
    app = planned_app(diary, Points(diary), plugins=[Looking()])
    with Runner(app, log=tmp_path / "log") as runner:
        (record,) = runner.sessions.runs(**KEY)
        with pytest.raises(NothingToResumeError, match="before its message was stored"):
            runner.resume(**KEY, invocation_id=record.invocation_id).start()
        (failed,) = runner.recover_all().failed
        assert isinstance(failed.result.error, NothingToResumeError)
        assert diary.read("asked") == []
        again = runner.run(**KEY, message="go", invocation_id=record.invocation_id)
        assert again.answer(60) == "done"
        assert [one.status for one in runner.sessions.runs(**KEY)] == [RunStatus.COMPLETED]
    assert len(diary.read("effects")) == 3


@pytest.mark.scenario("D6")
def test_a_message_with_an_answer_and_a_text_is_stored_whole_with_the_answer_first() -> None:
    model = ScriptedModel(calls(("send", {})), default="done")
    tool = FunctionTool(send, require_confirmation=True)
    with Runner(_resumable(LlmAgent("agent", model, tools=[tool])), log=MemoryEventLog()) as runner:
        (pending,) = runner.run(**KEY, message="Send it.").result(60).pending
        answer = FunctionResponse(pending.id, "adk_request_confirmation", {"confirmed": True})
        message = Content("user", (Part(text="And be quick."), Part(function_response=answer)))
        assert runner.run(**KEY, message=message).answer(60) == "done"
        said = [event for event in runner.sessions.events(**KEY) if event.author == "user"]
        assert said[1].content is not None
        parts = said[1].content.parts
        assert [bool(part.function_response) for part in parts] == [True, False]
        assert parts[1].text == "And be quick."
        again = runner.run(**KEY, message=Content("user", (Part(function_response=answer),)))
        assert (list(again), again.result().status) == ([], RunStatus.COMPLETED)
        assert len(model.requests) == 2


def send() -> str:
    """Send it."""
    return "sent"


def test_a_custom_agent_finds_its_agent_state_and_none_of_its_locals(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("steps", tmp_path) == KILLED
    agent = Stepping()
    with Runner(stepping_app(agent), log=tmp_path / "log") as runner:
        (result,) = recovered(runner)
        said = [event.text for event in result.events[1:] if event.content]
    assert said == [f"step {number}" for number in range(4)]
    assert agent.made == [2, 3]


def test_a_message_behind_a_run_that_ended_at_a_tools_response_begins_with_the_root() -> None:
    """Its agent must not be taken for one that is being answered."""
    first = LlmAgent(
        "first", ScriptedModel(calls(("send", {})), error("validation"), default="one"), tools=[send]
    )
    second = LlmAgent("second", ScriptedModel(default="two"))
    root = SequentialAgent("both", sub_agents=[first, second])
    with Runner(_resumable(root), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="go").result(60).status is RunStatus.FAILED
        assert runner.sessions.events(**KEY)[-1].function_responses
        assert [event.text for event in runner.run(**KEY, message="again") if event.text] == ["one", "two"]
