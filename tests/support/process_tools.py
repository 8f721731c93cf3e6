"""Functions that tests call in processes of their own; a child finds them here."""

import datetime
import enum
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from intermission import Cancelled, CancelScope, ToolContext, blocking, tool
from intermission.tools import ToolArgumentError, ToolResultError
from plain_tools import begun

__all__ = [
    "Colour",
    "Parcel",
    "change",
    "decorated",
    "fail",
    "hooked",
    "leave",
    "note",
    "noted",
    "odd",
    "pick",
    "run_group",
    "scoped",
    "send",
    "shielded",
    "sleep",
    "stubborn",
    "stuck_with_group",
    "swallow",
    "tidy",
    "weigh",
    "who",
]


def who(tool_context: ToolContext) -> dict[str, object]:
    """Say whose call it is."""
    return {
        "call": tool_context.function_call_id,
        "run": tool_context.invocation_id,
        "user": tool_context.user_id,
        "session": tool_context.session_id,
        "state": dict(tool_context.state),
        "current": CancelScope.current() is tool_context.cancellation,
        "pid": os.getpid(),
    }


@tool(isolation="process")
def decorated(a: int) -> int:
    """Add one."""
    return a + 1


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Parcel:
    sent: datetime.date
    kind: str


def send(parcel: Parcel, colour: Colour) -> list[object]:
    """Send a parcel."""
    return [parcel, type(parcel).__name__, colour is Colour.RED]


def weigh(items: list[dict[str, Any]], unit: str | None) -> dict[str, Any]:
    """Weigh."""
    return {"items": items, "unit": unit}


def pick(anything: Any) -> Any:
    """Pick."""
    return anything


def odd(which: str) -> Any:
    """Return something that is no JSON, or not quite."""
    deep: list[Any] = []
    deep.append(deep)
    values: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "tuple": lambda: (1, {2}),
        "nan": lambda: {"x": [math.nan, math.inf]},
        "date": lambda: datetime.date(2026, 1, 2),
        "parcel": lambda: Parcel(datetime.date(2026, 1, 2), "box"),
        "int key": lambda: {1: "a"},
        "object": object,
        "file": lambda: open(os.devnull),  # noqa: SIM115  # the runtime closes it
        "deep": lambda: deep,
        "text": lambda: {"a": ["x", "\ud800"]},
        "int": lambda: {"a": {"b": 2**70}},
        "large": lambda: "x" * (17 * 2**20),
        "coroutine": lambda: _coroutine(),
        "mebibytes": lambda: "x" * (3 * 2**20),
    }
    return values[which]()


async def _coroutine() -> None: ...


def fail(how: str) -> None:
    """Raise."""
    errors: dict[str, BaseException] = {
        "value": ValueError("no such order"),
        "arguments": ToolArgumentError("an order has four digits"),
        "result": ToolResultError("it is secret"),
        "exit": SystemExit(3),
        "cancelled": Cancelled("by itself"),
        "surrogate": ValueError("\ud800"),
    }
    raise errors[how]


def change(what: str, tool_context: ToolContext) -> list[Any]:
    """Try to change what is only to be read."""
    state, actions = tool_context.state, tool_context.actions
    ways: dict[str, Callable[[], object]] = {
        "set": lambda: state.update(a=1),
        "delete": lambda: state.pop("kept"),
        "append": lambda: state.append("a", 1),
        "add": lambda: state.add("a", 1),
        "actions": lambda: setattr(actions, "escalate", True),
        "stop": tool_context.stop,
    }
    try:
        ways[what]()
    except TypeError as error:
        return [type(error).__name__, dict(state)]
    return []


def scoped(path: str, tool_context: ToolContext) -> None:
    """Sleep on the scope, and clean up."""
    try:
        begun(path)
        tool_context.cancellation.sleep(3600)
    except Cancelled as cancelled:
        # A file takes many steps of Python's: a second interruption would hit one of them.
        for number in range(500):
            Path(f"{path}.said").write_text(f"{number} {cancelled.reason} {cancelled.source}")
        Path(f"{path}.cleaned").write_text(Path(f"{path}.said").read_text())
        raise


def note(path: str, cancelled: Cancelled) -> None:
    """Write down when, by the monotonic clock, and why something was cancelled."""
    Path(f"{path}.cancelled").write_text(f"{time.monotonic()} {cancelled.reason}")


def noted(path: str, tool_context: ToolContext) -> None:
    """Work until cancelled, and note when and why."""
    begun(path)
    try:
        tool_context.cancellation.sleep(3600)
    except Cancelled as cancelled:
        note(path, cancelled)
        raise


def sleep(path: str) -> None:
    """Sleep in a call that knows nothing of scopes."""
    try:
        begun(path)
        threading.Event().wait(3600)
    finally:
        Path(f"{path}.cleaned").touch()


def hooked(path: str, tool_context: ToolContext) -> str:
    """Wait in C, where only a hook gets through: the multiplication of huge numbers looks at no signal."""
    gone = threading.Event()
    tool_context.cancellation.on_cancel(lambda: begun(f"{path}.hook"))
    begun(path)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    gone.wait(3600)
    return "never"


def stubborn(path: str) -> NoReturn:
    """Compute for ever, whatever comes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begun(path)
    while True:
        pass


def stuck_with_group(path: str) -> NoReturn:
    """Start a shell in a group of its own, and then compute for ever, whatever comes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script = f"trap '' TERM; echo $$ > {path}; while :; do sleep 1000; done"
    subprocess.Popen(["sh", "-c", script], process_group=0)
    while True:
        pass


def swallow(path: str) -> str:
    """Be interrupted, and say that all is well."""
    try:
        begun(path)
        threading.Event().wait(3600)
    except Cancelled:
        return "all is well"
    return "never"


def shielded(path: str, tool_context: ToolContext) -> None:
    """Do a short section whole, and then compute for ever."""
    with tool_context.cancellation.shield():
        begun(path)
        while not Path(f"{path}.go").exists():
            pass
        Path(f"{path}.whole").touch()
    while True:
        pass


def tidy(path: str) -> None:
    """Wait for a child that ends with the scope."""
    begun(path)
    blocking.run(["sh", "-c", f"echo $$ > {path}.child; exec sleep 1000"])


def run_group(path: str, script: str) -> None:
    """Run a shell script, which writes its processes down, as everybody does."""
    subprocess.run(["sh", "-c", script.replace("PATH", path)], check=False)


def leave(what: str, path: str) -> int:
    """Leave something behind, and return."""
    if what == "child":
        subprocess.Popen(["sh", "-c", f"echo $$ > {path}; exec sleep 1000"])
    elif what == "daemon":
        subprocess.run(
            ["sh", "-c", f"setsid sh -c 'echo $$ > {path}; exec sleep 1000' & sleep 0"], check=False
        )
    elif what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif what == "directory":
        os.chdir("/")
    elif what == "environment":
        os.environ["MARK"] = "left"
    elif what == "module":
        sys.modules["left_behind"] = sys
    if what in {"child", "daemon"}:
        while not (Path(path).exists() and Path(path).read_text().endswith("\n")):
            pass
    return os.getpid()
