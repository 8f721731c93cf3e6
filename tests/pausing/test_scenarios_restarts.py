"""Reported failures of pauses over a restart: what waits, what is told of it, and an app that has changed."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, records
from intermission import (
    AgentTreeChangedError,
    BaseAgent,
    LlmAgent,
    LongRunningFunctionTool,
    Plugin,
    RunConfig,
    Runner,
    RunStatus,
    SequentialAgent,
)
from intermission.testing import calls
from intermission_storage import LmdbEventLog
from paused_apps import (
    Effects,
    Elsewhere,
    Forgetful,
    agent,
    app_named,
    assert_one_of_each,
    played,
    resumable,
)


@contextmanager
def opened(path: Path, app: str | BaseAgent, effects: Path, **options: Any) -> Generator[Runner]:
    """A runner of an app that is made anew, on a log that is opened anew."""
    made = app_named(app, Effects(effects)) if isinstance(app, str) else resumable(app)
    with LmdbEventLog(path, sync=False) as log, Runner(made, log=log, **options) as runner:
        yield runner
        assert_one_of_each(log)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a log."""
    return tmp_path / "log.lmdb"


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """The path of what tools did."""
    return tmp_path / "effects"


@pytest.mark.scenario("C5")
def test_after_a_kill_the_branch_that_had_finished_is_not_run_again_and_is_in_what_comes_after_both(
    path: Path, effects: Path
) -> None:
    with Elsewhere(path, effects, "branches") as child:
        assert child.run()["status"] == "paused"
        child.kill()
    assert Effects(effects).all == ["look"]
    with opened(path, "branches", effects) as runner:
        (call,) = runner.pending(**KEY)
        app = runner._host.app  # pyright: ignore[reportPrivateUsage]  # made by `opened`
        run = runner.resume(**KEY, answers=[call.approve()])
        finals = [event.text for event in played(run) if event.text]
        assert run.status is RunStatus.COMPLETED
    assert finals == ["payer is done", "last is done"]
    assert Effects(effects).all == ["look", "pay7"]
    models = {name: model_of(app.root_agent, name) for name in ("looker", "last")}
    assert models["looker"].requests == []
    (merged,) = models["last"].requests
    said = " ".join(content.text for content in merged.contents)
    assert "looker is done" in said
    assert "payer is done" in said


def model_of(root: BaseAgent, name: str) -> Forgetful:
    """The model of an agent of a tree."""
    found = root.find_agent(name)
    assert isinstance(found, LlmAgent)
    assert isinstance(found.model, Forgetful)
    return found.model


@pytest.mark.scenario("C10")
@pytest.mark.parametrize("app", ["two", "branches"])
def test_after_a_restart_what_waits_and_what_a_viewer_sees_equal_the_originals(
    path: Path, effects: Path, app: str
) -> None:
    with opened(path, app, effects) as runner:
        run = runner.run(**KEY, message="go")
        shown = played(run)
        waiting = runner.pending(**KEY)
        assert sorted(call.id for call in run.result().pending) == sorted(call.id for call in waiting)
        stored = runner.sessions.events(**KEY)
    with Elsewhere(path, effects, app) as child:
        assert child.pending() == waiting
    with opened(path, app, effects) as runner:
        assert runner.pending(**KEY) == waiting
        viewer = runner.attach(**KEY)
        seen = list(viewer)
        assert seen == stored
        assert seen[1:] == shown
        assert viewer.status is RunStatus.PAUSED
        assert list(viewer.result().pending) == waiting
        asked = {one.id: one for event in seen for one in event.function_calls}
        for call in waiting:
            assert asked[call.function_call_id].name == call.tool == "pay"
            assert asked[call.function_call_id].args == call.arguments
            assert call.id in {id for event in seen for id in event.long_running_tool_ids}


def order(n: int) -> None:
    """Begin what others end."""


def other(n: int) -> None:
    """Something else."""


def third(n: int) -> None:
    """One more."""


def tree(
    *, leaf: str = "asker", tools: tuple[Any, ...] = (order, other), names: str = "abc", more: str = ""
) -> BaseAgent:
    """A sequence of agents of which the second waits, in a sub-sequence."""
    made = {name: agent(name) for name in names}
    asker = agent(leaf, calls(("order", {"n": 1})), tools=[LongRunningFunctionTool(one) for one in tools])
    inner = SequentialAgent("inner", sub_agents=[asker, *(agent(name) for name in more)])
    return SequentialAgent("root", sub_agents=[made[names[0]], inner, *(made[name] for name in names[1:])])


def assert_takes_a_new_run(runner: Runner) -> None:
    """Assert that a new run pauses, and that it completes when it is answered."""
    run = runner.run(**KEY, message="anew")
    played(run)
    (mine,) = run.result().pending
    run = runner.resume(**KEY, answers=[mine.reply({"v": 2})])
    played(run)
    assert run.status is RunStatus.COMPLETED


# What has changed, and what the error names.
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "renamed": ({"leaf": "advisor"}, "no sub-agent 'asker'"),
    "tool removed": ({"tools": (order,)}, "no tool 'other'"),
    "reordered": ({"names": "acb"}, "sub-agents of 'root' stand in another order"),
}


@pytest.mark.scenario("C16")
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("by_id", [False, True])
def test_an_app_that_lacks_what_a_paused_run_had_says_what_is_missing_and_takes_a_new_run(
    path: Path, effects: Path, change: str, by_id: bool
) -> None:
    changed, named = CHANGES[change]
    with opened(path, tree(), effects) as runner:
        paused = runner.run(**KEY, message="go")
        played(paused)
        (call,) = runner.pending(**KEY)
    with opened(path, tree(**changed), effects) as runner:
        before = runner.sessions.events(**KEY)
        id = paused.invocation_id if by_id else None
        with pytest.raises(AgentTreeChangedError, match=named):
            runner.resume(**KEY, answers=[call.reply({"v": 1})], invocation_id=id).start()
        assert runner.sessions.events(**KEY) == before
        assert runner.pending(**KEY) == [call]
        assert_takes_a_new_run(runner)
        assert runner.pending(**KEY) == [call]
    with opened(path, tree(), effects) as runner:  # the old app, put back
        run = runner.resume(**KEY, answers=[call.reply({"v": 1})])
        texts = [event.text for event in played(run) if event.text]
        assert texts == ["asker is done", "b is done", "c is done"]
        assert run.status is RunStatus.COMPLETED


@pytest.mark.scenario("C16")
def test_an_app_that_has_more_than_it_had_goes_on_and_takes_new_runs(path: Path, effects: Path) -> None:
    with opened(path, tree(), effects) as runner:
        played(runner.run(**KEY, message="go"))
        (call,) = runner.pending(**KEY)
    with opened(path, tree(names="abcd", more="e", tools=(order, other, third)), effects) as runner:
        run = runner.resume(**KEY, answers=[call.reply({"v": 1})])
        texts = [event.text for event in played(run) if event.text]
        assert run.status is RunStatus.COMPLETED
        assert_takes_a_new_run(runner)
    assert texts == ["asker is done", "e is done", "b is done", "c is done", "d is done"]


class Counting(Plugin):
    """A plugin that sees events, as an app may have got since."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.seen = 0

    def on_event_callback(self, **_: Any) -> None:
        """See `Plugin`."""
        self.seen += 1


@pytest.mark.scenario("C21")
@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_counts_in_a_new_process_with_a_new_app_subscriber_and_configuration(
    path: Path, effects: Path, approved: bool
) -> None:
    with Elsewhere(path, effects, "approval") as child:
        assert child.run()["status"] == "paused"
    plugin, seen, over = Counting(), list[Any](), list[Any]()
    app = app_named("approval", Effects(effects))
    app = resumable(app.root_agent, plugins=[plugin])
    config = RunConfig(streaming=True, max_llm_calls=9, timeout=60)
    with LmdbEventLog(path, sync=False) as log, Runner(app, log=log, config=config) as runner:
        (call,) = runner.pending(**KEY)
        answer = call.approve(answered_by="ann") if approved else call.reject("no", answered_by="ann")
        run = runner.resume(**KEY, answers=[answer])
        run.subscribe(seen.append, on_finally=over.append)
        assert run.result(60).status is RunStatus.COMPLETED
        assert run.wait_terminated(60)
        (record,) = [record for record in records(log) if record.kind == "answer"]
        assert_one_of_each(log)
    assert record.data["answeredBy"] == "ann"
    assert Effects(effects).all == (["pay7"] if approved else [])
    assert [event.text for event in seen if event.is_final and event.text] == ["payer is done"]
    assert plugin.seen > 0
    assert [result.status for result in over] == [RunStatus.COMPLETED]


@pytest.mark.scenario("C19")
def test_an_approval_that_is_delivered_again_after_a_restart_does_nothing(path: Path, effects: Path) -> None:
    with Elsewhere(path, effects, "approval") as child:
        child.run()
        answers = {call.id: {"confirmed": True} for call in child.pending()}
        assert child.answer(answers)["status"] == "completed"
        child.kill()
    with opened(path, "approval", effects) as runner:
        before = runner.sessions.events(**KEY)
        (asked,) = [call for event in before for call in event.function_calls if call.id in answers]
        for run in (
            runner.resume(**KEY, answers=answers),
            runner.resume(**KEY, answers={asked.id: {"confirmed": False}}),
        ):
            assert played(run) == []
            assert run.status is RunStatus.COMPLETED
        assert runner.sessions.events(**KEY) == before
    assert Effects(effects).all == ["pay7"]
