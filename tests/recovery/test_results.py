"""What the result of a run that is gone on with says of what was before: its tokens, and its text."""

from pathlib import Path
from typing import Any

from apps import APP, KEY
from failpoints import Diary, Points
from intermission import (
    App,
    Content,
    FunctionTool,
    LlmAgent,
    Plugin,
    ResumabilityConfig,
    Run,
    Runner,
    RunRecord,
    RunResult,
    RunStatus,
    Usage,
)
from intermission.testing import Gate, ScriptedModel, calls, error
from intermission_storage import MemoryEventLog
from nursery import KILLED, Nursery
from planned import planned_app


class Billing(Plugin):
    """Keeps one bill for each run, as the documentation says."""

    def __init__(self) -> None:
        super().__init__("billing")
        self.bills: dict[str, Usage] = {}

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """See `Plugin`."""
        self.bills[run.invocation_id or ""] = result.usage


def app_of(model: ScriptedModel, *plugins: Plugin, tools: Any = ()) -> App:
    """Return a resumable app."""
    agent = LlmAgent("agent", model, tools=tools)
    return App(APP, agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))


def test_the_tokens_of_a_run_whose_process_was_killed_are_billed_with_its_end(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die="after the effect of tool_1 #1") == KILLED
    diary, billing = Diary(tmp_path), Billing()
    app = planned_app(diary, Points(diary), plugins=[billing])
    with Runner(app, log=tmp_path / "log") as runner:
        (run,) = runner.recover()
        used = run.result(60).usage
        spent = [event.usage.total_tokens for event in run.result().events if event.usage]
        (record,) = runner.sessions.runs(**KEY)
    assert used.total_tokens == sum(spent) > spent[-1] > 0
    assert not used.complete  # a model may have been asked that was not heard any more
    assert record.usage == used == billing.bills[record.invocation_id]


def test_the_tokens_of_a_run_that_pauses_are_all_known_when_it_ends() -> None:
    billing = Billing()
    model = ScriptedModel(calls(("pay", {})), "Paid.")
    tool = FunctionTool(lambda: "paid", name="pay", require_confirmation=True)
    with Runner(app_of(model, billing, tools=[tool]), log=MemoryEventLog()) as runner:
        paused = runner.run(**KEY, message="Pay.").result(60)
        ended = runner.resume(**KEY, answers=[paused.pending[0].approve()]).result(60)
        (record,) = runner.sessions.runs(**KEY)
    asked = [result.usage.total_tokens for result in (paused, ended)]
    assert 0 < asked[0] < asked[1]
    assert paused.usage.complete
    assert ended.usage.complete
    assert record.usage == ended.usage == billing.bills[record.invocation_id]


class Holding(Plugin):
    """Holds a run, after its answer is stored and before its end is."""

    def __init__(self) -> None:
        super().__init__("holding")
        self.gate = Gate()

    def after_run_callback(self, *, invocation_context: Any) -> None:
        """See `Plugin`."""
        self.gate.wait()


def test_the_answer_of_a_run_that_was_left_behind_it_is_that_of_who_goes_on_with_it() -> None:
    log, holding = MemoryEventLog(), Holding()
    runner = Runner(app_of(ScriptedModel("In Utrecht."), holding), log=log)
    runner.run(**KEY, message="Where is it?").start()
    holding.gate.arrived()
    runner.close(grace=0)
    holding.gate.open()
    model = ScriptedModel()
    with Runner(app_of(model), log=log) as runner:
        (run,) = runner.recover()
        assert run.answer(60) == "In Utrecht."
        assert runner.attach(**KEY).result(60).text == "In Utrecht."
    assert model.requests == []


class Looking(Plugin):
    """Looks at messages before they are stored."""

    def on_user_message_callback(self, *, invocation_context: Any, user_message: Content) -> None:
        """See `Plugin`."""


def test_what_the_user_said_is_no_text_of_the_run() -> None:
    app = app_of(ScriptedModel(error("network", "the line is dead")), Looking("looking"))
    with Runner(app, log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="Where is it?").result(60)
    assert (result.status, result.text) == (RunStatus.FAILED, "")
