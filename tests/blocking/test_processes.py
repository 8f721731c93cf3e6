import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired
from typing import Any

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from pids import has_ended
from pools import until
from races import at_once
from waiting import Attempt, until_still

ROUNDS = scale.rounds(20, 500)

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def made_by(run: Callable[..., object], **options: Any) -> dict[str, Any]:
    return vars(run(**options))


@pytest.mark.parametrize("scoped", [True, False])
def test_run_gives_what_subprocess_gives(scoped: bool) -> None:
    scope = CancelScope.child_of(None) if scoped else None
    options: list[dict[str, Any]] = [
        {"args": ["sh", "-c", "cat; echo err >&2; exit 3"], "input": b"in\r\n", "capture_output": True},
        {"args": ["cat"], "input": "ä\r\nö\r", "capture_output": True, "text": True},
        {"args": ["cat"], "input": "", "stdout": subprocess.PIPE, "encoding": "utf-16"},
        {"args": ["true"]},
        {"args": "echo $NAME", "shell": True, "env": {"NAME": "x"}, "stdout": subprocess.PIPE},
        {"args": ["sh", "-c", "echo a; echo b >&2"], "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
        {"args": ["sh", "-c", "exec <&-; exit 1"], "input": b"x" * 300_000, "stdout": subprocess.DEVNULL},
        {"args": ["sh", "-c", "kill -9 $$"], "start_new_session": True},
    ]
    for each in options:
        assert made_by(blocking.run, **each, scope=scope) == made_by(subprocess.run, **each)


def test_much_data_goes_both_ways_at_once() -> None:
    data = os.urandom(3_000_000)
    with CancelScope():
        assert blocking.run(["cat"], input=data, capture_output=True).stdout == data


def test_a_check_that_fails_and_options_that_clash_are_errors() -> None:
    with CancelScope():
        with pytest.raises(CalledProcessError) as raised:
            blocking.run(["sh", "-c", "echo out; exit 3"], check=True, capture_output=True)
        assert (raised.value.returncode, raised.value.stdout) == (3, b"out\n")
        with pytest.raises(ValueError, match="capture_output"):
            blocking.run(["true"], capture_output=True, stdout=subprocess.PIPE)
        with pytest.raises(ValueError, match="input"):
            blocking.run(["true"], input=b"", stdin=subprocess.PIPE)
        with pytest.raises(ValueError, match="process_group"):
            blocking.run(["true"], process_group=7)
        with pytest.raises(FileNotFoundError):
            blocking.run(["no-such-command-anywhere"])


def test_a_time_limit_ends_the_child_and_gives_what_it_had_written() -> None:
    with pytest.raises(TimeoutExpired) as raised:
        blocking.run(python(STUBBORN), stdout=subprocess.PIPE, timeout=1.0, grace=0.01)
    assert raised.value.stdout == b"ready\n"


def ready(child: "subprocess.Popen[bytes]", line: bytes = b"ready\n") -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == line


def test_a_child_that_heeds_the_signal_may_clean_up(tmp_path: Path) -> None:
    clean_up = f"trap 'sleep 0.1; echo clean > {tmp_path}/mark; exit 0' TERM"
    # No long sleep in the background: a shell that has just forked one may lose the signal for it.
    script = f"{clean_up}; echo > {tmp_path}/ready; while :; do sleep 0.05; done"
    scope = CancelScope.child_of(None)
    attempt = Attempt(blocking.run, ["sh", "-c", script], scope=scope)
    until((tmp_path / "ready").exists)
    began = time.monotonic()
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    assert attempt.ended_at - began < 1.9, "it ended by itself, before it was killed"
    assert (tmp_path / "mark").read_text() == "clean\n"


def test_a_child_that_does_not_is_killed_after_the_grace_with_its_children(tmp_path: Path) -> None:
    scope, pids = CancelScope.child_of(None), tmp_path / "pids"
    command = ["sh", "-c", f"trap '' TERM; sleep 1000 & echo $$ $! > {pids}; wait; wait"]
    attempt = Attempt(blocking.run, command, capture_output=True, grace=0.1, scope=scope)
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    for pid in map(int, pids.read_text().split()):
        until(partial(has_ended, pid))


def test_the_rest_of_the_group_has_the_rest_of_the_grace(tmp_path: Path) -> None:
    scope, mark = CancelScope.child_of(None), tmp_path / "mark"
    late = f"trap 'sleep 0.2; echo clean > {mark}; exit' TERM; sleep 1000 & echo > {tmp_path}/ready; wait"
    command = ["sh", "-c", 'sh -c "$0" > /dev/null & wait', late]
    attempt = Attempt(blocking.run, command, scope=scope)
    until((tmp_path / "ready").exists)
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    assert mark.read_text() == "clean\n"
    stubborn = [
        "sh",
        "-c",
        'sh -c "$0" > /dev/null & wait',
        f"trap '' TERM; echo $$ > {mark}; exec sleep 1000",
    ]
    mark.unlink()
    scope = CancelScope.child_of(None)
    attempt = Attempt(blocking.run, stubborn, scope=scope, grace=0.1)
    until(lambda: mark.exists() and mark.read_text().endswith("\n"))
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    until(partial(has_ended, int(mark.read_text())))


@pytest.mark.parametrize("call", ["run", "communicate"])
def test_a_process_that_left_the_group_and_holds_the_pipe_does_not_hold_the_wait(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pid = tmp_path / "pid"
    scope = CancelScope.child_of(None)
    command = ["sh", "-c", f"setsid sh -c 'echo $$ > {pid}; exec sleep 1000' & wait"]

    def communicate() -> object:
        with blocking.popen(command, stdout=subprocess.PIPE, grace=0.1, scope=scope) as child:
            return blocking.communicate(child, scope=scope)

    def run() -> object:
        return blocking.run(command, stdout=subprocess.PIPE, grace=0.1, scope=scope)

    attempt = Attempt(run if call == "run" else communicate)
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    began = time.monotonic()
    scope.cancel()
    try:
        assert isinstance(attempt.ended(), Cancelled)
        assert attempt.ended_at - began < 5
        assert not has_ended(int(pid.read_text())), "it has left the group, and is not ours to end"
        (told,) = caplog.records
        assert re.search(rf"goes on: (sh|sleep) \(process {int(pid.read_text())}\)$", told.getMessage())
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_an_interrupt_ends_the_child_too(tmp_path: Path) -> None:
    class Interrupt(BaseException):
        pass

    pid = tmp_path / "pid"
    with suppress(Interrupt), blocking.popen(["sh", "-c", f"echo $$ > {pid}; exec sleep 1000"]):
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        raise Interrupt
    assert has_ended(int(pid.read_text()))


def test_popen_gives_the_process_and_waits_for_it() -> None:
    with CancelScope(), blocking.popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert os.getpgid(child.pid) == child.pid
        assert blocking.communicate(child, b"in") == (b"in", None)
        assert blocking.wait(child) == 0
    with blocking.popen(["sh", "-c", "exit 7"]) as child:
        pass
    assert child.returncode == 7


def test_a_cancel_ends_a_read_in_the_block_of_popen_and_what_it_read_is_no_answer() -> None:
    scope = CancelScope.child_of(None)
    read: list[bytes] = []

    def wait() -> None:
        with blocking.popen(python(STUBBORN), stdout=subprocess.PIPE, grace=0.2, scope=scope) as child:
            ready(child)
            scope.cancel()
            assert child.stdout is not None
            read.append(child.stdout.read())

    assert isinstance(Attempt(wait).ended(), Cancelled)
    assert read == [b"no\n"], "it got one signal, and then it was killed"


def test_a_cancel_after_the_child_has_ended_takes_nothing_back() -> None:
    scope = CancelScope.child_of(None)
    with blocking.popen(["true"], scope=scope) as child:
        assert blocking.wait(child) == 0
        scope.cancel()
    assert child.returncode == 0


def test_giving_up_a_wait_leaves_the_child_to_its_owner() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        scope = CancelScope.child_of(None)
        attempt = Attempt(blocking.wait, child, scope=scope)
        until_still(attempt.thread)
        scope.cancel()
        assert isinstance(attempt.ended(), Cancelled)
        assert child.poll() is None
        assert blocking.communicate(child, b"in", scope=CancelScope()) == (b"in", None)


def test_a_child_that_somebody_else_has_reaped_has_ended() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED)
        assert blocking.wait(child, scope=CancelScope.child_of(None)) == 0


def test_a_system_that_cannot_wait_for_a_child_as_for_a_file_is_asked_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: int) -> int:
        raise PermissionError("not in this container")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    scope = CancelScope.child_of(None)
    assert blocking.run(["sh", "-c", "exit 3"], scope=scope).returncode == 3
    attempt = Attempt(blocking.run, ["sleep", "1000"], scope=scope)
    until_still(attempt.thread)
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)


def test_an_end_that_meets_the_cancel_is_returned_or_the_cancel_is_raised() -> None:
    for number in range(ROUNDS):
        reader, writer = os.pipe()
        scope = CancelScope.child_of(None)
        command = ["sh", "-c", f"read line; exit {number % 7}"]
        attempt = Attempt(blocking.run, command, stdin=reader, scope=scope)
        if number % 2:
            until_still(attempt.thread)
        at_once(partial(os.close, writer), scope.cancel)
        outcome: Any = attempt.ended()
        os.close(reader)
        assert isinstance(outcome, Cancelled) or outcome.returncode in {number % 7, 1}


def test_the_number_of_a_closed_descriptor_is_left_to_its_next_owner() -> None:
    stop = threading.Event()
    broken: list[OSError] = []

    def open_and_close() -> None:
        while not stop.is_set():
            one, other = os.pipe()
            try:
                os.write(other, b"x")
                os.read(one, 1)
                os.close(one)
                os.close(other)
            except OSError as error:
                broken.append(error)

    neighbour = threading.Thread(target=open_and_close)
    neighbour.start()
    with subprocess.Popen(["sleep", "1000"]) as child:
        for _ in range(5 * ROUNDS):
            scope = CancelScope.child_of(None)
            attempt = Attempt(blocking.wait, child, timeout=0, scope=scope)
            at_once(scope.cancel, scope.cancel)
            attempt.ended()
        child.kill()
    stop.set()
    neighbour.join(30)
    assert broken == []


def test_text_comes_decoded_as_from_subprocess() -> None:
    with (
        CancelScope(),
        blocking.popen(
            ["sh", "-c", "cat; printf 'a\\r\\nb' >&2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child,
    ):
        assert isinstance(child.stdout, io.TextIOWrapper)
        assert blocking.communicate(child, "in") == ("in", "a\nb")
