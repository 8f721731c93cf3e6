"""When older events are summed up, and what becomes of that when the run ends in another way."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from apps import APP, KEY, kinds
from intermission import (
    App,
    Event,
    EventsCompactionConfig,
    FunctionTool,
    LlmAgent,
    Plugin,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunStatus,
    Usage,
)
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog
from paying import Submits


def app(summarizer: Any, *replies: Any, interval: int = 2, **fields: Any) -> App:
    """An app whose model answers "well", and that sums up without overlap."""
    agent = LlmAgent("agent", ScriptedModel(*replies, default="well"), tools=fields.pop("tools", ()))
    config = EventsCompactionConfig(interval, 0, summarizer)
    return App(APP, agent, events_compaction_config=config, **fields)


def summaries(runner: Runner) -> list[str]:
    """The summaries in the log."""
    found = [event.actions.compaction for event in runner.sessions.events(**KEY)]
    return [one["compactedContent"]["parts"][0]["text"] for one in found if one is not None]


def count(events: Sequence[Event]) -> str:
    """Sum up in a word."""
    return f"{len(events)} events"


def test_the_root_agents_model_sums_up_after_the_run_in_which_that_is_due_and_not_before() -> None:
    log, model = MemoryEventLog(), ScriptedModel("a1", "a2", "They greeted.", default="a3")
    config = EventsCompactionConfig(2, 1)
    with Runner(App(APP, LlmAgent("agent", model), events_compaction_config=config), log=log) as runner:
        for question in ("q1", "q2", "q3"):
            runner.run(**KEY, message=question).answer()

        assert summaries(runner) == ["They greeted."]
    assert kinds(log) == [
        *("session_created", "run_started", "event", "event", "run_ended"),
        *("run_started", "event", "event", "event", "run_ended"),
        *("run_started", "event", "event", "run_ended"),
    ]
    asked = model.requests[2].contents[0].text
    assert asked == "user said: q1\nagent said: a1\nuser said: q2\nagent said: a2"
    seen = [content.text for content in model.requests[3].contents]
    assert seen == ["For context, a summary of what was said before:\nThey greeted.", "q3"]


def test_a_summary_is_stored_with_the_end_of_its_run_and_shown_as_what_says_nothing() -> None:
    log = Submits()
    with Runner(app(count, interval=1), log=log) as runner:
        *_, last = runner.run(**KEY, message="hi")

    assert (last.author, last.text, last.is_final, last.is_checkpoint) == ("user", "", False, True)
    assert log.kinds()[-1] == ["event", "run_ended"]


def test_a_run_after_which_nothing_is_due_ends_in_one_commit_with_its_answer() -> None:
    log = Submits()
    with Runner(app(count), log=log) as runner:
        runner.run(**KEY, message="hi").answer()

    assert log.kinds() == [
        ["session_created", "run_started", "event"],
        ["event", "run_ended"],
    ]


def test_after_a_run_that_pauses_is_stopped_or_fails_nothing_is_summed_up() -> None:
    def stop(tool_context: Any) -> str:
        """Stop."""
        tool_context.stop("enough")
        return "stopped"

    def pay() -> None:
        """Pay."""

    replies = (calls(("pay", {})), calls(("stop", {})), error("validation", "no"), "well")
    resumable = ResumabilityConfig(is_resumable=True)
    paying = app(
        count,
        *replies,
        interval=1,
        tools=[FunctionTool(pay, require_confirmation=True), stop],
        resumability_config=resumable,
    )
    with Runner(paying, log=MemoryEventLog()) as runner:
        ends = [runner.run(**KEY, message=str(number)).result().status for number in range(3)]
        assert ends == ["paused", "stopped", "failed"]
        assert summaries(runner) == []
        runner.run(**KEY, message="3").answer()
        assert summaries(runner) == ["9 events"]


@pytest.mark.parametrize("failing", ["raises", "says nothing", "is no text", "is a model that fails"])
def test_a_summarizer_that_fails_fails_no_run_and_is_asked_again_after_the_next(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    tries = list[int]()

    def sum_up(events: Sequence[Event]) -> Any:
        tries.append(len(events))
        if len(tries) > 1:
            return "at last"
        if failing == "raises":
            raise OSError("the disk is full")
        return "" if failing == "says nothing" else 7

    model = ScriptedModel(error("service", "down"), "at last")
    summarizer = model if failing == "is a model that fails" else sum_up
    with Runner(app(summarizer), log=MemoryEventLog()) as runner:
        with caplog.at_level(logging.WARNING, "intermission"):
            ends = [runner.run(**KEY, message="hi").result().status for _ in range(3)]
        assert ends == [RunStatus.COMPLETED] * 3
        assert summaries(runner) == ["at last"]
    assert tries in ([4, 6], [])
    assert "the next run tries again" in caplog.text


def test_a_cancel_while_events_are_summed_up_is_the_runs_end_and_leaves_no_half_of_a_summary() -> None:
    gate = Gate()
    log = MemoryEventLog()
    with Runner(app(ScriptedModel(text(gate, "short")), interval=1), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        receipt = run.cancel("enough")
        result = run.result()
        gate.open()
        assert run.wait_terminated(30)

        assert (receipt.outcome, result.status, result.text) == ("accepted", "cancelled", "well")
        assert kinds(log)[-3:] == ["event", "cancel_requested", "run_ended"]
        assert summaries(runner) == []


def test_a_deadline_while_events_are_summed_up_is_the_runs_end() -> None:
    gate = Gate()

    def wait(events: Sequence[Event]) -> None:
        gate.wait()

    with Runner(app(wait, interval=1), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(timeout=0.2)).start()
        assert run.result().status == "expired"
        gate.open()


def test_an_async_summarizer_is_awaited() -> None:
    async def later(events: Sequence[Event]) -> str:
        await asyncio.sleep(0)
        return count(events)

    with Runner(app(later, interval=1), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").answer()
        assert summaries(runner) == ["2 events"]


def test_hooks_after_the_run_come_before_the_summary_and_see_none_of_it() -> None:
    order = list[str]()

    class Notes(Plugin):
        def after_run_callback(self, *, invocation_context: Any) -> None:
            order.append("hook")
            invocation_context.state["noted"] = True

        def before_model_callback(self, **_: Any) -> None:
            order.append("model")

    def sum_up(events: Sequence[Event]) -> str:
        order.append("summary")
        return count(events)

    notes = [Notes("notes")]
    with Runner(app(sum_up, interval=1, plugins=notes), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").answer()
        assert summaries(runner) == ["2 events"]
        assert runner.sessions.get(**KEY).state == {"noted": True}
    assert order == ["model", "hook", "summary"]


def test_plugins_that_look_at_events_are_shown_the_summary_and_it_is_stored() -> None:
    seen = list[Event]()

    class Looks(Plugin):
        def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
            seen.append(event)

    with Runner(app(count, interval=1, plugins=[Looks("looks")]), log=MemoryEventLog()) as runner:
        shown = list(runner.run(**KEY, message="hi"))
        assert summaries(runner) == ["2 events"]
    assert [event.actions.compaction is not None for event in seen] == [False, True]
    assert [event.seq for event in shown] == [event.seq for event in seen]


def test_the_tokens_of_a_summary_are_the_runs_and_its_call_is_not_counted_against_the_limit() -> None:
    summarizer = ScriptedModel(text("short", usage=Usage(5, 6, 11)))
    with Runner(app(summarizer, interval=1), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(max_llm_calls=1))
        assert run.result().status == "completed"
        assert run.result().usage.total_tokens >= 11


def test_a_session_goes_on_with_its_summary_after_a_restart() -> None:
    kept = MemoryEventLog()
    with Runner(app(count), log=kept) as runner:
        for _ in range(2):
            runner.run(**KEY, message="hi").answer()
    model = ScriptedModel("well")
    with Runner(App(APP, LlmAgent("agent", model)), log=kept) as runner:
        runner.run(**KEY, message="and now?").answer()

    assert [one.text for one in model.requests[0].contents] == [
        "For context, a summary of what was said before:\n4 events",
        "and now?",
    ]
