"""`intermission pending | answer | resume`: what waits for an answer, and going on with it."""

import json
from typing import Any

from intermission.cli.run import load_app, watch
from intermission.cli.terminal import Screen
from intermission.config import RunConfig
from intermission.pending import Answer, PendingCall
from intermission.runner import Runner
from intermission.sessions.records import PENDING
from intermission_storage import LmdbEventLog

__all__ = ["answer", "list_pending", "resume"]


def list_pending(path: str, app: str | None, user: str | None, session: str | None) -> int:
    """Write a line of JSON for each call that waits: its session, and what a `PendingCall` holds."""
    wanted = {"app": app, "user": user, "session": session}
    with LmdbEventLog(path, read_only=True) as log:
        for entry in log.index(PENDING, () if app is None else (app,)):
            key = dict(zip(wanted, entry.key[:3], strict=True))
            if all(value is None or value == key[name] for name, value in wanted.items()):
                print(json.dumps(key | PendingCall.from_dict(entry.value).to_dict(), ensure_ascii=False))
    return 0


def answer(
    target: str,
    call_id: str,
    response: dict[str, Any],
    *,
    log: str | None,
    user: str,
    session: str,
    by: str | None,
    streaming: bool,
    screen: Screen,
) -> int:
    """Answer a call, go on with its run, show what comes, and return the exit code.

    Args:
        target: See `load_app`.
        call_id: The pending call's id.
        response: What is answered.
        log: The log's folder; `None` for one in this folder that is named after the app.
        user: The user id.
        session: The session id.
        by: Who answers; it is kept in the log.
        streaming: Whether the model's text is shown as it comes.
        screen: Where to show it.
    """
    app = load_app(target)
    with Runner(app, log=log or f"{app.name}.lmdb", config=RunConfig(streaming=streaming)) as runner:
        given = [Answer(call_id, response, by)]
        return watch(runner.resume(user_id=user, session_id=session, answers=given), screen)


def resume(
    target: str,
    invocation_id: str,
    *,
    log: str | None,
    user: str,
    session: str,
    streaming: bool,
    screen: Screen,
) -> int:
    """Go on with a run by its id, show what comes, and return the exit code; the arguments are `answer`'s."""
    app = load_app(target)
    with Runner(app, log=log or f"{app.name}.lmdb", config=RunConfig(streaming=streaming)) as runner:
        return watch(runner.resume(user_id=user, session_id=session, invocation_id=invocation_id), screen)
