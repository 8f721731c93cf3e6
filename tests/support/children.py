"""Python scripts that run beside a test, and messages between the two: values as JSON, one a line.

The test has a `Child`; the script calls `say` and `told`. A child never outlives the block that began it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import scale
from tree import ROOT, environment

__all__ = ["PATIENCE", "Child", "say", "told"]

PATIENCE = float(scale.rounds(60, 600))  # seconds; a child that says nothing for longer than this has hung


class Child:
    """A script as a process.

    Args:
        script: Its path, or the name, without `.py`, of one in `tests/storage/children`.
        arguments: What it finds in `sys.argv`.
        before: A command that is run with the script's command behind it, such as `unshare --mount`.
    """

    def __init__(self, script: str | Path, *arguments: str | Path, before: Sequence[str] = ()) -> None:
        path = script if isinstance(script, Path) else ROOT / "tests/storage/children" / f"{script}.py"
        env = environment()
        env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the child
        self._process = subprocess.Popen(
            [*before, sys.executable, str(path), *map(str, arguments)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._unread = b""

    def tell(self, message: object) -> None:
        """Send the script a message."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:
        """Return the script's next message.

        Raises:
            AssertionError: It ended, or said nothing for too long. What it wrote to `stderr` is shown.
        """
        message = self._next()
        assert message is not None, f"the child ended:\n{self.errors()}"
        return message

    def ask(self, message: object) -> Any:
        """Send the script a message and return its next one."""
        self.tell(message)
        return self.hear()

    def rest(self) -> list[Any]:
        """Return what the script still says, until it and the children that it left have ended."""
        messages: list[Any] = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def is_talking(self) -> bool:
        """Return whether the script's output is still open: it lives, or a child that it left does."""
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], 0)
        return not ready or self._next() is not None

    def signal(self, number: int) -> None:
        """Send the process a signal; return when one that stops it has done so."""
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        """End the process as `kill -9` does, and return when it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def end(self) -> None:
        """Close the script's input, and wait until it has ended without an error."""
        assert self._process.stdin
        self._process.stdin.close()
        code = self._process.wait(PATIENCE)
        assert code == 0, f"the child ended with {code}:\n{self.errors()}"

    def errors(self) -> str:
        """Return what the script wrote to `stderr`."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # the children that it left
        for file in (self._process.stdin, self._process.stdout, self._errors):
            assert file
            file.close()

    def _next(self) -> Any | None:
        assert self._process.stdout
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], deadline - time.monotonic())
            assert ready, f"the child said nothing for {PATIENCE} s:\n{self.errors()}"
            read = os.read(self._process.stdout.fileno(), 65536)
            if not read:
                return None
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)


def say(message: object) -> None:
    """In a script: send the test a message. It is out when the call returns, whatever happens then."""
    os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def told() -> Any:
    """In a script: wait for the test's next message; `None` when there are no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None
