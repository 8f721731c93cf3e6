"""SIGTERM, SIGINT and SIGKILL to a process with runs under way, and what its log holds then."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps import APP, app_with, records
from children import PATIENCE
from intermission import Runner
from intermission.sessions.records import OPEN_RUNS
from intermission.testing import ScriptedModel
from intermission_storage import EventLog, LmdbEventLog
from scale import rounds
from signalled import NEVER
from tree import ROOT, environment

THREE = """
import sys, threading
from intermission import Runner
from signalled import began, say, signalled_app

runner = Runner(signalled_app(resumable=sys.argv[2] == "True"), log=sys.argv[1])
runner.close_on_signals(grace=float(sys.argv[3]))
for number, message in enumerate(sys.argv[4:]):
    runner.run(user_id="u", session_id=str(number), message=message).start()
for _ in sys.argv[4:]:
    assert began.acquire(timeout=60)
say("running")
threading.Event().wait()
"""

SHOWN = """
import os, sys, threading
from intermission import Runner
from signalled import say, signalled_app

runner = Runner(signalled_app(resumable=True), log=sys.argv[1])
runner.close_on_signals(grace=0)

def talk(session):
    while True:
        for event in runner.run(user_id="u", session_id=session, message="sleep 0"):
            os.write(1, f"{session} {event.seq}\\n".encode())

for number in range(8):
    threading.Thread(target=talk, args=(str(number),), daemon=True).start()
threading.Event().wait()
"""


@contextmanager
def child(program: str, *arguments: object, before: tuple[str, ...] = ()) -> Generator[subprocess.Popen[str]]:
    """A program that runs beside the test, and never outlives the block."""
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    command = [*before, sys.executable, "-c", program, *map(str, arguments)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    with process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            timer.join()
            process.kill()


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line that the program writes."""
    assert process.stdout
    return process.stdout.readline().strip()


def statuses(log: EventLog, *sessions: str) -> list[str | None]:
    """How the last run of each session has ended; `None` if its end is not in the log."""
    last = [records(log, session_id=session)[-1] for session in sessions]
    return [record.data["status"] if record.kind == "run_ended" else None for record in last]


def open_runs(log: EventLog) -> list[str]:
    """The sessions whose runs can be found as unfinished."""
    return sorted(entry.key[2] for entry in log.index(OPEN_RUNS, (APP,)))


@pytest.mark.scenario("H3")
@pytest.mark.parametrize("resumable", [False, True])
def test_a_sigterm_lets_end_what_ends_within_the_grace_and_records_the_rest(
    resumable: bool, tmp_path: Path
) -> None:
    messages = ("sleep 0.5", f"sleep {NEVER}", f"ignore {NEVER}")
    with child(THREE, tmp_path / "log", resumable, 2, *messages) as process:
        assert heard(process) == "running"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == -signal.SIGTERM
        assert time.monotonic() - began < PATIENCE / 2  # of the 600 s that the tools take
    left = "interrupted" if resumable else "cancelled"
    with LmdbEventLog(tmp_path / "log") as log:
        assert statuses(log, "0", "1", "2") == ["completed", left, left]
        assert open_runs(log) == (["1", "2"] if resumable else [])
        with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
            for session in ("1", "2"):  # nobody has them any more
                assert runner.run(user_id="u", session_id=session, message="hi").answer() == "ok"


@pytest.mark.scenario("H3")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_the_process_at_once_and_what_was_stored_is_kept(
    name: str, tmp_path: Path
) -> None:
    number = signal.Signals[name]
    with child(THREE, tmp_path / "log", True, NEVER, f"ignore {NEVER}") as process:
        assert heard(process) == "running"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:  # whichever of them comes to be the second
            process.send_signal(number)
            threading.Event().wait(0.01)
        assert process.returncode in {-number, -signal.SIGTERM}
    with LmdbEventLog(tmp_path / "log") as log:
        assert records(log, session_id="0")[-1].kind == "call_started"
        assert open_runs(log) == ["0"]


def stored(log: EventLog, session: str) -> list[tuple[str, object]]:
    """What a session's records say, but for what differs between two runs of one program."""
    kept = ("status", "tool", "content", "author", "openCalls")
    told: list[tuple[str, object]] = []
    for record in records(log, session_id=session):
        data = {name: record.data[name] for name in kept if name in record.data}
        data.pop("openCalls", None)
        told.append((record.kind, repr(data).partition("'id': ")[0]))
    return told


def test_a_deploy_loses_nothing_that_a_kill_would_have_kept(tmp_path: Path) -> None:
    messages = ("sleep 0", f"sleep {NEVER}", f"ignore {NEVER}", f"ignore {NEVER}")
    for name in ("SIGKILL", "SIGTERM"):
        with child(THREE, tmp_path / name, True, 0, *messages) as process:
            assert heard(process) == "running"
            with LmdbEventLog(tmp_path / name) as log:  # the quick one has ended
                while statuses(log, "0") == [None]:
                    log.follow(f"{APP}/u/0", after=log.head(f"{APP}/u/0").position, timeout=0.1)
            process.send_signal(signal.Signals[name])
            assert process.wait(PATIENCE) == -signal.Signals[name]
    with LmdbEventLog(tmp_path / "SIGKILL") as killed, LmdbEventLog(tmp_path / "SIGTERM") as closed:
        assert open_runs(closed) == open_runs(killed) == ["1", "2", "3"]
        for session in ("0", "1", "2", "3"):
            before = stored(killed, session)
            assert stored(closed, session)[: len(before)] == before
        assert statuses(killed, "0", "1", "2", "3") == ["completed", None, None, None]
        assert statuses(closed, "0", "1", "2", "3") == ["completed", *["interrupted"] * 3]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_whatever_was_shown_before_a_signal_is_in_the_log(name: str, tmp_path: Path) -> None:
    for number in range(rounds(2, 30)):
        path = tmp_path / str(number)
        with child(SHOWN, path) as process:
            lines = [heard(process) for _ in range(100 + 7 * number)]
            process.send_signal(signal.Signals[name])
            assert process.stdout
            lines += process.stdout.read().splitlines()
            assert process.wait(PATIENCE) == -signal.Signals[name]
        shown = {(session, int(seq)) for session, _, seq in (line.partition(" ") for line in lines)}
        with LmdbEventLog(path) as log:
            there = {
                (session, record.seq)
                for session in map(str, range(8))
                for record in records(log, session_id=session)
            }
            assert shown - there == set()
            if name == "SIGTERM":
                assert None not in statuses(log, *map(str, range(8)))


FORKING = """
import os, signal, sys, threading
from apps import app_with
from intermission import Runner
from intermission.testing import ScriptedModel
from signalled import say

runner = Runner(app_with(ScriptedModel()), log=sys.argv[1])
runner.close_on_signals()
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    os.write(writes, b"!")
    while True:
        threading.Event().wait(0.01)
os.read(reads, 1)
os.kill(child, signal.SIGTERM)
say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
runner.run(user_id="u", session_id="s", message="hi").cancel()
say("open")
runner.close()
"""


def test_a_signal_to_a_forked_child_takes_its_course_and_closes_no_runner(tmp_path: Path) -> None:
    with child(FORKING, tmp_path / "log") as process:
        assert heard(process) == str(-signal.SIGTERM)
        assert heard(process) == "open"
        assert process.wait(PATIENCE) == 0


UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--user", "--map-root-user")
FIRST = """
import os, signal, sys, threading
from apps import app_with
from intermission import Runner
from intermission.testing import ScriptedModel
from signalled import say

runner = Runner(app_with(ScriptedModel()), log=sys.argv[1])
runner.close_on_signals()
say(os.getpid())
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait()
"""


def _may_unshare() -> bool:
    return bool(shutil.which("unshare")) and not subprocess.call(
        [*UNSHARE, "true"], stderr=subprocess.DEVNULL
    )


@pytest.mark.skipif(not _may_unshare(), reason="this system makes no namespaces of processes")
def test_the_first_process_of_a_container_ends_after_the_close_too(tmp_path: Path) -> None:
    with child(FIRST, tmp_path / "log", before=UNSHARE) as process:
        assert heard(process) == "1"
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
