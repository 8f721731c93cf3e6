"""What meets a runner's close: it is done and told, or refused by its type, and nothing hangs."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Unpack

import pytest

from apps import KEY, app_with
from blocked import wait_until_blocked
from intermission import Runner, SessionClosedError, SessionInfo, Sessions
from intermission.testing import Gate, ScriptedModel
from intermission_storage import Appended, BatchOptions, EventLog, LmdbEventLog, MemoryEventLog, Record
from races import at_once
from scale import rounds


class Held(MemoryEventLog):
    """A log that holds what is appended without a session."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def append(self, stream: str, records: Sequence[Record], **options: Unpack[BatchOptions]) -> Appended:
        """See `EventLog.append`."""
        self.gate.wait()
        return super().append(stream, records, **options)


def acreate(sessions: Sessions, session_id: str, **state: int) -> SessionInfo:
    """Create a session on an event loop of its own."""
    return asyncio.run(sessions.acreate(user_id="u", session_id=session_id, state=state))


@pytest.mark.parametrize("twin", [False, True], ids=["create", "acreate"])
def test_a_session_that_is_being_created_when_its_runner_closes_is_created_and_reported(
    twin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, made = Held(), list[SessionInfo]()

    def opened(_: object) -> EventLog:
        return log

    monkeypatch.setattr("intermission.runner.LmdbEventLog", opened)
    runner = Runner(app_with(ScriptedModel()), log="its own, which it closes")
    sessions = runner.sessions

    def create() -> None:
        state = {"user:a": 1}
        made.append(acreate(sessions, "s", **state) if twin else sessions.create(**KEY, state=state))

    creator, closer = threading.Thread(target=create), threading.Thread(target=runner.close)
    creator.start()
    log.gate.arrived()
    closer.start()
    wait_until_blocked(closer)
    with pytest.raises(SessionClosedError):
        sessions.create(user_id="u", session_id="late")
    log.gate.open()
    for thread in (creator, closer):
        thread.join(30)
        assert not thread.is_alive()
    assert [(one.last_seq, one.state) for one in made] == [(1, {"user:a": 1})]


def test_changes_that_meet_the_close_are_made_and_reported_or_refused_by_their_type(tmp_path: Path) -> None:
    path, reported = tmp_path / "log", set[str]()
    for number in range(rounds(20, 300)):
        runner = Runner(app_with(ScriptedModel()), log=path)
        before = runner.sessions.create(user_id="u", session_id=f"{number}").session_id

        def change(name: str, what: Callable[[], object]) -> None:
            with suppress(SessionClosedError):
                what()
                reported.add(name)

        create = runner.sessions.create
        set_state = partial(runner.sessions.set_state, user_id="u", session_id=before, delta={"a": 1})
        delete = partial(runner.sessions.delete, user_id="u", session_id=before)
        new, anew = f"new {number}", f"anew {number}"
        at_once(
            partial(change, new, partial(create, user_id="u", session_id=new)),
            partial(change, anew, partial(acreate, runner.sessions, anew)),
            partial(change, before, delete if number % 2 else set_state),
            runner.close,
        )
    with LmdbEventLog(path) as log, Runner(app_with(ScriptedModel()), log=log) as runner:
        there = {entry.session_id for entry in runner.sessions.list()}
    deleted = {name for name in reported if name.isdigit() and int(name) % 2}
    assert (reported - deleted) <= there
    assert not deleted & there
