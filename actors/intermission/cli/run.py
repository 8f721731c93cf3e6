"""`intermission run`: talk to an app of one's own, live."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from intermission.agents import App, BaseAgent
from intermission.cli.live import Live, show_pending, show_receipt
from intermission.cli.terminal import Screen, forgive
from intermission.config import RunConfig
from intermission.errors import IntermissionError
from intermission.runner import Runner
from intermission.runs import Run, RunStatus

__all__ = ["AppNotFoundError", "load_app", "run", "watch"]

_GRACE = 5.0  # seconds that a cancelled run has until it is only said what still runs
_FAILED = {RunStatus.FAILED, RunStatus.EXPIRED}


class AppNotFoundError(IntermissionError):
    """`MODULE:APP` leads to no app."""


def run(
    target: str,
    message: str | None,
    *,
    log: str | None,
    user: str,
    session: str,
    streaming: bool,
    screen: Screen,
) -> int:
    """Send an app a message, or each line of the standard input; show what comes, and return the exit code.

    Ctrl-C cancels the run under way and says what is left of it. With lines to come it ends that run alone.

    Args:
        target: `MODULE:NAME` or `FILE.py:NAME` of an `App` or an agent.
        message: What to say; `None` to read lines.
        log: The log's folder; `None` for one in this folder that is named after the app.
        user: The user id.
        session: The session id.
        streaming: Whether the model's text is shown as it comes.
        screen: Where to show it.
    """
    app = load_app(target)
    path = log or f"{app.name}.lmdb"
    code = 0
    with Runner(app, log=path, config=RunConfig(streaming=streaming)) as runner:
        for text in [message] if message is not None else _lines(screen):
            code = watch(runner.run(user_id=user, session_id=session, message=text), screen)
            if message is None and code == 130:
                code = 0  # the person has stopped a run, and not the conversation
    screen.note(f"session {session!r} of user {user!r} stays in {path}")
    return code


def load_app(target: str) -> App:
    """Import what `target` names, from this folder too.

    Raises:
        AppNotFoundError: There is no such module or name, or it is neither an app nor an agent.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise AppNotFoundError(
            f"{target!r} names no app: write MODULE:NAME or FILE.py:NAME, as in chat.py:app"
        )
    try:
        module = _module(place)
    except SystemExit as end:  # else this would end too, as if all were well
        raise AppNotFoundError(
            f"{place} ends the program (exit code {end.code}) when it is imported"
        ) from end
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    if isinstance(found, BaseAgent):
        return App(found.name, found)
    what = "has no such name" if found is None else f"holds a {type(found).__name__} under it"
    raise AppNotFoundError(f"{target!r} names no app: {place} {what}; name an App or an agent")


def _module(place: str) -> ModuleType:
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise AppNotFoundError(f"there is no file {place}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.parent.resolve()))
        spec.loader.exec_module(module)
        return module
    if not all(part.isidentifier() for part in place.split(".")):
        raise AppNotFoundError(f"{place!r} is neither the name of a module nor that of a file, as in chat.py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise AppNotFoundError(f"there is no module {place} here or among the installed ones") from error
        raise  # the module is there, and lacks another one


def _lines(screen: Screen) -> Iterator[str]:
    """Yield what a person says, line by line, until the input ends or Ctrl-C is given at the prompt."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - a program may be started without
        return
    forgive(sys.stdin, "replace")  # bytes that are no text could not be stored
    while True:
        if screen.is_terminal:
            screen.start("you", "cyan")
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            screen.end()
            return
        if not line:
            return
        if line.strip():
            yield line.strip()


def watch(run: Run, screen: Screen) -> int:
    """Show what comes of a run and what it waits for; return the exit code. Ctrl-C cancels it."""
    live = Live(screen)
    try:
        # Nobody's run: else a Ctrl-C were the loss of its consumer, too, and the cancel below came late.
        for event in run.start():
            live.show(event)
    except KeyboardInterrupt:
        live.end_line()
        show_receipt(run.cancel("Ctrl-C", wait=True, timeout=_GRACE), run, screen)
        return 130
    except Exception:
        if run.status is None:  # else it is the run's own, which its result holds
            raise
    result = run.result()
    live.end(result)
    show_pending(result.pending, screen)
    return 1 if result.status in _FAILED else 0
