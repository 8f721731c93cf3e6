"""Tools with `isolation="process"` that fork, close what is not theirs, or say far too much."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import odd_tools
import plain_tools
import process_tools
import tree
from apps import KEY, app_with
from intermission import CancelScope, FunctionTool, RunConfig, Runner, ToolProcessError, ToolRaisedError
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from pids import has_ended, until_ended, written
from turns import PATIENCE, context, responses


def called(func: Callable[..., Any], **args: Any) -> Any:
    """What a call in a process answers, of no run."""
    with CancelScope(timeout=PATIENCE) as scope:
        return FunctionTool(func, isolation="process").call(args, context(cancellation=scope))


def answers(*made: tuple[Callable[..., Any], dict[str, Any]]) -> list[Any]:
    """What calls of a run, one after another, are answered."""
    model = ScriptedModel(*(calls((func.__name__, args)) for func, args in made), "done")
    tools = [FunctionTool(func, isolation="process") for func in dict.fromkeys(func for func, _ in made)]
    with Runner(app_with(model, *tools), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.answer(PATIENCE)
        return [one.response for event in run.result().events for one in event.function_responses]


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("raises", 1), ("exits", 3)])
def test_a_copy_that_a_tool_forks_answers_nothing_and_ends_as_a_program_does(how: str, code: int) -> None:
    told = answers((odd_tools.fork, {"how": how}), (plain_tools.add, {"a": 1}))
    assert told == [{"result": ["the tool", code]}, {"result": 2}]


def test_a_process_that_a_tool_forks_is_ended_by_a_signal_as_anywhere() -> None:
    assert called(odd_tools.end_a_fork) == {"result": -signal.SIGTERM}


def test_a_tool_that_closes_all_descriptors_has_died_and_holds_nobody() -> None:
    with pytest.raises(ToolProcessError, match="ended with exit code 1 before it had answered") as raised:
        called(odd_tools.close_all, count=64)
    assert raised.value.begun


def test_the_answer_is_not_written_into_a_file_that_has_got_its_descriptors_number(tmp_path: Path) -> None:
    with pytest.raises(ToolProcessError, match="before it had answered"):
        called(odd_tools.close_and_open, path=str(tmp_path / "file"), count=64)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""] * 5


def test_of_an_error_with_a_very_long_text_the_beginning_and_the_end_are_kept() -> None:
    with pytest.raises(ToolRaisedError) as raised:
        called(odd_tools.fail_at_length, size=70 * 2**20)
    assert re.fullmatch(r"it began x+ \[…\] x+ and ended", raised.value.message)
    assert len(raised.value.message) + len(raised.value.traceback) < 2**18


def test_a_tool_that_announces_more_than_it_may_say_is_ended() -> None:
    with pytest.raises(ToolProcessError, match="before it had answered"):
        called(odd_tools.scribble)


def test_a_process_with_an_alarm_serves_no_other_call() -> None:
    first, second = answers((odd_tools.set_alarm, {}), (odd_tools.set_alarm, {}))
    assert first != second


def test_what_a_decorator_has_made_is_called_with_it() -> None:
    assert called(odd_tools.doubled) == {"result": 2}
    assert called(odd_tools.number) == {"result": 1}


def test_a_function_of_a_script_that_is_given_by_standard_input_is_refused() -> None:
    script = """
from intermission import FunctionTool
def f(): ...
FunctionTool(f, isolation="process")
"""
    command = [sys.executable, "-"]
    finished = subprocess.run(
        command,
        input=script.encode(),
        env=tree.environment(),
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert b"TypeError: tool 'f' cannot have isolation='process'" in finished.stderr
    assert b"put the function into a module" in finished.stderr


@pytest.mark.parametrize("func", [odd_tools.tripled, odd_tools.bare])
def test_a_function_is_refused_if_its_name_is_that_of_what_it_wraps_or_is_wrapped_by(func: Any) -> None:
    with pytest.raises(TypeError, match="is something else, which its child would find instead"):
        FunctionTool(func, isolation="process")


def test_a_function_whose_name_was_not_there_yet_is_refused_when_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(odd_tools.__spec__, "_initializing", True, raising=False)
        built = FunctionTool(odd_tools.tripled, isolation="process")
    with pytest.raises(ToolProcessError, match="give the function a name of its own") as raised:
        built.call({}, context())
    assert not raised.value.begun


def test_a_signal_that_is_blocked_here_interrupts_a_tool_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    model = ScriptedModel(calls(("sleep", {"path": str(path)})), "done")
    tool = FunctionTool(process_tools.sleep, isolation="process")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # threads inherit it
    try:
        with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hi", config=RunConfig(grace=PATIENCE)).start()
            written(path)
            run.cancel()
            assert run.wait_terminated(PATIENCE / 2)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert Path(f"{path}.cleaned").exists()


def test_without_an_interpreter_nothing_is_begun_and_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(ToolProcessError, match="the system does not start it") as raised:
        called(plain_tools.add, a=1)
    assert not raised.value.begun


def test_a_copy_of_the_program_ends_none_of_its_idle_processes() -> None:
    model = ScriptedModel(*(reply for _ in range(2) for reply in (calls(("ambient", {})), "done")))
    tool = FunctionTool(plain_tools.ambient, isolation="process")
    with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").answer(PATIENCE)
        (first,) = responses(model)
        copy = os.fork()
        if copy == 0:
            code = 1
            try:
                runner.close()
                code = 0
            finally:
                os._exit(code)
        os.waitpid(copy, 0)
        assert not has_ended(first["pid"])
        runner.run(**KEY, message="hi").answer(PATIENCE)
        assert responses(model)[-1]["pid"] == first["pid"]
    until_ended(first["pid"])
