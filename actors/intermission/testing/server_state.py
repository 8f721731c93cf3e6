"""`ServerState`: what the handlers of one `ModelServer` share: the script, its gates, and who hung up."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from intermission.testing.client_watch import ClientWatch
from intermission.testing.replies import Reply, Silence, SilentReply, StreamReply, WireReply
from intermission.testing.script import Script
from intermission.testing.sync import PATIENCE, Gate

__all__ = ["AnyReply", "ServerState"]

AnyReply = Reply | StreamReply | SilentReply | WireReply


class ServerState:
    """Shared by the threads of one server.

    Attributes:
        script: Gives each request its reply.
        errors: What went wrong in the server.
        strict: Whether requests with an illegal history are refused.
    """

    def __init__(
        self, script: Script[dict[str, Any], AnyReply], errors: list[BaseException], *, strict: bool
    ) -> None:
        self.script = script
        self.errors = errors
        self.strict = strict
        self._condition = threading.Condition()
        self._closing = False
        self._gates: set[Gate] = set()
        self._served: set[object] = set()  # clients whose reply is not complete
        self._gone: set[object] = set()
        self._aborted: dict[object, float] = {}
        self._headers: list[dict[str, str]] = []
        self._paths: list[str] = []
        self._held = 0
        self._watch = ClientWatch(self._add_gone)

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of each request so far, their names in lower case; a copy."""
        with self._condition:
            return list(self._headers)

    @property
    def paths(self) -> list[str]:
        """The path of each request so far, with its query; a copy."""
        with self._condition:
            return list(self._paths)

    @property
    def aborted_at(self) -> list[float]:
        """When each client that lost patience hung up, in monotonic seconds; a copy."""
        with self._condition:
            return sorted(self._aborted.values())

    @property
    def held(self) -> int:
        """How many clients have been left without an answer so far."""
        with self._condition:
            return self._held

    def add_request(self, path: str, headers: dict[str, str]) -> None:
        """Keep where a request went, and its headers."""
        with self._condition:
            self._paths.append(path)
            self._headers.append(headers)
            self._condition.notify_all()

    def watch(self, connection: socket.socket, client: object) -> Callable[[], None]:
        """Note it at once when the client hangs up; return what ends that."""
        return self._watch.add(connection, client)

    def forget(self, client: object) -> None:
        """The connection of a client has been served."""
        with self._condition:
            self._served.discard(client)
            self._gone.discard(client)

    def begin(self, client: object) -> None:
        """A client has a reply to wait for."""
        with self._condition:
            self._served.add(client)

    def complete(self, client: object) -> None:
        """Its reply is complete with what is sent next; from then on it may hang up as it likes."""
        with self._condition:
            self._served.discard(client)

    def add_aborted(self, client: object, now: float) -> None:
        """Count a client that did not wait for its reply; once, however often that is noticed."""
        with self._condition:
            if not self._closing:  # then it is this side that hangs up
                self._aborted.setdefault(client, now)
                self._condition.notify_all()

    def _add_gone(self, client: object, now: float) -> None:
        with self._condition:
            self._gone.add(client)
            self._condition.notify_all()
            if client in self._served:
                self.add_aborted(client, now)

    def wait_aborted(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until `count` requests have lost their client.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._aborted) >= count, timeout):
                raise TimeoutError(f"{len(self._aborted)} of {count} clients hung up within {timeout} s")

    def wait_held(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until `count` clients in all have been left without an answer.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: self._held >= count, timeout):
                raise TimeoutError(f"{self._held} of {count} clients were held within {timeout} s")

    def wait_requests(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until there have been `count` requests.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._headers) >= count, timeout):
                raise TimeoutError(f"{len(self._headers)} of {count} requests came within {timeout} s")

    def silence(self, *, has_tls: bool) -> Silence | None:
        """Return what the next connection is not to get, if that is not even a request."""
        reply = self.script.take_if(
            lambda reply: isinstance(reply, SilentReply) and reply.silence is not Silence.ANSWER
        )
        if not isinstance(reply, SilentReply):
            return None
        return reply.silence if has_tls else Silence.REQUEST

    def hold(self, client: object, seconds: float | None = None) -> None:
        """Wait for the client to hang up, or for so many seconds.

        Raises:
            ConnectionAbortedError: It has, or the server closes.
        """
        with self._condition:
            if seconds is None:
                self._held += 1
                self._condition.notify_all()
            if self._condition.wait_for(lambda: self._closing or client in self._gone, seconds):
                raise ConnectionAbortedError("the client hung up, or the server closes")

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
        """Let nobody stand at a gate or be silent any more: every gate of this server is opened."""
        with self._condition:
            self._closing = True
            gates = set(self._gates)
            self._condition.notify_all()
        for gate in gates:
            gate.open()

    def end(self) -> None:
        """Watch no client any more."""
        self._watch.close()

    def _check_open(self) -> None:
        if self._closing:
            raise ConnectionAbortedError("the model server closes")
