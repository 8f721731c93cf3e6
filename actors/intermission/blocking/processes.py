"""`run`, `popen` and `communicate`: child processes, with a scope."""

import logging
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from subprocess import CompletedProcess, Popen, TimeoutExpired
from typing import Any

from intermission.blocking.aborting import Aborter
from intermission.blocking.parking import scope_for
from intermission.kernel.scope import CancelScope
from intermission.processes.groups import Group
from intermission.processes.pumps import End, Pump, alarm_of

__all__ = ["communicate", "popen", "run", "wait_for_process"]

logger = logging.getLogger(__name__)

_AGAIN = 0.05  # seconds between looks whether the grace is over


def run(
    args: Any,
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    grace: float = 2.0,
    scope: CancelScope | None = None,
    **options: Any,
) -> CompletedProcess[Any]:
    """Run a command and wait for it, as `subprocess.run`.

    The child leads a process group of its own. On a cancel, a timeout or any other exception the group is
    terminated, after the grace killed, and the child is reaped before this raises. What has left the group, a
    daemon for example, is not ended, and holds nothing up, even if it holds a pipe; a warning is logged that
    names it.

    Args:
        args: The command, and everything else, as for `subprocess.run`.
        timeout: Seconds; None: as long as it takes.
        grace: Seconds between SIGTERM and SIGKILL, if the group has not ended.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled; the group has ended, or was never started.
        subprocess.TimeoutExpired: The child, or what holds its pipes, has not ended in time.
        subprocess.CalledProcessError: With `check`, the return code is not 0.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("run", scope) or CancelScope.child_of(None)
    if input is not None:
        _set(options, "stdin", "input")
    if capture_output:
        _set(options, "stdout", "capture_output")
        _set(options, "stderr", "capture_output")
    with alarm_of(scope) as alarm:
        process: Popen[Any] = Popen(args, **_leading_a_group(options))
        group, pump = Group(process, grace, scope.escalate), None
        try:
            pump = Pump(process)
            pump.attach(input)
            _raise_unless_done(pump.run(timeout, alarm), process, pump, timeout, scope)
            process.wait()
            completed = CompletedProcess(process.args, process.returncode, *pump.output())
        except BaseException:
            group.end(pump)
            _report(process, group)
            raise
        finally:
            if pump is not None:
                pump.release()
            _close_pipes(process)
    if check:
        completed.check_returncode()
    return completed


@contextmanager
def popen(
    args: Any, *, grace: float = 2.0, scope: CancelScope | None = None, **options: Any
) -> Generator[Popen[Any]]:
    """Start a command for the time of the block, as `with subprocess.Popen(...)`.

    The child leads a process group of its own. A cancel terminates the group at once, whatever the block
    does, and after the grace kills it, so that a read from a pipe of it ends. A process that has left the
    group and holds the pipe can hold such a read; it cannot hold `communicate`. Leaving the block by an
    exception ends the group, too. Leaving it otherwise closes the pipes and waits for the child.

    Args:
        args: The command, and everything else, as for `subprocess.Popen`.
        grace: Seconds between SIGTERM and SIGKILL, if the group has not ended.
        scope: The scope that ends it; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled; the group has ended.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("popen", scope) or CancelScope.child_of(None)
    process: Popen[Any] = Popen(args, **_leading_a_group(options))
    group = Group(process, grace, scope.escalate)
    try:
        aborter = Aborter(scope, group.press, _AGAIN)
        try:
            yield process
            _close_pipes(process)
            if process.poll() is None:
                wait_for_process(process, None, scope)
        finally:
            aborter.leave()
        if group.was_told:
            scope.check()
    except BaseException as error:
        was_told = group.was_told
        group.end()
        _report(process, group)
        if was_told and isinstance(error, Exception):
            scope.check()
        raise
    finally:
        _close_pipes(process)


def communicate(
    process: Popen[Any],
    input: str | bytes | None = None,
    timeout: float | None = None,
    *,
    scope: CancelScope | None = None,
) -> tuple[Any, Any]:
    """Give a child its input, read its output and wait for it, as `process.communicate(input, timeout)`.

    Giving this up does nothing to the child; what was read from it by then is gone. Inside `popen` the child
    is ended as the block is left.

    Args:
        process: The child.
        input: What it shall read; a string if its pipes are text.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Returns:
        What the child has written to its output and its error pipe; None where there is no pipe.

    Raises:
        Cancelled: The scope is cancelled.
        subprocess.TimeoutExpired: It took too long. What was read is in the exception, and not read again.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("communicate", scope)
    if scope is None:
        return process.communicate(input, timeout)
    with alarm_of(scope) as alarm:
        pump = Pump(process)
        try:
            pump.attach(input)
            _raise_unless_done(pump.run(timeout, alarm), process, pump, timeout, scope)
        finally:
            pump.release()
    process.wait()
    _close_pipes(process)
    return pump.output()


def wait_for_process(process: Popen[Any], timeout: float | None, scope: CancelScope | None) -> int:
    """Wait for the end of a child; for `wait`."""
    scope = scope_for("wait", scope)
    if scope is not None and process.poll() is None:
        with alarm_of(scope) as alarm:
            pump = Pump(process)
            try:
                _raise_unless_done(pump.run(timeout, alarm), process, pump, timeout, scope)
            finally:
                pump.release()
        timeout = None  # it has ended
    return process.wait(timeout)


def _report(process: Popen[Any], group: Group) -> None:
    leavers = group.leavers
    if leavers:
        logger.warning(
            "child %d has ended, but what had left its process group goes on: %s",
            process.pid,
            ", ".join(f"{one.command} (process {one.pid})" for one in leavers),
        )


def _raise_unless_done(
    end: End, process: Popen[Any], pump: Pump, timeout: float | None, scope: CancelScope
) -> None:
    if end is End.CANCELLED:
        scope.check()
    if end is End.TIMEOUT and timeout is not None:
        raise TimeoutExpired(process.args, timeout, *pump.output(as_bytes=True))


def _set(options: dict[str, Any], name: str, by: str) -> None:
    if options.get(name) is not None:
        raise ValueError(f"{by} needs {name} for itself; give one of them")
    options[name] = subprocess.PIPE


def _leading_a_group(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("process_group") is not None:
        raise ValueError(
            "process_group is chosen here: the child leads a group of its own, to be ended with it"
        )
    # The leader of a session leads a group already.
    return options if options.get("start_new_session") else {**options, "process_group": 0}


def _close_pipes(process: Popen[Any]) -> None:
    for stream in (process.stdout, process.stderr, process.stdin):
        if stream is not None:
            with suppress(OSError):  # what is left in its buffer has no reader
                stream.close()
