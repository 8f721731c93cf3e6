"""`ServedModel`: a `ModelServer` in a process of its own, so that its work holds up nobody who calls it.

Its times are comparable with ours: the monotonic clock is the machine's.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from certificates import ca_bundle, server_context
from children import Child, say, told
from intermission.testing import Gate, ModelServer, silent, stream, wire

__all__ = ["PHASES", "ServedModel"]

_SAID = b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'

# How the server holds a call in a phase, until its client hangs up.
PHASES: dict[str, Callable[[], Any]] = {
    "handshake": lambda: silent("handshake"),
    "proxy": lambda: silent("request"),
    "sending": lambda: silent("request"),
    "headers": lambda: silent("answer"),
    "first token": lambda: stream(Gate(), "one"),
    "stalled": lambda: stream("one", Gate()),
    "streaming": lambda: stream(*["word "] * 200_000),
    "no length": lambda: wire(_SAID, Gate()),
    "refusal": lambda: wire(b"because", Gate(), status=503),
}


class ServedModel:
    """The server's process; it ends with the block.

    Args:
        directory: Where it puts the certificates to trust.
        tls: Whether it speaks HTTPS.

    Attributes:
        url: The base address.
        ca_bundle: The file with those certificates.
        enqueued: How many calls it was told to hold so far.
        watcher: Its process, and the thread of it that sees clients hang up.
    """

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        self._child = Child(Path(__file__).resolve(), directory, "tls" if tls else "plain")
        try:
            url, watcher = self._child.hear()
        except BaseException:
            self._child.__exit__(None, None, None)
            raise
        self.url: str = url
        self.watcher: tuple[int, int] = self._child.pid, watcher
        self.ca_bundle = directory / "ca.pem"
        self.enqueued = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        with self._child:
            self._child.end()

    def enqueue(self, phase: str, count: int = 1) -> None:
        """Hold the next `count` calls in a phase."""
        self._ask("enqueue", phase, count)
        self.enqueued += count

    def wait_reached(self) -> None:
        """Wait until as many calls stand in their phase as were enqueued."""
        self._ask("reached")

    def wait_aborted(self, count: int) -> float:
        """Wait until `count` calls in all were aborted; return the monotonic second of the last of them."""
        return float(self._ask("aborted", count))

    def _ask(self, name: str, *arguments: object) -> Any:
        (answer,) = self._child.ask([name, *arguments])
        return answer


class _Server:
    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._held = 0
        self._shut: list[Gate] = []

    def enqueue(self, phase: str, count: int) -> None:
        for _ in range(count):
            reply = PHASES[phase]()
            self._server.enqueue(reply)
            pieces = getattr(reply, "pieces", getattr(reply, "chunks", ()))
            self._shut += [piece for piece in pieces if isinstance(piece, Gate)]
            self._held += phase in {"handshake", "proxy", "sending", "headers"}

    def reached(self) -> None:
        self._server.wait_held(self._held)
        for gate in self._shut:
            gate.arrived()

    def aborted(self, count: int) -> float:
        self._server.wait_aborted(count)
        for gate in self._shut:  # or who stands there would complain
            gate.open()
        self._shut.clear()
        return self._server.aborted_at[count - 1]


def _serve(directory: str, scheme: str) -> None:
    sys.setswitchinterval(0.0005)  # seconds; a reply that is being sent must not keep a close from being seen
    ca_bundle(Path(directory))
    with ModelServer(tls=server_context() if scheme == "tls" else None) as model_server:
        server = _Server(model_server)
        (watcher,) = [each.native_id for each in threading.enumerate() if each.name == "model-server-watch"]
        say([model_server.url, watcher])
        while (message := told()) is not None:
            name, *arguments = message
            say([getattr(server, name)(*arguments)])


if __name__ == "__main__":
    _serve(*sys.argv[1:])
