"""Which process serves which call of the tools with `isolation="process"`, and when it ends."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plain_tools
import process_tools
from apps import KEY, app_with
from intermission import FunctionTool, Runner
from intermission.testing import ManualClock, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from pids import has_ended, until_ended, written
from turns import PATIENCE, responses


def runner_of(model: ScriptedModel, func: Callable[..., Any], **options: Any) -> Runner:
    """A runner of an agent with this function as a tool in a process."""
    return Runner(app_with(model, FunctionTool(func, isolation="process")), log=MemoryEventLog(), **options)


def pids_of(func: Callable[..., Any], *args: dict[str, Any]) -> list[int]:
    """The processes in which calls of a tool in a row were served; between them a runner's clock stands."""
    model = ScriptedModel(*(calls((func.__name__, one)) for one in args), "done")
    with runner_of(model, func) as runner:
        run = runner.run(**KEY, message="hi")
        run.answer(PATIENCE)
        told = [one.response for event in run.result().events for one in event.function_responses]
    return [one["pid"] if "pid" in one else one["result"] for one in told]


def test_a_process_that_has_done_its_call_serves_the_next() -> None:
    first, second = pids_of(plain_tools.ambient, {}, {})
    assert first == second


@pytest.mark.parametrize("what", ["child", "daemon", "thread", "directory", "environment"])
def test_a_process_in_which_something_was_left_serves_no_other_call(what: str, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    first, second = pids_of(process_tools.leave, *({"what": what, "path": str(path)} for path in paths))
    assert first != second
    left = [pid for path in paths if path.exists() for pid in written(path)]
    if what == "daemon":
        for pid in left:
            assert not has_ended(pid)
            os.kill(pid, signal.SIGKILL)
    until_ended(first, *left)


def test_a_module_that_was_imported_is_nothing_left(tmp_path: Path) -> None:
    args = {"what": "module", "path": str(tmp_path)}
    first, second = pids_of(process_tools.leave, args, args)
    assert first == second


def test_where_this_process_has_changed_a_new_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(*(reply for _ in range(3) for reply in (calls(("ambient", {})), "done")))
    found = list[dict[str, Any]]()
    with runner_of(model, plain_tools.ambient) as runner:
        for mark in ("one", "one", "two"):
            monkeypatch.setenv("MARK", mark)
            runner.run(**KEY, message="hi").answer(PATIENCE)
            found.append(responses(model)[-1])
    assert [one["mark"] for one in found] == ["one", "one", "two"]
    assert found[0]["pid"] == found[1]["pid"] != found[2]["pid"]


def test_an_idle_process_ends_after_a_while() -> None:
    clock, model = ManualClock(), ScriptedModel(calls(("ambient", {})), "done")
    with runner_of(model, plain_tools.ambient, clock=clock) as runner:
        runner.run(**KEY, message="hi").answer(PATIENCE)
        (found,) = responses(model)
        assert not has_ended(found["pid"])
        clock.advance(5)
        until_ended(found["pid"])


def test_an_idle_process_that_was_killed_is_not_called() -> None:
    model = ScriptedModel(*(reply for _ in range(2) for reply in (calls(("ambient", {})), "done")))
    with runner_of(model, plain_tools.ambient) as runner:
        runner.run(**KEY, message="hi").answer(PATIENCE)
        (first,) = responses(model)
        os.kill(first["pid"], signal.SIGKILL)
        until_ended(first["pid"])
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
        second = responses(model)[-1]
    assert second["pid"] != first["pid"]
