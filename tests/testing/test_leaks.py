"""`assert_nothing_left` finds each kind of leftover, names it, and waits for what is on its way out."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from intermission.testing import assert_nothing_left, leaks

SOON = 0.05  # seconds; how long a check waits that is meant to fail


@pytest.fixture
def opened() -> Iterator[threading.Event]:
    """What the threads of a test wait for; it is set at the end, so that they all go."""
    event = threading.Event()
    yield event
    event.set()


@contextmanager
def reported(
    pattern: str, *, directories: Iterable[Path] = (), ignore: Collection[str] = ()
) -> Generator[None]:
    """Check that what the block leaves behind is reported, in words that match `pattern`."""
    with (
        pytest.raises(AssertionError, match=pattern),
        assert_nothing_left(directories=directories, ignore=ignore, timeout=SOON),
    ):
        yield


def child() -> "subprocess.Popen[bytes]":
    """Start a process that lives until its standard input is closed."""
    command = [sys.executable, "-c", "input()"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def test_a_block_that_leaves_nothing_passes(tmp_path: Path) -> None:
    with assert_nothing_left(directories=[tmp_path]):
        (tmp_path / "file").write_text("")
        (tmp_path / "file").unlink()
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        end(child())


def test_a_thread_left_behind_is_named_with_the_line_where_it_is(opened: threading.Event) -> None:
    with reported(r"  daemon thread 'straggler', in .*threading\.py:\d+"):
        threading.Thread(target=opened.wait, name="straggler", daemon=True).start()


def test_a_thread_that_is_slow_to_end_is_waited_for(opened: threading.Event) -> None:
    looks = 0

    def end_at_the_third_look() -> Iterator[object]:
        nonlocal looks
        looks += 1
        if looks == 3:
            opened.set()
        return look_at_threads()

    look_at_threads = leaks._threads  # pyright: ignore[reportPrivateUsage]  # the only way to count looks
    with pytest.MonkeyPatch.context() as patch, assert_nothing_left():
        threading.Thread(target=opened.wait, name="slow").start()
        patch.setattr(leaks, "_threads", end_at_the_third_look)
    assert looks >= 3


def test_threads_that_were_there_before_do_not_count(opened: threading.Event) -> None:
    threading.Thread(target=opened.wait, name="older").start()
    with assert_nothing_left(timeout=SOON):
        pass


def test_an_open_file_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "open.txt"
    descriptor = -1
    with reported(rf"descriptor \d+: {path}"):
        descriptor = os.open(path, os.O_CREAT)
    os.close(descriptor)


def test_a_descriptor_that_took_the_number_of_another_is_found(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "first", os.O_CREAT)
    with reported(rf"descriptor {descriptor}: .*second"):
        os.close(descriptor)
        assert os.open(tmp_path / "second", os.O_CREAT) == descriptor
    os.close(descriptor)


def test_an_open_connection_is_named_by_both_its_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with reported(rf"AF_INET SOCK_STREAM socket 127\.0\.0\.1:\d+ to {address}"):
            connection = socket.create_connection(server.getsockname())
        connection.close()


def test_a_listening_socket_is_named_by_its_address() -> None:
    with reported(r"AF_INET SOCK_STREAM socket 127\.0\.0\.1:\d+$"):
        server = socket.create_server(("127.0.0.1", 0))
    server.close()


def test_a_running_child_is_named_by_its_number_and_command() -> None:
    process = None
    with reported(r"child \d+: .* -c input\(\)"):
        process = child()
    assert process is not None
    end(process)


def test_a_child_that_nobody_has_waited_for_is_left_behind() -> None:
    process = None
    with reported(r"child \d+: .*, ended, but nobody has waited for it"):
        process = subprocess.Popen([sys.executable, "-c", ""])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process is not None
    process.wait()


def test_new_entries_of_the_directories_are_named(tmp_path: Path) -> None:
    (tmp_path / "older").write_text("")
    found = rf":\n  directory {tmp_path}/log\.lmdb\n  file {tmp_path}/note\.txt$"
    with reported(found, directories=[tmp_path], ignore={"cache"}):
        (tmp_path / "note.txt").write_text("")
        (tmp_path / "log.lmdb").mkdir()
        (tmp_path / "cache").mkdir()


def test_a_directory_that_comes_into_being_in_the_block_was_empty_before(tmp_path: Path) -> None:
    with reported(r"file .*/new/file", directories=[tmp_path / "new"]):
        (tmp_path / "new").mkdir()
        (tmp_path / "new/file").write_text("")


def test_an_exception_of_the_block_goes_on_as_it_is(opened: threading.Event) -> None:
    @assert_nothing_left(timeout=SOON)
    def leak_and_fail() -> None:
        threading.Thread(target=opened.wait, name="straggler").start()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leak_and_fail()


def test_without_proc_threads_and_descriptors_are_still_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: threading.Event
) -> None:
    monkeypatch.setattr(leaks, "_PROC", tmp_path / "no-proc")
    descriptor = -1
    with reported(r"(?s)descriptor \d+: device \d+, inode \d+.*thread 'straggler'"):
        descriptor = os.open(tmp_path, os.O_RDONLY)
        threading.Thread(target=opened.wait, name="straggler").start()
    os.close(descriptor)
