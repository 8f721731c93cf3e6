"""`Live`: shows a run's events as they come, and says how the run has ended."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from intermission.agents.confirmations import asked_call
from intermission.cli.terminal import Screen
from intermission.errors import IntermissionError
from intermission.events import Event
from intermission.pending import PendingCall, PendingKind
from intermission.runner import Runner
from intermission.runs import Run, RunResult
from intermission.runs.receipt import CancelReceipt, ResidualWork

__all__ = ["Live", "show_pending", "show_receipt", "show_run"]


class Live:
    """Shows the events of one run.

    Args:
        screen: Where.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._speaking = False

    def show(self, event: Event) -> None:
        """Show one event: the pieces of a text on one line, each call and each response on its own."""
        if event.delta and not self._speaking:
            self._screen.start(event.author, "green")
            self._speaking = True
        self._screen.piece(event.delta)
        if event.partial:
            return
        self.end_line()
        for call in event.function_calls:
            about = asked_call(call)
            if about is None:
                self._screen.line("call", _written(call.name, call.args), "yellow")
            else:
                self._screen.line("asks", f"may {_written(about.name, about.args)} be called?", "yellow")
        for response in event.function_responses:
            self._screen.line("tool", json.dumps(dict(response.response)), "yellow")

    def end_line(self) -> None:
        """End the line of a text of which no more will come."""
        if self._speaking:
            self._screen.end()
            self._speaking = False

    def end(self, result: RunResult) -> None:
        """Say how the run has ended."""
        self.end_line()
        if result.error is not None:
            self._screen.line("error", str(result.error), "red")
        used = f", {result.usage.total_tokens} tokens" if result.usage.total_tokens else ""
        took = time.monotonic() - self._began
        self._screen.note(
            f"run {result.invocation_id}: {result.status}, last record {result.last_seq}{used}, {took:.2f} s"
        )


def show_run(runner: Runner, run: Run, screen: Screen) -> RunResult:
    """Show a run to its end, and return what it came to. Ctrl-C closes its runner at once."""
    live = Live(screen)
    with suppress(IntermissionError):  # the run's own, which its result holds
        try:
            for event in run:
                live.show(event)
        except KeyboardInterrupt:
            runner.close(grace=0)  # the person wants to leave, and not to wait for the model
            raise
    result = run.result()
    live.end(result)
    return result


def show_pending(calls: Sequence[PendingCall], screen: Screen) -> None:
    """Say what waits for an answer."""
    for call in calls:
        what = (
            "waits for its result"
            if call.kind is PendingKind.LONG_RUNNING
            else call.hint or "waits for leave"
        )
        screen.line("pending", f"{_written(call.tool, call.arguments)}: {what} ({call.id})", "yellow")


def _written(tool: str, arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
    return f"{tool}({given})"


def show_receipt(receipt: CancelReceipt, run: Run, screen: Screen) -> None:
    """Say what is known of a cancel."""
    kept = f"stored up to record {receipt.last_seq}" if receipt.durable else "its end is not stored yet"
    screen.line("cancel", f"{receipt.outcome}: the run is {run.status or 'ending'}, {kept}", "cyan")
    for work in receipt.still_running:
        screen.line("", f"still running: {_named(work)}", "yellow")


def _named(work: ResidualWork) -> str:
    return f"{work.what} {work.name}" if work.call_id is None else f"{work.what} {work.name} ({work.call_id})"
