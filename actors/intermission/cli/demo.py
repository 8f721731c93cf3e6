"""`intermission demo`: the main job at work, over real HTTP and a real log on disk."""

import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from intermission.agents import App, LlmAgent
from intermission.cli.live import Live
from intermission.cli.terminal import Screen
from intermission.config import RunConfig
from intermission.errors import IntermissionError
from intermission.models import ChatCompletions
from intermission.models.base import Model
from intermission.runner import Runner
from intermission.runs import RunStatus
from intermission.testing import Gate, ModelServer, calls, text
from intermission.version import __version__

__all__ = ["demo", "order_status"]

_QUESTION = "Where is my order 1042?"
_FOLLOW_UP = "Which city is it in?"
_USER, _SESSION = "you", "orders"


def order_status(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"order_id": order_id, "status": "shipped", "city": "Lisbon"}


def demo(*, model_url: str | None, model: str | None, log: str | None, screen: Screen) -> int:
    """Show a run that streams and calls a tool, then find its session again; return the exit code.

    Args:
        model_url: Base address of a server that speaks OpenAI chat completions; `None` scripts one here.
        model: The model's name there.
        log: Where to keep the log; `None` for a temporary folder that is removed.
        screen: Where to show it.
    """
    with _place(log) as path, _model(model_url, model, paced=screen.is_terminal) as (served, address):
        screen.heading(f"Intermission {__version__}: an agent, a tool, and a session that outlives both")
        screen.line("model", f"{served.name} at {address}", "dim")
        screen.line("log", str(path), "dim")
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


@contextmanager
def _model(url: str | None, name: str | None, *, paced: bool) -> Generator[tuple[Model, str]]:
    if url is not None and name is not None:
        yield ChatCompletions(name, base_url=url, options={"temperature": 0, "max_tokens": 200}), url
        return
    pause = _Pause(0.05 if paced else 0.0)
    with ModelServer(
        calls(("order_status", {"order_id": "1042"})),
        text(*_spoken("Your order 1042 has shipped. It was last seen in Lisbon.", pause)),
        text(*_spoken("It is in Lisbon now.", pause)),
    ) as server:
        yield ChatCompletions("scripted", base_url=server.url), server.url


class _Pause(Gate):
    """Stands between the words of the scripted model, which would else speak faster than a person sees."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float = 0.0) -> None:
        threading.Event().wait(self._seconds)


def _spoken(sentence: str, pause: Gate) -> Iterator[str | Gate]:
    for word in sentence.split():
        yield word + " "
        yield pause


def _turn(app: App, path: Path, question: str, screen: Screen) -> bool:
    screen.line("you", question, "cyan")
    live = Live(screen)
    with Runner(app, log=path) as runner:
        run = runner.run(
            user_id=_USER, session_id=_SESSION, message=question, config=RunConfig(streaming=True)
        )
        with suppress(IntermissionError):  # the run's own, which its result holds
            try:
                for event in run:
                    live.show(event)
            except KeyboardInterrupt:
                runner.close(grace=0)  # the person wants to leave, and not to wait for the model
                raise
        result = run.result()
    live.end(result)
    return result.status is RunStatus.COMPLETED


def _show_log(app: App, path: Path, screen: Screen) -> None:
    with Runner(app, log=path) as runner:
        for event in runner.sessions.events(user_id=_USER, session_id=_SESSION):
            screen.start(f"#{event.seq}", "dim")
            said = [event.text] if event.text else []
            said += [f"calls {call.name}" for call in event.function_calls]
            said += [f"answer of {response.name}" for response in event.function_responses]
            screen.piece(f"{event.author}: {', '.join(said)}")
            screen.end()
