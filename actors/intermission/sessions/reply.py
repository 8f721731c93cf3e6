"""`Reply`: what a session's actor makes of a message, for a caller who waits for it."""

import threading
from typing import Any, Generic, TypeVar, cast

from intermission.errors import SessionClosedError
from intermission.kernel.dispatcher import blocking_here
from intermission.kernel.ref import ActorRef

__all__ = ["Reply"]

_LOOK = 0.25  # seconds between two looks whether the actor that is to answer still lives

T = TypeVar("T")


class Reply(Generic[T]):
    """What a session's actor makes of a message; it may stop before it comes to it."""

    def __init__(self) -> None:
        self._given = threading.Event()
        self._outcome: T | BaseException | None = None

    def give(self, outcome: T | BaseException) -> None:
        self._outcome = outcome
        self._given.set()

    def of(self, ref: ActorRef[Any]) -> T:
        with blocking_here():
            return self._of(ref)

    def _of(self, ref: ActorRef[Any]) -> T:
        while not self._given.wait(_LOOK):
            # Whoever stops has answered before, so that looking again is enough.
            if not ref.is_alive() and not self._given.is_set():
                raise SessionClosedError(
                    "the session stopped, as when its runner is closed, before it could answer: whether the "
                    "change was stored, a look at the session tells"
                )
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return cast(T, self._outcome)
