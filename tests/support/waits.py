"""`Waits`: on which limit calls to models wait, so that a test can move the clock at the right moment."""

import socket
import threading
from collections import Counter
from typing import Any

import pytest
from urllib3.util.wait import wait_for_write

from intermission.models.abort import AbortHandle
from intermission.testing import Gate

__all__ = ["Waits", "connects"]

_PATIENCE = 30.0  # seconds


def connects(patch: pytest.MonkeyPatch) -> Gate:
    """Return an open gate at which whoever connects arrives, unless the connection stands at once."""
    gate = Gate()
    gate.open()

    def wait(sock: socket.socket) -> bool:
        gate.wait()
        return wait_for_write(sock)

    patch.setattr("intermission.models.connections.wait_for_write", wait)
    return gate


class Waits:
    """Follows the handles of all calls from now on, until `patch` is undone."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._condition = threading.Condition()
        self._limits: dict[int, str] = {}
        self._begun = Counter[str]()
        wait, waited = AbortHandle.wait, AbortHandle.waited

        def waits(handle: AbortHandle) -> None:
            wait(handle)
            self._note(handle, getattr(handle, "_limit"))  # noqa: B009 - it is nobody else's business

        def has_waited(handle: AbortHandle) -> None:
            self._note(handle, "")
            waited(handle)

        patch.setattr(AbortHandle, "wait", waits)
        patch.setattr(AbortHandle, "waited", has_waited)

    def _note(self, handle: Any, limit: str) -> None:
        with self._condition:
            self._begun[limit] += 1
            self._limits[id(handle)] = limit
            self._condition.notify_all()

    def on(self, limit: str, times: int = 1) -> None:
        """Wait until a call waits for its service, no longer than `limit`, and that for the n-th time."""

        def waits() -> bool:
            return limit in self._limits.values() and self._begun[limit] >= times

        with self._condition:
            assert self._condition.wait_for(waits, _PATIENCE), limit
