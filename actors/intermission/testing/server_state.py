"""`ServerState`: what the handlers of one `ModelServer` share: the script, its gates, and who hung up."""

import threading
from typing import Any

from intermission.testing.replies import Reply, WireReply
from intermission.testing.script import Script
from intermission.testing.sync import PATIENCE, Gate

__all__ = ["ServerState"]


class ServerState:
    """Shared by the threads of one server.

    Attributes:
        script: Gives each request its reply.
        errors: What went wrong in the server.
    """

    def __init__(
        self, script: Script[dict[str, Any], Reply | WireReply], errors: list[BaseException]
    ) -> None:
        self.script = script
        self.errors = errors
        self._condition = threading.Condition()
        self._closing = False
        self._gates: set[Gate] = set()
        self._hung_up: set[object] = set()
        self._headers: list[dict[str, str]] = []

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of each request so far, their names in lower case; a copy."""
        with self._condition:
            return list(self._headers)

    @property
    def aborted(self) -> int:
        """How many requests lost their client before the reply was complete."""
        with self._condition:
            return len(self._hung_up)

    def add_headers(self, headers: dict[str, str]) -> None:
        """Keep the headers of a request."""
        with self._condition:
            self._headers.append(headers)

    def add_aborted(self, client: object) -> None:
        """Count a client that went away; once, however often that is noticed."""
        with self._condition:
            if not self._closing:  # then it is this side that hangs up
                self._hung_up.add(client)
                self._condition.notify_all()

    def wait_aborted(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until `count` requests have lost their client.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._hung_up) >= count, timeout):
                raise TimeoutError(f"{len(self._hung_up)} of {count} clients hung up within {timeout} s")

    def stand_at(self, gate: Gate) -> None:
        """Wait at a gate until the test opens it.

        Raises:
            ConnectionAbortedError: The server closes.
            TimeoutError: Nobody opened it in time.
        """
        with self._condition:
            self._check_open()
            self._gates.add(gate)
        gate.wait()
        with self._condition:
            self._check_open()

    def close(self) -> None:
        """Let nobody stand at a gate any more: every gate of this server is opened."""
        with self._condition:
            self._closing = True
            gates = set(self._gates)
        for gate in gates:
            gate.open()

    def _check_open(self) -> None:
        if self._closing:
            raise ConnectionAbortedError("the model server closes")
