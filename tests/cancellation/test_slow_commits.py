"""A dispose inside a commit that takes its time: the event is whole or absent, and shown only if it is in."""

import threading
from pathlib import Path

import pytest

from apps import KEY, app_with, records
from intermission import Event, Runner, RunStatus
from intermission.testing import FaultyLog, ScriptedModel, calls
from intermission_storage import EventLog, Kind, LmdbEventLog, MemoryEventLog, StorageError
from loops import PATIENCE

COMMIT = 0.3  # seconds that the commit takes

# The batches of a run: its beginning, the call, the response, the answer with the end.
BATCHES = {
    1: ["session_created", "run_started", "event"],
    2: ["event", "call_started"],
    3: ["call_finished", "event"],
    4: ["event", "run_ended"],
}


def look() -> str:
    """Look."""
    return "seen"


def slow(log: FaultyLog, number: int) -> tuple[threading.Event, threading.Thread]:
    """Have the n-th commit take its time; return what is set when it has begun, and who lets it go on."""
    gate, begun, never = log.hold(number), threading.Event(), threading.Event()

    def let_go() -> None:
        gate.arrived()
        begun.set()
        never.wait(COMMIT)
        gate.open()

    thread = threading.Thread(target=let_go)
    thread.start()
    return begun, thread


@pytest.mark.scenario("B9")
@pytest.mark.parametrize(
    ("number", "refused"), [(1, False), (2, False), (3, False), (4, False), (2, True), (3, True)]
)
@pytest.mark.parametrize("store", ["memory", "lmdb"])
def test_an_event_whose_commit_a_dispose_meets_is_whole_or_absent_and_shown_only_if_it_is_there(
    store: str, number: int, refused: bool, tmp_path: Path
) -> None:
    inner: EventLog = MemoryEventLog() if store == "memory" else LmdbEventLog(tmp_path / "log")
    log, shown, told = FaultyLog(inner), list[Event](), threading.Event()
    with log, Runner(app_with(ScriptedModel(calls(("look", {})), default="ok"), look), log=log) as runner:
        begun, thread = slow(log, number)
        if refused:
            log.refuse(number, StorageError("no"))
        run = runner.run(**KEY, message="hi")
        run.subscribe(shown.append, on_finally=lambda _: told.set())
        assert begun.wait(PATIENCE)
        receipt = run.dispose("within the commit")
        assert not receipt.durable  # it has not waited for the commit
        result = run.result(PATIENCE)
        assert run.wait_terminated(PATIENCE)
        assert told.wait(PATIENCE)
        thread.join(PATIENCE)

        stored = records(log)
        before = [kind for batch in range(1, number + 1 - refused) for kind in BATCHES[batch]]
        if number == len(BATCHES):
            assert (receipt.already_ending, result.status) == (True, RunStatus.COMPLETED)
            assert [record.kind for record in stored] == before
        else:
            assert (receipt.accepted, result.status) == (True, RunStatus.CANCELLED)
            assert [record.kind for record in stored] == [*before, "cancel_requested", "run_ended"]
        events = [record.seq for record in stored if record.kind == Kind.EVENT]
        assert [event.seq for event in shown] == events[1:]  # the first is the user's

        assert runner.run(**KEY, message="again").answer(PATIENCE) == "ok"
        assert [record.seq for record in records(log)] == list(range(1, len(records(log)) + 1))
