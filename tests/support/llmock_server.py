"""`llmock` as a process: a service that others wrote, with faults on demand, which judges its clients."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import requests

__all__ = ["LlmockServer", "llmock_server"]

_PATIENCE = 30.0  # seconds
_RUNNING = "Uvicorn running on "


class LlmockServer:
    """A server that runs, at its address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def script(self, **behavior: Any) -> None:
        """Let the next request, or as many as `times` says, meet a fault."""
        self._ask("POST", "scenario", {"behaviors": [behavior]})

    def reset(self) -> None:
        """Forget requests and faults."""
        self._ask("POST", "reset", {})

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What became of each request, oldest first. Waits a little for those that are not over."""
        found: list[dict[str, Any]] = self._ask("GET", "requests")["requests"]
        return found

    @property
    def findings(self) -> list[str]:
        """The codes of what it does not like about its client."""
        return [finding["code"] for finding in self._ask("GET", "verdict")["findings"]]

    def _ask(self, method: str, what: str, body: object = None) -> Any:
        url = f"{self.address}/_llmock/{what}"
        with requests.request(method, url, json=body, timeout=_PATIENCE) as answer:
            answer.raise_for_status()
            return answer.json()


@contextmanager
def llmock_server() -> Generator[LlmockServer]:
    """Run a server, until the block ends."""
    command = [sys.executable, "-m", "llmock.cli", "serve", "--port", "0", "--stream-chunk-delay-ms", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line)
                if _RUNNING in line:
                    yield LlmockServer(line.partition(_RUNNING)[2].split()[0])
                    break
            else:
                raise AssertionError(f"llmock did not start:\n{''.join(said)}")
        finally:
            process.kill()
