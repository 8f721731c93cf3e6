"""What becomes of runs when their runner closes, and what may still be done with it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY, Key, app_with, records
from intermission import App, LlmAgent, ResumabilityConfig, Runner, SessionClosedError
from intermission.sessions.records import OPEN_RUNS
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import Kind, LmdbEventLog, LogClosedError, MemoryEventLog, Record
from loops import PATIENCE
from scale import rounds


def resumable(model: ScriptedModel, *tools: Callable[..., Any]) -> App:
    """An app whose runs can be gone on with."""
    agent = LlmAgent("agent", model, tools=tools)
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))


@pytest.mark.parametrize(
    ("make", "options", "status"),
    [
        (app_with, {}, "cancelled"),
        (resumable, {}, "interrupted"),
        (resumable, {"runs": "cancel"}, "cancelled"),
        (app_with, {"runs": "release"}, "interrupted"),
    ],
)
def test_what_is_left_is_released_in_a_resumable_app_and_cancelled_in_another_unless_told_otherwise(
    make: Callable[..., App], options: dict[str, Any], status: str
) -> None:
    gate, log = Gate(), MemoryEventLog()
    runner = Runner(make(ScriptedModel(text(gate, "late"), default="ok")), log=log)
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    runner.close(grace=0, **options)
    assert run.status == status
    end = records(log)[-1]
    assert (end.data["status"], end.data["reason"]) == (status, "shutdown")
    found = [entry.key[-1] for entry in log.index(OPEN_RUNS, (APP,))]
    assert found == ([run.invocation_id] if status == "interrupted" else [])
    assert [log.head(stream).claim for stream in log.streams()] == [None]
    gate.open()


def test_an_app_that_is_resumable_goes_on_with_no_plain_message() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        ResumabilityConfig(is_resumable=True, plain_text_continuation_auto_resume=True)
    assert App(APP, LlmAgent("a", ScriptedModel())).resumability_config == ResumabilityConfig()


def test_a_word_that_is_none_for_the_runs_closes_nothing() -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        for close in (runner.close, runner.close_on_signals):
            with pytest.raises(ValueError, match="'cancel' or 'release'"):
                close(runs="keep")  # type: ignore[arg-type]  # that is what is tried
        assert runner.run(**KEY, message="hi").answer() == "Hello"


@pytest.mark.parametrize("runs", ["cancel", "release"])
def test_fifty_runs_that_do_not_end_have_ends_and_give_up_their_sessions(runs: Any, tmp_path: Path) -> None:
    gate, count = Gate(), 50

    def wait() -> None:
        gate.wait()

    model = ScriptedModel(*[calls(("wait", {})) for _ in range(count)])
    runner = Runner(app_with(model, wait), log=tmp_path / "log")
    keys = [Key(user_id="u", session_id=str(number)) for number in range(count)]
    started = [runner.run(**key, message="hi").start() for key in keys]
    gate.arrived(count)
    runner.close(grace=0.1, runs=runs)
    status = "cancelled" if runs == "cancel" else "interrupted"
    assert [run.status for run in started] == [status] * count
    with LmdbEventLog(tmp_path / "log") as log:
        assert [records(log, **key)[-1].data["status"] for key in keys] == [status] * count
        assert len(log.index(OPEN_RUNS, (APP,))) == (0 if runs == "cancel" else count)
        with Runner(app_with(ScriptedModel(default="ok")), log=log) as after:
            assert {after.run(**key, message="hi").answer() for key in keys} == {"ok"}
    gate.open()


def test_what_comes_after_the_close_is_an_error_and_never_lost(tmp_path: Path) -> None:
    gate, told = Gate(), list[str]()
    done = threading.Event()

    def late() -> None:
        gate.wait()
        for change in (
            lambda: runner.sessions.set_state(**KEY, delta={"a": 1}),
            lambda: runner.run(**KEY, message="late").start(),
            lambda: runner._log.append("a stream", [Record(Kind.EVENT, {})]),  # pyright: ignore[reportPrivateUsage] - its own
        ):
            try:
                change()
            except (SessionClosedError, LogClosedError) as error:
                told.append(type(error).__name__)
        done.set()

    runner = Runner(app_with(ScriptedModel(calls(("late", {}))), late), log=tmp_path / "log")
    runner.run(**KEY, message="hi").start()
    gate.arrived()
    runner.close(grace=0)
    with LmdbEventLog(tmp_path / "log") as log:
        before = records(log)
        gate.open()
        assert done.wait(PATIENCE)
        assert records(log) == before
        assert log.streams() == [f"{APP}/u/s"]
    assert told == ["SessionClosedError", "SessionClosedError", "LogClosedError"]


def test_a_runner_may_be_closed_as_soon_as_it_is_there(tmp_path: Path) -> None:
    for number in range(rounds(20, 300)):
        runner = Runner(app_with(ScriptedModel(default="ok")), log=tmp_path / "log")
        closer = threading.Thread(target=runner.close)
        closer.start()
        if number % 2:
            runner.close()
        closer.join(PATIENCE)
        assert not closer.is_alive()
