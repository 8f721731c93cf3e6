"""`intermission demo`: the main job at work, over real HTTP and a real log on disk."""

import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from intermission.agents import App, LlmAgent
from intermission.cli.demo_kill import kill_and_recover
from intermission.cli.demo_models import model_to_talk_to
from intermission.cli.live import Live, show_pending, show_receipt, show_run
from intermission.cli.terminal import Screen
from intermission.cli.witness import Witness
from intermission.config import ResumabilityConfig, RunConfig
from intermission.errors import IntermissionError
from intermission.models.base import Model
from intermission.runner import Runner
from intermission.runs import RunStatus
from intermission.tools import FunctionTool
from intermission.version import __version__

__all__ = ["demo", "order_status", "refund"]

_QUESTION = "Where is my order 1042?"
_FOLLOW_UP = "Which city is it in?"
_REQUEST = "Please refund my order 1042."
_STORY = "Tell me a long story about a lighthouse."
_HEARD = 3  # pieces of it that are heard before it is cancelled
_USER, _SESSION, _REFUNDS = "you", "orders", "refunds"
_STREAMING = RunConfig(streaming=True)


def order_status(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"order_id": order_id, "status": "shipped", "city": "Lisbon"}


def refund(order_id: str) -> dict[str, str]:
    """Pay the money for an order back."""
    return {"order_id": order_id, "refunded": "42 euros"}


def demo(*, model_url: str | None, model: str | None, log: str | None, screen: Screen) -> int:
    """Show runs that stream, call tools, wait for leave, are cancelled and killed; return the exit code.

    Args:
        model_url: Base address of a server that speaks OpenAI chat completions; `None` scripts one here.
        model: The model's name there.
        log: Where to keep the log; `None` for a temporary folder that is removed.
        screen: Where to show it.
    """
    with (
        _place(log) as path,
        model_to_talk_to(model_url, model, paced=screen.is_terminal) as (served, address, witness),
    ):
        screen.heading(f"Intermission {__version__}: an agent, a tool, and a session that outlives both")
        screen.line("model", f"{served.name} at {address}", "dim")
        screen.line("log", str(path) if log else f"{path}, removed at the end; --log DIR keeps one", "dim")
        agent = LlmAgent(
            "support",
            served,
            instruction="You answer questions about orders. Use the tool to look an order up.",
            tools=[order_status],
        )
        app = App("demo", agent)
        screen.heading("1. A question: the answer streams, each event is on disk before it is shown")
        if not _turn(app, path, _QUESTION, screen):
            return 1
        screen.heading("2. The runner is closed. A new one opens the log and finds the session")
        _show_log(app, path, screen)
        screen.heading("3. The conversation goes on where it was")
        if not _turn(app, path, _FOLLOW_UP, screen):
            return 1
        screen.heading("4. A refund needs leave: the run pauses, and another runner goes on with it")
        if not _approve(served, path, screen):
            return 1
        screen.heading("5. A story is cancelled in mid-stream, and the server's side is asked what it saw")
        if not _cancel(served, witness, path, screen):
            return 1
        screen.heading("6. A process is killed in the middle of a tool, by kill -9, and this one goes on")
        if not kill_and_recover(model_url, model, path, screen):
            return 1
        if log is not None:
            screen.note(f"the log stays in {path}")
        return 0


@contextmanager
def _place(log: str | None) -> Generator[Path]:
    if log is not None:
        yield Path(log)
        return
    with tempfile.TemporaryDirectory(prefix="intermission-demo-") as folder:
        yield Path(folder) / "sessions.lmdb"


def _turn(app: App, path: Path, question: str, screen: Screen) -> bool:
    screen.line("you", question, "cyan")
    with Runner(app, log=path, config=_STREAMING) as runner:
        run = runner.run(user_id=_USER, session_id=_SESSION, message=question)
        return show_run(runner, run, screen).status is RunStatus.COMPLETED


def _approve(served: Model, path: Path, screen: Screen) -> bool:
    """Pause a run for a person's leave and go on with it elsewhere; return whether it came to its end."""
    tool = FunctionTool(refund, require_confirmation=True)
    agent = LlmAgent(
        "clerk", served, instruction="You refund orders. Use the tool to refund one.", tools=[tool]
    )
    app = App("demo", agent, resumability_config=ResumabilityConfig(is_resumable=True))
    screen.line("you", _REQUEST, "cyan")
    with Runner(app, log=path, config=_STREAMING) as runner:
        run = runner.run(user_id=_USER, session_id=_REFUNDS, message=_REQUEST)
        result = show_run(runner, run, screen)
    if result.status is not RunStatus.PAUSED:
        screen.note("the model made no call that needs leave, so there is nothing to approve")
        return False
    screen.note("the runner is closed: nothing of the run is in memory any more. A new one opens the log")
    with Runner(app, log=path, config=_STREAMING) as runner:
        waiting = runner.pending(user_id=_USER, session_id=_REFUNDS)
        show_pending(waiting, screen)
        screen.line("you", "approved", "cyan")
        answers = [call.approve(answered_by=_USER) for call in waiting]
        run = runner.resume(user_id=_USER, session_id=_REFUNDS, answers=answers)
        return show_run(runner, run, screen).status is RunStatus.COMPLETED


def _cancel(served: Model, witness: Witness, path: Path, screen: Screen) -> bool:
    """Cancel a run while its model speaks; return whether all of it came as it must."""
    screen.line("you", _STORY, "cyan")
    live = Live(screen)
    with Runner(App("demo", LlmAgent("teller", served)), log=path) as runner:
        run = runner.run(user_id=_USER, session_id="stories", message=_STORY, config=_STREAMING)
        cancelled = 0.0
        with suppress(IntermissionError):
            for pieces, event in enumerate(run):
                live.show(event)
                if pieces == _HEARD:
                    cancelled = time.monotonic()
                    receipt = run.cancel("that is enough", wait=True, timeout=5.0)
                    live.end_line()
                    show_receipt(receipt, run, screen)
                    break  # what the model said before the cancel may still be there to be read
        result = run.result()
        if cancelled:
            screen.line("server", witness.told(cancelled), "cyan")
        live.end(result)
        if result.status is not RunStatus.CANCELLED:
            screen.note("the story came to its end before it could be cancelled")
            return False
        last = runner.sessions.events(user_id=_USER, session_id="stories")[-1]
        screen.note(f"the last event in the log is the {last.author}'s: half an answer is not stored")
        return True


def _show_log(app: App, path: Path, screen: Screen) -> None:
    with Runner(app, log=path) as runner:
        for event in runner.sessions.events(user_id=_USER, session_id=_SESSION):
            screen.start(f"#{event.seq}", "dim")
            said = [event.text] if event.text else []
            said += [f"calls {call.name}" for call in event.function_calls]
            said += [f"answer of {response.name}" for response in event.function_responses]
            screen.piece(f"{event.author}: {', '.join(said)}")
            screen.end()
