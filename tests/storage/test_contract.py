"""Every log of ours passes the contract."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from intermission_storage import EventLog, LmdbEventLog, MemoryEventLog
from intermission_storage.testing.contract import EventLogContract, Harness
from tree import environment

CLAIM_AND_WAIT = """
import sys
from intermission_storage import Kind, LmdbEventLog, Record

log = LmdbEventLog(sys.argv[1])
print(log.append(sys.argv[2], [Record(Kind.EVENT, {"number": 0})], claim=True).token, flush=True)
sys.stdin.read()
"""


class MemoryHarness(Harness):
    """Logs that share one memory, which this one keeps."""

    def __init__(self) -> None:
        self.memory = MemoryEventLog()

    def open(self) -> EventLog:
        return MemoryEventLog(share=self.memory)


class LmdbHarness(Harness):
    """Logs of one directory. An owner dies with its process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> EventLog:
        return LmdbEventLog(self.path)

    def claim_and_die(self, stream: str) -> int:
        with subprocess.Popen(
            [sys.executable, "-c", CLAIM_AND_WAIT, str(self.path), stream],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                token = int(process.stdout.readline())
            finally:
                process.send_signal(signal.SIGKILL)
        return token


class TestMemoryEventLog(EventLogContract):
    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness()


class TestLmdbEventLog(EventLogContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return LmdbHarness(tmp_path / "log")
