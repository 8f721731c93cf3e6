"""The part of `intermission demo` that kills a process in the middle of a tool, and goes on with its run."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from intermission.cli import demo_office
from intermission.cli.demo_models import models_of_the_office
from intermission.cli.demo_office import CASHIER, CLERK, INVOICE, ORDER, SESSION, USER, Office
from intermission.cli.live import Live, show_run
from intermission.cli.terminal import Screen
from intermission.config import RunConfig
from intermission.runner import Runner
from intermission.runs import RunStatus

__all__ = ["kill_and_recover"]

_TIMES = {1: "once", 2: "twice"}


def kill_and_recover(url: str | None, name: str | None, log: Path, screen: Screen) -> bool:
    """Have a process killed in the middle of a tool; return whether its run came to its end in this one.

    Args:
        url: Base address of the model's server; `None` for scripted models.
        name: The model's name there.
        log: The log's folder.
        screen: Where to show it.
    """
    screen.line("you", ORDER, "cyan")
    with (
        tempfile.TemporaryDirectory(prefix="intermission-demo-") as folder,
        models_of_the_office(url, name) as models,
        _other_process(str(log), folder, *models) as child,
    ):
        said = _output(child)
        invocation_id = said.readline().strip()
        if not invocation_id:
            screen.note(f"process {child.pid} has ended before its run began")
            return False
        screen.note(f"process {child.pid} runs it; this process reads the log and sees what that one stores")
        office = Office(Path(folder), models)
        with Runner(office.app, log=log, config=RunConfig(streaming=True)) as runner:
            if not _watch_and_kill(runner, child, invocation_id, screen):
                screen.note("no tool was at work that could have been interrupted")
                return False
            (run,) = runner.recover(user_id=USER, session_id=SESSION)
            _show_what_is_left(runner, office, invocation_id, screen)
            completed = show_run(runner, run, screen).status is RunStatus.COMPLETED
        _show_what_ran(office, screen)
        return completed


@contextmanager
def _other_process(*arguments: str) -> "Generator[subprocess.Popen[str]]":
    """Run the office in a process of its own, which has ended when the block has."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", demo_office.__name__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # a Ctrl-C is for this process alone, which then ends that one
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()


def _output(child: "subprocess.Popen[str]") -> IO[str]:
    assert child.stdout is not None
    return child.stdout


def _watch_and_kill(
    runner: Runner, child: "subprocess.Popen[str]", invocation_id: str, screen: Screen
) -> bool:
    """Show the other process's run; kill it when one agent has ended and the other's tool is half-way."""
    live, killed = Live(screen), False
    cashier_has_ended = clerk_has_called = False
    viewer = runner.attach(user_id=USER, session_id=SESSION)
    for event in viewer:
        if event.invocation_id != invocation_id or event.author == "user":
            continue  # of an earlier demo on this log, or said above
        live.show(event)
        cashier_has_ended |= event.author == CASHIER and event.actions.end_of_agent
        clerk_has_called |= event.author == CLERK and bool(event.function_calls)
        if cashier_has_ended and clerk_has_called and not killed and _output(child).readline():
            screen.note("half of the invoice is written")
            child.kill()
            child.wait()
            killed = True
            screen.line("kill -9", f"process {child.pid} is dead, and what it had in memory is lost", "red")
    live.end(viewer.result())
    return killed


def _show_what_is_left(runner: Runner, office: Office, invocation_id: str, screen: Screen) -> None:
    """Say what the log knows of the dead process's run, and what is on disk of the call in hand."""
    runs = runner.sessions.runs(user_id=USER, session_id=SESSION)
    (record,) = (run for run in runs if run.invocation_id == invocation_id)
    names = {call_id: name for name, call_id in office.ran()}
    for call_id in record.open_calls:
        name = names.get(call_id, "a tool")
        screen.line("left", f"{name} has begun, and the log has no end of it ({call_id})", "yellow")
        screen.note(f"its file holds {office.lines(call_id)} of {len(INVOICE)} lines")


def _show_what_ran(office: Office, screen: Screen) -> None:
    """Say how often each call was made, by what the tools themselves have noted, and what came of it."""
    for (name, call_id), times in reversed(Counter(office.ran()).most_common()):
        screen.line("ran", f"{name} {_TIMES.get(times, f'{times} times')}, as {call_id}", "cyan")
        if times > 1:
            lines = f"{office.lines(call_id)} of {len(INVOICE)} lines"
            screen.note(f"its file is named after that id, and was written anew: one invoice, {lines}")
