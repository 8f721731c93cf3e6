"""A session has one owner: one that lives keeps it, one that is dead loses it, a frozen one if it must."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY, records
from children import Child
from failpoints import Diary
from intermission import (
    App,
    CancelOutcome,
    LlmAgent,
    ResumabilityConfig,
    Runner,
    RunResult,
    RunStatus,
    SessionBusyError,
)
from intermission.testing import Gate, ScriptedModel
from intermission_storage import EventLog, Kind, LmdbEventLog, verify
from left import left
from nursery import KILLED, Nursery
from tree import ROOT

CHILDREN = ROOT / "tests/recovery/children"


class Here:
    """This process's part: a runner of the same app, and which tools it has run."""

    def __init__(self, path: Path) -> None:
        self.ran: list[str] = []
        self.gate = Gate()
        self.gate.open()
        agent = LlmAgent("agent", ScriptedModel(default="done here"), tools=[self.first, self.second])
        app = App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))
        self.runner = Runner(app, log=path)

    def first(self) -> str:
        """Take a note of it."""
        self.ran.append("first")
        return "first here"

    def second(self) -> str:
        """Take a note of it."""
        self.ran.append("second")
        self.gate.wait()
        return "of who came after"

    @property
    def log(self) -> EventLog:
        """The runner's; another one would be another owner."""
        return self.runner._host.log  # pyright: ignore[reportPrivateUsage] - see above


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Child]:
    """Give a process that has a run under way, in its second tool."""
    with Child(CHILDREN / "owner.py", tmp_path / "log") as child:
        assert child.hear() == "in tool"
        yield child


@pytest.fixture
def here(owner: Child, tmp_path: Path) -> Iterator[Here]:
    """Give a runner beside it."""
    made = Here(tmp_path / "log")
    with made.runner:
        yield made


def invocation(here: Here) -> str:
    """Return the id of the only run."""
    (record,) = here.runner.sessions.runs(**KEY)
    return record.invocation_id


def busy(here: Here, owner: Child) -> None:
    """Assert that everything that would need the session is refused, and names its owner."""
    runner = here.runner
    for ask in (
        lambda: runner.resume(**KEY, invocation_id=invocation(here)).start(),
        lambda: runner.run(**KEY, message="hi").start(),
        lambda: runner.cancel(**KEY),
        lambda: runner.sessions.set_state(**KEY, delta={"a": 1}),
        lambda: runner.sessions.delete(**KEY),
    ):
        with pytest.raises(SessionBusyError) as refused:
            ask()
        assert refused.value.owner.pid == owner.pid
        assert str(owner.pid) in str(refused.value)
    assert left(runner) == []


@pytest.mark.scenario("C13")
def test_an_owner_that_lives_is_named_and_loses_the_session_as_soon_as_it_is_dead(
    owner: Child, here: Here
) -> None:
    busy(here, owner)
    owner.kill()
    run = here.runner.resume(**KEY, invocation_id=invocation(here))
    assert run.answer(60) == "done here"
    assert_whole(here, run.result())


@pytest.mark.scenario("C13")
@pytest.mark.parametrize("at_work", [False, True], ids=["when all is over", "while its successor is at work"])
def test_an_owner_that_hangs_loses_it_on_demand_and_what_it_commits_then_is_refused(
    owner: Child, here: Here, at_work: bool
) -> None:
    owner.signal(signal.SIGSTOP)
    busy(here, owner)
    assert left(here.runner, take_over=True) == ["s"]
    if at_work:
        here.gate = Gate()
    (run,) = here.runner.recover(take_over=True)
    run.start()
    if at_work:
        here.gate.arrived()
    else:
        run.result(60)
    stream = here.log.streams()[0]
    before = here.log.head(stream), records(here.log)
    owner.signal(signal.SIGCONT)
    assert owner.ask("go on") == ["failed", "StaleClaimError"]
    owner.end()  # it has closed its runner, which releases what it has
    assert (here.log.head(stream), records(here.log)) == before
    assert (before[0].claim is not None) == at_work
    here.gate.open()
    assert (run.result(60).status, run.result().text) == (RunStatus.COMPLETED, "done here")
    assert_whole(here, run.result())
    assert here.runner.run(**KEY, message="hi").answer(60) == "done here"


def assert_whole(here: Here, result: RunResult) -> None:
    """Assert that the call in hand was made once here, the finished one never, and that the log is whole."""
    assert here.ran == ["second"]
    (event,) = (event for event in result.events if event.function_responses)
    assert [dict(one.response) for one in event.function_responses] == [
        {"result": "first"},
        {"result": "of who came after"},
    ]
    everything = records(here.log)
    assert [record.seq for record in everything] == list(range(1, len(everything) + 1))
    assert {record.data["invocationId"] for record in everything[1:]} == {result.invocation_id}
    assert verify(here.log).problems == ()


def test_a_frozen_owners_run_is_ended_by_force_and_stays_so(owner: Child, here: Here) -> None:
    owner.signal(signal.SIGSTOP)
    receipt = here.runner.cancel(**KEY, reason="it hangs", take_over=True)
    assert (receipt.outcome, receipt.durable) == (CancelOutcome.ACCEPTED, True)
    owner.signal(signal.SIGCONT)
    assert owner.ask("go on") == ["failed", "StaleClaimError"]
    owner.end()
    (record,) = here.runner.sessions.runs(**KEY)
    assert (record.status, record.reason) == (RunStatus.CANCELLED, "it hangs")
    assert len(record.open_calls) == 1
    assert left(here.runner) == []
    assert here.runner.run(**KEY, message="hi").answer(60) == "done here"


def test_the_run_of_another_process_is_watched_until_it_ends_or_its_process_dies(
    owner: Child, here: Here
) -> None:
    viewer = here.runner.attach(**KEY)
    seen = iter(viewer)
    assert next(seen).text == "go"
    assert [call.name for call in next(seen).function_calls] == ["first", "second"]
    with pytest.raises(SessionBusyError):
        viewer.cancel()
    owner.signal(signal.SIGSTOP)
    busy(here, owner)
    owner.signal(signal.SIGCONT)  # nobody has taken it over meanwhile, so it goes on
    owner.tell("go on")
    assert next(seen).function_responses[1].response == {"result": "of the owner"}
    assert [event.text for event in seen if event.content] == ["done by the owner"]
    assert viewer.result(60).status is RunStatus.COMPLETED
    assert owner.hear() == ["completed", "NoneType"]
    owner.end()


def test_who_watches_a_run_whose_process_dies_is_told_so(owner: Child, here: Here) -> None:
    viewer = here.runner.attach(**KEY)
    owner.kill()
    assert [bool(event.content) for event in viewer] == [True, True]
    assert viewer.result(60).status is RunStatus.INTERRUPTED
    assert left(here.runner) == ["s"]


def test_two_processes_that_recover_at_once_go_on_with_each_run_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    sessions = 20
    crowd = [f"after the effect of tool_1 #{number + 1}" for number in range(sessions)]
    assert nursery.live("tools", tmp_path, crowd=crowd, plenty=sessions) == KILLED
    script = CHILDREN / "recovering.py"
    with Child(script, tmp_path) as one, Child(script, tmp_path) as other:
        both = (one, other)
        assert [child.hear() for child in both] == ["ready", "ready"]
        for child in both:
            child.tell("go")
        said: list[Any] = [child.hear() for child in both]
        for child in both:
            child.end()
    assert sorted(said[0][0] + said[1][0]) == sorted(f"s{number or ''}" for number in range(sessions))
    assert [failed for _, failed in said] == [0, 0]
    effects = Diary(tmp_path).read("effects")
    assert sorted(line[0] for line in effects) == sorted(
        ["tool_0"] * sessions + ["tool_1"] * 2 * sessions + ["tool_2"] * sessions
    )
    with LmdbEventLog(tmp_path / "log") as log:
        assert verify(log).problems == ()
        for number in range(sessions):
            kinds = [record.kind for record in records(log, session_id=f"s{number or ''}")]
            assert (kinds.count(Kind.RUN_STARTED), kinds.count(Kind.RUN_ENDED)) == (2, 1)
