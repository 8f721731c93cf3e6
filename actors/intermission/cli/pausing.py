"""`intermission pending | answer | resume`: what waits for an answer, and going on with it."""

import json
from typing import Any

from intermission.cli.logs import is_there
from intermission.cli.run import load_app, watch
from intermission.cli.terminal import Screen
from intermission.config import RunConfig
from intermission.errors import InvalidAnswerError
from intermission.pending import Answer, PendingCall, PendingKind
from intermission.runner import Runner
from intermission.sessions.records import PENDING
from intermission_storage import LmdbEventLog

__all__ = ["answer", "list_pending", "resume"]


def list_pending(path: str, app: str | None, user: str | None, session: str | None) -> int:
    """Write a line of JSON for each call that waits, oldest first: its session, and what it is."""
    wanted = {"app": app, "user": user, "session": session}
    found: list[tuple[dict[str, Any], PendingCall]] = []
    with LmdbEventLog(path, read_only=True) as log:
        for entry in log.index(PENDING, () if app is None else (app,)):
            key = dict(zip(wanted, entry.key[:3], strict=True))
            if all(value is None or value == key[name] for name, value in wanted.items()):
                found.append((key, PendingCall.from_dict(entry.value)))
    for key, call in sorted(found, key=lambda one: (one[1].since, one[1].place)):
        print(json.dumps(key | call.to_dict(), ensure_ascii=False))
    return 0


def answer(
    target: str,
    call_id: str,
    response: dict[str, Any],
    *,
    decides: bool,
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
        decides: Whether that says if the call may be made, and is no result.
        log: The log's folder; `None` for one in this folder that is named after the app.
        user: The user id.
        session: The session id.
        by: Who answers; it is kept in the log.
        streaming: Whether the model's text is shown as it comes.
        screen: Where to show it.

    Raises:
        InvalidAnswerError: The call waits for a result, which is not to be approved or rejected.
    """
    app = load_app(target)
    path = log or f"{app.name}.lmdb"
    if not is_there(path, screen):
        return 1
    with Runner(app, log=path, config=RunConfig(streaming=streaming)) as runner:
        waiting = runner.pending(user_id=user, session_id=session) if decides else []
        if any(call.id == call_id and call.kind is PendingKind.LONG_RUNNING for call in waiting):
            raise InvalidAnswerError(
                f"call {call_id!r} waits for its result, and cannot be approved or rejected: give --reply. "
                "Nothing was stored."
            )
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
    path = log or f"{app.name}.lmdb"
    if not is_there(path, screen):
        return 1
    with Runner(app, log=path, config=RunConfig(streaming=streaming)) as runner:
        return watch(runner.resume(user_id=user, session_id=session, invocation_id=invocation_id), screen)
