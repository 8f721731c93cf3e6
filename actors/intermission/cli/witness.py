"""What a model's server says of a call that its client has given up: the other side's word for it."""

import threading
import time
from typing import Protocol
from urllib.parse import urlsplit

from intermission.testing import ModelServer

__all__ = ["ScriptedWitness", "SlotsWitness", "Witness"]

_PATIENCE = 5.0  # seconds
_LOOK = 0.02  # seconds between two looks


class Witness(Protocol):
    """Somebody on the server's side."""

    def told(self, since: float) -> str:
        """Return in words what the server saw after `since`, in seconds of `time.monotonic`."""
        ...


class ScriptedWitness:
    """The scripted server of the demo, which notes when a client hangs up.

    Args:
        server: The server.
    """

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._before = server.aborted

    def told(self, since: float) -> str:
        """See `Witness.told`."""
        try:
            self._server.wait_aborted(self._before + 1, _PATIENCE)
        except TimeoutError:
            return f"has not seen the connection close within {_PATIENCE:g} s"
        return (
            f"saw the connection close {(self._server.aborted_at[-1] - since) * 1000:.1f} ms after the cancel"
        )


class SlotsWitness:
    """A server that tells at `/slots` which of its slots work on a request, as llama.cpp's does.

    Args:
        url: The base address of its models.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url = f"{parts.scheme}://{parts.netloc}/slots"

    def told(self, since: float) -> str:
        """See `Witness.told`."""
        while time.monotonic() - since < _PATIENCE:
            busy = self._busy()
            if busy is None:
                return "does not tell what it works on (it has no /slots)"
            if not busy:
                return (
                    f"works on nothing any more {(time.monotonic() - since) * 1000:.0f} ms after the cancel"
                )
            threading.Event().wait(_LOOK)
        return f"still works on it {_PATIENCE:g} s after the cancel"

    def _busy(self) -> int | None:
        """Return how many slots work, or `None` if the server does not say."""
        import requests

        try:
            answer = requests.get(self._url, timeout=_PATIENCE)
            return sum(bool(slot["is_processing"]) for slot in answer.json()) if answer.ok else None
        except (requests.RequestException, ValueError, TypeError, KeyError):
            return None
