import logging
import math
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import tree
from apps import APP, KEY, Key, app_with, kinds, records
from intermission import (
    App,
    Content,
    LlmAgent,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    SessionClosedError,
    SessionNotFoundError,
)
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.services import Services
from intermission.sessions.directory import Directory
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import LmdbEventLog, LogClosedError, MemoryEventLog


def test_leaving_the_log_out_is_an_error_that_offers_both_kinds() -> None:
    with pytest.raises(TypeError, match=r"log='sessions.lmdb'.*MemoryEventLog\(\)"):
        Runner(app_with(ScriptedModel()))


def test_a_log_at_a_path_is_opened_and_closed_by_the_runner(tmp_path: Path) -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=tmp_path / "log") as runner:
        runner.run(**KEY, message="hi").result()
    with pytest.raises(LogClosedError):
        runner.sessions.events(**KEY)
    with LmdbEventLog(tmp_path / "log") as log:
        assert kinds(log) == ["session_created", "run_started", "event", "event", "run_ended"]


def test_a_log_that_is_handed_in_stays_open() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
        runner.run(**KEY, message="hi").result()

    assert len(records(log)) == 5


def test_a_session_is_found_again_by_another_runner_and_goes_on(tmp_path: Path) -> None:
    def where(order: str) -> str:
        return f"{order} is in Utrecht"

    first = ScriptedModel(calls(("where", {"order": "7"})), "In Utrecht.")
    with Runner(app_with(first, where), log=tmp_path / "log") as runner:
        before = runner.run(**KEY, message="Where is 7?").result().events
    second = ScriptedModel("You are welcome.")
    with Runner(app_with(second, where), log=tmp_path / "log") as runner:
        assert runner.sessions.events(**KEY) == before
        runner.run(**KEY, message="Thanks").result()
        assert runner.sessions.events(**KEY)[: len(before)] == before

    said = [content.text for content in second.requests[0].contents]
    assert said == ["Where is 7?", "", "", "In Utrecht.", "Thanks"]
    assert second.requests[0].contents[2].function_responses[0].response == {"result": "7 is in Utrecht"}


def test_events_are_read_after_a_number_and_up_to_a_limit() -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        for word in "ab":
            runner.run(**KEY, message=word).result()
        everything = runner.sessions.events(**KEY)

        assert [event.seq for event in everything] == [3, 4, 7, 8]
        assert runner.sessions.events(**KEY, after=4) == everything[2:]
        assert runner.sessions.events(**KEY, after=3, limit=2) == everything[1:3]
        assert runner.sessions.events(**KEY, after=8) == []


@pytest.mark.parametrize("key", [Key(user_id="u", session_id="t"), Key(user_id="v", session_id="s")])
def test_events_of_a_session_that_is_not_there_are_an_error_that_names_its_key(key: Key) -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result()
        with pytest.raises(
            SessionNotFoundError, match=f"session '{key['session_id']}' of user '{key['user_id']}'"
        ):
            runner.sessions.events(**key)


def test_apps_do_not_see_each_others_sessions() -> None:
    log, agent = MemoryEventLog(), LlmAgent("agent", ScriptedModel(default="ok"))
    with Runner(App("one", agent), log=log) as one, Runner(App("other", agent), log=log) as other:
        one.run(**KEY, message="hi").result()
        with pytest.raises(SessionNotFoundError):
            other.sessions.events(**KEY)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({"user_id": "", "session_id": "s", "message": "hi"}, "user_id"),
        ({"user_id": "u", "session_id": 7, "message": "hi"}, "session_id"),
        ({"user_id": "u", "session_id": "s", "message": None}, "message must be str or Content"),
        ({"user_id": "u", "session_id": "s", "message": b"hi"}, "message must be str or Content, not bytes"),
    ],
)
def test_a_wrong_call_is_refused_at_once_by_the_name_of_what_is_wrong(
    call: dict[str, Any], problem: str
) -> None:
    with (
        Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner,
        pytest.raises((TypeError, ValueError), match=problem),
    ):
        runner.run(**call)


def test_a_closed_runner_takes_no_more_runs_and_stores_nothing_of_them() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
        pass
    run = runner.run(**KEY, message="hi")
    for start in (run.start, run.result, run.answer, lambda: list(run)):
        with pytest.raises(SessionClosedError):
            start()

    assert log.streams() == []


def test_close_lets_a_run_under_way_end_by_itself() -> None:
    gate, log = Gate(), MemoryEventLog()
    runner = Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=log)
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    closer = threading.Thread(target=runner.close, kwargs={"grace": 30})
    closer.start()
    gate.open()
    closer.join(30)

    assert run.answer() == "Hello"
    assert kinds(log)[-1] == "run_ended"


def test_close_refuses_the_runs_that_wait_and_nothing_of_them_is_stored() -> None:
    gate, log = Gate(), MemoryEventLog()
    runner = Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=log)
    run = runner.run(**KEY, message="a").start()
    waiting = runner.run(**KEY, message="b").start()
    gate.arrived()
    closer = threading.Thread(target=runner.close, kwargs={"grace": 30})
    closer.start()
    assert isinstance(waiting.result(30).error, SessionClosedError)
    gate.open()
    closer.join(30)

    assert run.answer() == "Hello"
    assert kinds(log).count("run_started") == 1


def test_close_ends_what_is_left_after_the_grace_time_as_cancelled_and_says_what_still_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, log = Gate(), MemoryEventLog()
    runner = Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=log)
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    with caplog.at_level(logging.WARNING, "intermission"):
        runner.close(grace=0)
    result = run.result()

    assert result.status is RunStatus.CANCELLED
    assert result.reason == "shutdown"
    end = records(log)[-1]
    assert (end.kind, end.data["status"], end.data["reason"]) == ("run_ended", "cancelled", "shutdown")
    assert "go on until they return" in caplog.text
    gate.open()


def test_what_comes_after_a_run_was_ended_is_neither_stored_nor_shown() -> None:
    gate, returned, log = Gate(), threading.Event(), MemoryEventLog()

    def slow() -> str:
        gate.wait()
        returned.set()
        return "late"

    runner = Runner(app_with(ScriptedModel(calls(("slow", {})), "done"), slow), log=log)
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    runner.close(grace=0)
    before = records(log)
    gate.open()
    assert returned.wait(30)
    # The agent's thread ends after its late append was refused; that it is gone is the fixture's to check.

    assert [event.function_calls[0].name for event in run] == ["slow"]
    assert records(log) == before


def test_closing_twice_and_from_two_threads_is_one_close(tmp_path: Path) -> None:
    gate = Gate()
    runner = Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=tmp_path / "log")
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    closers = [threading.Thread(target=runner.close, kwargs={"grace": 30}) for _ in range(2)]
    for closer in closers:
        closer.start()
    gate.open()
    for closer in closers:
        closer.join(30)
    runner.close()

    assert run.answer() == "Hello"


def test_a_process_that_ends_without_close_neither_hangs_nor_loses_what_was_shown(tmp_path: Path) -> None:
    program = f"""
import threading
from intermission import App, LlmAgent, Runner
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text

def look() -> str:
    return "seen"

agent = LlmAgent("agent", ScriptedModel(calls(("look", {{}})), text(Gate())), tools=[look])
runner = Runner(App("app", agent), log={str(tmp_path / "log")!r})
events = iter(runner.run(user_id="u", session_id="s", message="hi"))
print(next(events).seq, next(events).seq)
"""
    finished = tree.run(sys.executable, "-c", program, timeout=60)
    finished.check()

    assert finished.output.split() == ["4", "7"]
    with LmdbEventLog(tmp_path / "log") as log:
        assert [record.seq for record in records(log)] == [1, 2, 3, 4, 5, 6, 7]


def test_the_library_writes_to_no_stream_unless_the_program_listens() -> None:
    program = """
import logging, intermission
logging.getLogger("intermission.sessions").error("nobody asked")
"""
    finished = tree.run(sys.executable, "-c", program)
    finished.check()

    assert finished.output == ""


def test_close_inside_close_is_one_close() -> None:
    log = FaultyLog()
    runner = Runner(app_with(ScriptedModel("Hello")), log=log)
    end = log.hold("run_ended")
    run = runner.run(**KEY, message="hi").start()
    end.arrived()

    def close_again(*_: object) -> None:
        end.open()
        runner.close()

    before = signal.signal(signal.SIGALRM, close_again)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        runner.close(grace=30)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert run.answer() == "Hello"


def started_by(runner: Runner, deliver: Callable[[Lifecycle], None]) -> Run:
    """A run that is handed to its session by `deliver`."""

    class Handed:
        """The runner's directory, but for `deliver`."""

        def deliver(self, run: Lifecycle) -> None:
            deliver(run)

        def cancel(self, run: Lifecycle) -> None:
            directory_of(runner).cancel(run)

    key, services = SessionKey(APP, "u", "s"), services_of(runner)
    return Run(Lifecycle(key, Content.user("hi"), RunConfig(), services, Handed(), lambda after, limit: []))


def services_of(runner: Runner) -> Services:
    """What the runner's runs share; there is no public way to it."""
    return runner._services  # pyright: ignore[reportPrivateUsage] - see above


def directory_of(runner: Runner) -> Directory:
    """What hands runs to sessions; there is no public way to it."""
    return runner._directory  # pyright: ignore[reportPrivateUsage] - see above


def test_a_start_that_ctrl_c_interrupted_can_be_done_again() -> None:
    interrupts = [KeyboardInterrupt()]
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:

        def deliver(run: Lifecycle) -> None:
            if interrupts:
                raise interrupts.pop()
            directory_of(runner).deliver(run)

        run = started_by(runner, deliver)
        with pytest.raises(KeyboardInterrupt):
            run.start()
        assert run.answer(30) == "Hello"


def test_a_run_that_is_handed_over_twice_runs_once() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:

        def deliver(run: Lifecycle) -> None:
            directory_of(runner).deliver(run)
            directory_of(runner).deliver(run)

        assert started_by(runner, deliver).answer(30) == "Hello"

    assert kinds(log).count("run_started") == 1


def test_waiting_for_a_result_is_bounded_even_if_the_start_is_not() -> None:
    log = FaultyLog()
    beginning = log.hold("event")
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(TimeoutError):
            run.result(timeout=0)
        beginning.open()
        assert run.answer() == "Hello"


@pytest.mark.parametrize("seconds", [math.inf, 1e300])
def test_a_time_beyond_what_threads_can_wait_is_as_long_as_it_takes(seconds: float) -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").result(timeout=seconds).text == "Hello"
        runner.close(grace=seconds)


@pytest.mark.parametrize("seconds", [math.nan, -1.0])
def test_a_grace_time_that_is_none_is_refused_and_nothing_is_closed(seconds: float) -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        with pytest.raises(ValueError, match="grace"):
            runner.close(grace=seconds)
        assert runner.run(**KEY, message="hi").answer() == "Hello"


def test_a_negative_limit_of_events_is_refused() -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result()
        with pytest.raises(ValueError, match="limit is -1"):
            runner.sessions.events(**KEY, limit=-1)


def test_a_key_may_be_a_member_of_an_enum_of_texts() -> None:
    class User(StrEnum):
        ADA = "ada"

    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        assert runner.run(user_id=User.ADA, session_id="s", message="hi").answer() == "Hello"
        assert len(runner.sessions.events(user_id="ada", session_id="s")) == 2


def test_a_fork_cannot_use_its_parents_runner_and_is_told_so(tmp_path: Path) -> None:
    program = f"""
import os
from intermission import App, LlmAgent, Runner, SessionClosedError
from intermission.testing import FaultyLog, ScriptedModel

runner = Runner(App("app", LlmAgent("agent", ScriptedModel(default="ok"))), log={str(tmp_path / "log")!r})
print(runner.run(user_id="u", session_id="s", message="a").answer(), flush=True)
child = os.fork()
if child == 0:
    try:
        runner.run(user_id="u", session_id="s", message="b").result(30)
    except SessionClosedError as error:
        print("of which this one is a fork" in str(error), flush=True)
    runner.close()
    os._exit(0)
os.waitpid(child, 0)
print(runner.run(user_id="u", session_id="s", message="c").answer())
runner.close()
"""
    finished = tree.run(sys.executable, "-c", program, timeout=60)
    finished.check()

    assert finished.output.split() == ["ok", "True", "ok"]
