"""What `recover`, `recover_all` and `resume` do with what dead processes have left, and leave alone."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, records
from failpoints import Diary, Points
from intermission import (
    App,
    CancelSource,
    FunctionTool,
    LlmAgent,
    LlmCallsLimitExceededError,
    NotResumableError,
    RecoveryLimitError,
    RecoveryReport,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunStatus,
    ToolExecution,
)
from intermission.models import Model
from intermission.sessions.records import OPEN_RUNS
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import Kind, MemoryEventLog, Record, verify
from left import left, recovered, status_of
from nursery import KILLED, Nursery
from planned import planned_app, times
from scale import rounds

IN_TOOL = "after the effect of tool_1 #1"


def effects(folder: Path) -> dict[str, int]:
    """Return how often each tool had its effect."""
    return Counter(line[0] for line in Diary(folder).read("effects"))


def runner_of(folder: Path, count: int = 3, *, config: RunConfig | None = None, **options: Any) -> Runner:
    """Return a runner of the planned app on what a process has left in a folder."""
    diary = Diary(folder)
    return Runner(planned_app(diary, Points(diary), count, **options), log=folder / "log", config=config)


def resumable(model: ScriptedModel, *tools: Any) -> App:
    """Return an app whose runs can be gone on with."""
    agent = LlmAgent("agent", model, tools=tools)
    return App("app", agent, resumability_config=ResumabilityConfig(is_resumable=True))


@pytest.mark.scenario("C4")
def test_a_run_whose_process_died_in_its_second_tool_is_resumed_by_its_id_alone(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    with runner_of(tmp_path) as runner:
        (record,) = runner.sessions.runs(**KEY)
        run = runner.resume(**KEY, invocation_id=record.invocation_id)
        events = list(run)
        assert {event.invocation_id for event in events} == {record.invocation_id}
        assert events == run.result().events[2:]  # the message and the calls are older
        assert run.answer() == "done"
    assert effects(tmp_path) == {"tool_0": 1, "tool_1": 2, "tool_2": 1}


@pytest.mark.scenario("C1", "C12")
@pytest.mark.parametrize("count", [3, 16])
def test_of_calls_at_once_those_whose_end_is_committed_are_not_made_again(
    nursery: Nursery, tmp_path: Path, count: int
) -> None:
    """What dies is a process in which all calls return at the same time."""
    for number in range(1, count, rounds(max(1, count // 4), 1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        die = f"after the commit of end of a call, finished #{number}"
        code = nursery.live("tools", folder, die=die, count=count, mode="PARALLEL_SUBSCRIBE")
        assert code == KILLED
        diary = Diary(folder)
        config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
        with runner_of(folder, count, config=config) as runner:
            log = runner._host.log  # pyright: ignore[reportPrivateUsage] - another one would be another owner
            found = [one.data for one in records(log) if one.kind == Kind.CALL_FINISHED]
            ended = {one["callId"] for one in found}
            assert len(ended) >= number
            before = {line[1] for line in diary.read("effects")}
            (result,) = recovered(runner)
            assert result.status is RunStatus.COMPLETED
            assert verify(log).problems == ()
            (event,) = (event for event in result.events if event.function_responses)
        responses = event.function_responses
        assert [one.name for one in responses] == [f"tool_{place}" for place in range(count)]
        for one in responses:
            again = one.id in before and one.id not in ended
            assert times(diary, one.id) == 1 + again == one.response["times"]
        told = [said for _, said in diary.read("asked") if said]
        assert told == [[dict(one.response) for one in responses]]


def test_model_calls_count_over_a_death(nursery: Nursery, tmp_path: Path) -> None:
    for limit, error in ((2, None), (1, LlmCallsLimitExceededError)):
        folder = tmp_path / str(limit)
        folder.mkdir()
        assert nursery.live("tools", folder, die=IN_TOOL) == KILLED
        with runner_of(folder, config=RunConfig(max_llm_calls=limit)) as runner:
            (result,) = recovered(runner)
            assert type(result.error) is (error or type(None))
        assert effects(folder) == {"tool_0": 1, "tool_1": 2, "tool_2": 1}


def test_a_run_whose_process_dies_each_time_is_ended_when_that_was_often_enough(
    nursery: Nursery, tmp_path: Path
) -> None:
    for _ in range(3):  # at first, and twice when it was gone on with
        assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    with runner_of(tmp_path) as runner:
        (run,) = runner.recover(max_attempts=2)
        with pytest.raises(RecoveryLimitError, match="2 times") as raised:
            run.answer(60)
        assert (raised.value.invocation_id, raised.value.attempts) == (run.invocation_id, 2)
        assert status_of(runner) == ["failed"]
        assert left(runner) == []
        assert effects(tmp_path)["tool_1"] == 3
        assert run.invocation_id is not None
        assert runner.resume(**KEY, invocation_id=run.invocation_id).answer(60) == "done"
        assert status_of(runner) == ["completed"]
    with pytest.raises(ValueError, match="max_attempts"), runner_of(tmp_path) as runner:
        runner.recover(max_attempts=0)


def test_a_release_is_no_attempt_and_a_purpose_begins_to_count_anew(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    log = tmp_path / "log"
    for _ in range(3):
        gate = Gate()
        runner = Runner(resumable(ScriptedModel(text(gate, "late")), *_named(tmp_path)), log=log)
        (run,) = runner.recover(max_attempts=1)
        run.start()
        gate.arrived()
        runner.close(grace=0)
        assert run.status is RunStatus.INTERRUPTED
        gate.open()
    with runner_of(tmp_path) as runner:
        assert recovered(runner, max_attempts=1)[0].status is RunStatus.COMPLETED


def _named(folder: Path) -> list[Any]:
    diary = Diary(folder)
    agent = planned_app(diary, Points(diary)).root_agent
    assert isinstance(agent, LlmAgent)
    return list(agent.tools.values())


def test_in_an_app_that_is_not_resumable_recover_only_ends_what_was_left(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL, resumable=False) == KILLED
    with runner_of(tmp_path, resumable=False) as runner:
        report = runner.recover_all()
        assert [type(one.result.error) for one in report.failed] == [NotResumableError]
        assert (report.continued, report.elsewhere) == ((), ())
        assert status_of(runner) == ["failed"]
        with pytest.raises(NotResumableError):
            runner.resume(**KEY, invocation_id="e-1")
        assert runner.run(**KEY, message="go").answer(60) == "done"
    assert effects(tmp_path) == {"tool_0": 2, "tool_1": 2, "tool_2": 1}


def test_a_run_from_before_its_app_was_resumable_is_gone_on_with_if_that_has_one_agent() -> None:
    for others in (0, 1):
        log, gate = MemoryEventLog(), Gate()
        model = ScriptedModel(text(gate, "late"), default="done")

        def app(is_resumable: bool, model: Model = model, others: int = others) -> App:
            below = [LlmAgent(f"other_{number}", ScriptedModel()) for number in range(others)]
            agent = LlmAgent("agent", model, sub_agents=below)
            return App("app", agent, resumability_config=ResumabilityConfig(is_resumable=is_resumable))

        runner = Runner(app(False), log=log)
        run = runner.run(**KEY, message="go").start()
        gate.arrived()
        runner.close(grace=0, runs="release")
        gate.open()
        assert run.invocation_id is not None
        with Runner(app(True), log=log) as runner:
            if others:
                with pytest.raises(NotResumableError, match=f"{run.invocation_id} was begun when"):
                    runner.resume(**KEY, invocation_id=run.invocation_id).start()
            report = runner.recover_all()
            assert (len(report.continued), len(report.failed)) == (1 - others, others)
            assert status_of(runner) == [("failed" if others else "completed")]


@pytest.mark.scenario("C26")
def test_a_new_message_leaves_the_older_run_to_who_asks_for_it_by_its_id(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    with runner_of(tmp_path) as runner:
        older = runner.recover()
        assert runner.run(**KEY, message="again").answer(60) == "done"
        assert [run.result(60).status for run in older] == [RunStatus.ELSEWHERE]
        assert [list(run) for run in older] == [[]]
        assert left(runner) == []
        assert status_of(runner) == [None, "completed"]
        first, second = runner.sessions.runs(**KEY)
        assert first.invocation_id != second.invocation_id
        assert runner.resume(**KEY, invocation_id=first.invocation_id).answer(60) == "done"
        assert status_of(runner) == ["completed", "completed"]
    assert effects(tmp_path) == {"tool_0": 2, "tool_1": 3, "tool_2": 2}


def test_a_run_that_is_gone_on_with_on_purpose_leaves_what_was_left_to_recover() -> None:
    """Nobody has sent a message behind it, so its caller still waits for an answer."""
    log, gate = MemoryEventLog(), Gate()
    tool = FunctionTool(lambda: "paid", name="pay", require_confirmation=True)
    model = ScriptedModel(calls(("pay", {})), text(gate, "late"), default="done")
    runner = Runner(resumable(model, tool), log=log)
    (call,) = runner.run(**KEY, message="Pay.").result(60).pending
    runner.run(**KEY, message="What time is it?").start()
    gate.arrived()
    runner.close(grace=0)
    gate.open()
    with Runner(resumable(model, tool), log=log) as runner:
        waiting = runner.recover()  # a list from before counts as one from behind
        assert runner.resume(**KEY, answers=[call.approve()]).answer(60) == "done"
        assert left(runner) == ["s"]
        assert [run.result(60).status for run in waiting] == [RunStatus.COMPLETED]
        assert status_of(runner) == ["completed", "completed"]


class Beginnings(MemoryEventLog):
    """Keeps how many entries of open runs each beginning of a run writes."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[int] = []

    def submit(self, stream: str, records: Sequence[Record], done: Any, **options: Any) -> None:
        """See `EventLog.submit`."""
        if options.get("claim"):
            self.entries.append(sum(entry.index == OPEN_RUNS for entry in options["put"]))
        super().submit(stream, records, done, **options)


def test_of_runs_that_were_left_one_after_another_the_last_is_found_and_each_leaves_one_alone() -> None:
    log, found = Beginnings(), list[int]()
    for _ in range(4):
        gate = Gate()
        runner = Runner(resumable(ScriptedModel(text(gate, "late"))), log=log)
        runner.run(**KEY, message="hi").start()
        gate.arrived()
        runner.close(0)
        gate.open()
        with Runner(resumable(ScriptedModel()), log=log) as other:
            found.append(len(left(other)))
            assert {*status_of(other)} == {RunStatus.INTERRUPTED}
    assert found == [1, 1, 1, 1]
    assert log.entries == [1, 2, 2, 2]  # a run's own, and that of the one before


def test_a_run_that_was_left_alone_is_still_ended_by_its_key(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    with runner_of(tmp_path) as runner:
        runner.run(**KEY, message="again").answer(60)
        first, _ = runner.sessions.runs(**KEY)
        assert runner.cancel(**KEY, invocation_id=first.invocation_id).durable
        assert status_of(runner) == ["cancelled", "completed"]


@pytest.mark.scenario("C26", "D6")
@pytest.mark.parametrize("end", ["cancelled", "failed", "expired"])
def test_what_was_cancelled_has_failed_or_expired_is_gone_on_with_on_purpose_and_never_by_recover(
    end: str, tmp_path: Path
) -> None:
    gate = Gate()
    done: list[str] = []

    def work() -> str:
        done.append("work")
        return "worked"

    late = text(gate, "late")
    model = ScriptedModel(calls(("work", {})), late, default="done")
    config = (
        RunConfig(timeout=0.2) if end == "expired" else RunConfig(max_llm_calls=1 if end == "failed" else 0)
    )
    with Runner(resumable(model, work), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        if end != "failed":
            gate.arrived()
        if end == "cancelled":
            run.cancel()
        assert run.result(60).status == end
        gate.open()
        assert left(runner) == []
        assert run.invocation_id is not None
        going_on = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert going_on.result(60).status is RunStatus.COMPLETED
        assert status_of(runner) == ["completed"]
        nothing = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert (list(nothing), nothing.result().status) == ([], RunStatus.COMPLETED)
    assert done == ["work"]


@pytest.mark.scenario("C25")
def test_a_cancel_that_is_durable_wins_over_recovery(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("stubborn", tmp_path) == KILLED
    with runner_of(tmp_path) as runner:
        asked = Diary(tmp_path).read("asked")
        assert left(runner) == []
        assert runner.recover_all().continued == ()
        (record,) = runner.sessions.runs(**KEY)
        assert (record.status, record.source) == (RunStatus.CANCELLED, CancelSource.CALLER)
        assert record.open_calls != ()
        assert Diary(tmp_path).read("asked") == asked


@pytest.mark.parametrize("who", ["two runners", "two lists"])
def test_what_two_recover_at_once_is_gone_on_with_once(nursery: Nursery, tmp_path: Path, who: str) -> None:
    sessions = 12
    crowd = [f"after the effect of tool_1 #{number + 1}" for number in range(sessions)]
    assert nursery.live("tools", tmp_path, crowd=crowd, plenty=sessions) == KILLED
    with runner_of(tmp_path) as one, runner_of(tmp_path) as other:
        if who == "two runners":
            reports: list[RecoveryReport] = []

            def recover(runner: Runner) -> None:
                reports.append(runner.recover_all())

            threads = [threading.Thread(target=recover, args=[each]) for each in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            continued = [each.session_id for report in reports for each in report.continued]
            assert not any(report.failed for report in reports)
        else:
            runs = [*one.recover(), *one.recover()]
            results = [run.start() for run in runs]
            continued = [run.session_id for run in results if run.result(60).status is RunStatus.COMPLETED]
        assert sorted(continued) == sorted(f"s{number or ''}" for number in range(sessions))
    assert effects(tmp_path) == {"tool_0": sessions, "tool_1": 2 * sessions, "tool_2": sessions}


def test_what_is_left_comes_oldest_first_and_by_user_and_session(nursery: Nursery, tmp_path: Path) -> None:
    crowd = [f"before the effect of tool_0 #{number + 1}" for number in range(5)]
    assert nursery.live("tools", tmp_path, crowd=crowd, plenty=5) == KILLED
    with runner_of(tmp_path) as runner:
        started = {
            name: runner.sessions.runs(user_id="u", session_id=name)[0].started for name in left(runner)
        }
        assert left(runner) == sorted(started, key=lambda name: started[name])
        assert len(started) == 5
        assert left(runner, session_id="s3") == ["s3"]
        assert left(runner, user_id="nobody") == []
        assert [one.session_id for one in runner.recover_all(session_id="s3").continued] == ["s3"]
        assert "s3" not in left(runner, user_id="u")


def test_what_is_under_way_or_queued_here_is_not_recovered(tmp_path: Path) -> None:
    gate = Gate()
    model = ScriptedModel(text(gate, "one"), default="two")
    with Runner(resumable(model), log=tmp_path / "log") as runner:
        runs = [runner.run(**KEY, message="hi").start() for _ in range(2)]
        gate.arrived()
        assert left(runner) == left(runner, take_over=True) == []
        gate.open()
        assert [run.answer(60) for run in runs] == ["one", "two"]
        assert left(runner) == []


def test_what_was_left_goes_on_behind_what_is_queued_here_unless_that_is_a_new_run(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED
    with runner_of(tmp_path) as runner:
        (run,) = runner.recover()
        fresh = runner.run(**KEY, message="again").start()
        assert run.result(60).status is RunStatus.ELSEWHERE
        assert fresh.answer(60) == "done"


def test_recover_all_is_awaited_beside_other_work(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("tools", tmp_path, die=IN_TOOL) == KILLED

    async def recover() -> RecoveryReport:
        async with runner_of(tmp_path) as runner:
            return await runner.arecover_all()

    report = asyncio.run(recover())
    assert [one.result.status for one in report.continued] == [RunStatus.COMPLETED]
