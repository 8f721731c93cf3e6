"""Tools with `isolation="process"`: what may be one, what goes in and comes out, and where it runs."""

import asyncio
import errno
import functools
import importlib
import os
import socket
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import plain_tools
import process_tools
from intermission import FunctionTool, ToolProcessError, ToolRaisedError, tool
from intermission.kernel.scope import Cancelled
from intermission.tools import ToolArgumentError, ToolResultError
from turns import context


def called(func: Callable[..., Any], **args: Any) -> Any:
    """What a call in a process answers, of no run."""
    return FunctionTool(func, isolation="process").call(args, context())


def top_level() -> None: ...


async def top_level_async() -> None: ...


@tool
def threaded() -> None: ...


def test_a_function_is_called_in_another_process_with_its_arguments_checked_here() -> None:
    assert called(plain_tools.add, a="41") == {"result": 42}
    assert called(plain_tools.ambient)["pid"] != os.getpid()
    with pytest.raises(ToolArgumentError, match="a: Field required"):
        called(plain_tools.add)


def test_a_decorated_function_is_found_and_can_still_be_called() -> None:
    assert process_tools.decorated.isolation == "process"
    assert process_tools.decorated(1) == 2
    assert process_tools.decorated.call({"a": 1}, context()) == {"result": 2}


def test_a_child_imports_nothing_of_the_runtime_that_its_tool_does_not() -> None:
    assert called(plain_tools.light) == {"result": True}


class Methods:
    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...


@pytest.mark.parametrize(
    ("func", "problem"),
    [
        (lambda: None, "not defined at the top level of a module"),
        (Methods().method, "an instance of method"),
        (Methods.static, "Methods.static is not defined at the top level"),
        (functools.partial(top_level), "an instance of partial"),
        (len, "an instance of builtin_function_or_method"),
        (top_level_async, r"it is async, and its child has no loop; give a plain function"),
    ],
)
def test_what_a_child_would_not_find_is_refused_when_the_tool_is_built(func: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=r"tool 'x' cannot have isolation='process'.*" + problem):
        FunctionTool(func, name="x", isolation="process")


def test_a_closure_is_refused_and_told_to_take_arguments() -> None:
    def inner() -> None: ...

    with pytest.raises(TypeError, match="move it there, and pass what it needs as arguments"):
        FunctionTool(inner, isolation="process")


def made_in(module: str, name: str = "made") -> types.FunctionType:
    """A function that says it is of a module."""
    made = types.FunctionType(top_level.__code__, {"__name__": module}, name)
    made.__qualname__ = name
    return made


def test_a_function_that_is_not_where_it_says_it_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for func, problem in (
        (made_in("nowhere_at_all"), "there is no module 'nowhere_at_all'"),
        (made_in("plain_tools"), "module 'plain_tools' has no 'made'"),
        (made_in("plain_tools", "Path"), "'Path' of module 'plain_tools' is something else"),
    ):
        with pytest.raises(TypeError, match=problem):
            FunctionTool(func, isolation="process")
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    with pytest.raises(TypeError, match="put the function into a module"):
        FunctionTool(made_in("__main__"), isolation="process")


def test_another_isolation_is_refused() -> None:
    with pytest.raises(ValueError, match="give 'thread' or 'process'"):
        FunctionTool(top_level, isolation="fork")  # type: ignore[arg-type]  # that is what is tested
    assert threaded.isolation == "thread"


def test_arguments_that_are_no_plain_values_are_made_in_the_child_of_what_the_model_gave() -> None:
    args = {"parcel": {"sent": "2026-01-02", "kind": "box"}, "colour": "red"}
    assert called(process_tools.send, **args) == {
        "result": [{"sent": "2026-01-02", "kind": "box"}, "Parcel", True]
    }


def test_plain_arguments_come_as_they_are() -> None:
    items = [{"a": None, "b": [1.5, True, "ä"]}, {}]
    assert called(process_tools.weigh, items=items) == {"items": items, "unit": None}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1, {"x": (1, 2)}], r"arguments\.anything\[1\]\.x"),
        ({"n": [float("nan")]}, r"arguments\.anything\.n\[0\]"),
        (object(), r"arguments\.anything"),
    ],
)
def test_an_argument_that_would_not_come_back_equal_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(ToolArgumentError, match=path):
        called(process_tools.pick, anything=value)


@pytest.mark.parametrize("which", ["nothing", "tuple", "nan", "date", "parcel", "int key", "mebibytes"])
def test_a_result_is_what_a_tool_in_a_thread_would_answer(which: str) -> None:
    in_thread = FunctionTool(process_tools.odd).call({"which": which}, context())
    assert called(process_tools.odd, which=which) == in_thread


@pytest.mark.parametrize(
    ("which", "problem"),
    [
        ("object", "it has no JSON form|of type object"),
        ("file", "of type TextIOWrapper"),
        ("deep", "holds itself"),
        ("text", r"response\.a\[1\]"),
        ("int", r"response\.a\.b"),
        ("large", "the most is"),
        ("coroutine", "an awaitable; await it in the tool"),
    ],
)
def test_a_result_that_cannot_be_passed_on_is_refused_as_from_a_thread(which: str, problem: str) -> None:
    with pytest.raises(ToolResultError, match=problem):
        called(process_tools.odd, which=which)


def test_what_it_raises_is_an_error_that_says_what_it_was_and_has_the_childs_traceback() -> None:
    with pytest.raises(ToolRaisedError, match="ValueError: no such order") as raised:
        called(process_tools.fail, how="value")
    error = raised.value
    assert (error.tool, error.kind, error.message) == ("fail", "ValueError", "no such order")
    assert "raise errors[how]" in error.traceback
    assert error.traceback.rstrip() in error.__notes__[0]
    with pytest.raises(ToolRaisedError, match=r"\\ud800"):
        called(process_tools.fail, how="surrogate")


def test_errors_with_a_meaning_for_the_model_keep_it() -> None:
    with pytest.raises(ToolArgumentError, match="four digits"):
        called(process_tools.fail, how="arguments")
    with pytest.raises(ToolResultError, match="secret"):
        called(process_tools.fail, how="result")
    with pytest.raises(Cancelled, match="by itself"):
        called(process_tools.fail, how="cancelled")


def test_a_system_exit_ends_neither_this_process_nor_the_run() -> None:
    with pytest.raises(ToolRaisedError, match="SystemExit: 3"):
        called(process_tools.fail, how="exit")


@pytest.mark.parametrize(
    ("how", "end"), [("kill", "was ended by SIGKILL"), ("_exit", "ended with exit code 3")]
)
def test_a_process_that_dies_is_an_error_that_says_how_and_that_the_effect_is_unknown(
    how: str, end: str
) -> None:
    with pytest.raises(ToolProcessError, match=f"{end} before it had answered") as raised:
        called(plain_tools.vanish, how=how)
    assert raised.value.begun


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
@pytest.mark.parametrize("where", ["process", "socket", "pipe"])
def test_a_process_that_the_system_does_not_start_is_a_typed_error_and_leaves_nothing(
    number: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    place: tuple[Any, str] = {
        "process": (subprocess, "Popen"),
        "socket": (socket, "socketpair"),
        "pipe": (os, "pipe"),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(*place, refuse)
        with pytest.raises(ToolProcessError, match=os.strerror(number)) as raised:
            called(plain_tools.add, a=1)
    assert not raised.value.begun


def test_without_descriptors_for_the_wait_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(scope: object) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("intermission.isolation.tool_process.alarm_of", refuse)
    with pytest.raises(ToolProcessError, match=r"no way to cancel it: .*Too many open files") as raised:
        called(plain_tools.add, a=1)
    assert not raised.value.begun


def test_a_tool_may_delete_its_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert called(plain_tools.delete, path=str(tmp_path / "gone")) == {"result": "deleted"}


def test_what_a_tool_prints_goes_where_this_process_prints_and_disturbs_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    noise = "\x00\x00\x00\x04noise\n"
    assert called(plain_tools.write_to_all, text=noise) == {"result": noise}
    printed = capfd.readouterr()
    assert printed.out.count("noise") == 2
    assert printed.err.count("noise") == 1


def test_a_tool_may_have_a_megabyte_of_arguments() -> None:
    text = "x" * 2**22
    assert called(process_tools.pick, anything=text) == {"result": text}


def test_the_child_has_this_processs_directory_environment_and_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("MARK", "here")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_there.py").write_text("def f():\n    return 'found'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = called(plain_tools.ambient)
    assert (found["cwd"], found["mark"]) == (str(tmp_path), "here")
    there: Any = importlib.import_module("only_there")
    try:
        assert called(there.f) == {"result": "found"}
    finally:
        del sys.modules["only_there"]


def test_a_function_that_the_child_does_not_find_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = made_in("plain_tools", "late")
    monkeypatch.setattr(plain_tools, "late", late, raising=False)
    with pytest.raises(ToolProcessError, match="module 'plain_tools' has no 'late'") as raised:
        called(late)
    assert not raised.value.begun


def test_a_call_of_no_run_can_be_made_on_a_loops_thread_by_another_thread() -> None:
    async def work() -> Any:
        return await asyncio.to_thread(called, plain_tools.add, a=1)

    assert asyncio.run(work()) == {"result": 2}
