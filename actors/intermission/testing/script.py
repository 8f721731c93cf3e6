"""`Script`: replies in order to the requests that come in, on any thread."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

__all__ = ["Script"]

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

_SHOWN = 300  # characters of the last message of a request that found no reply


class Script(Generic[RequestT, ReplyT]):
    """Gives each request its reply: the queued ones in order, then the default again and again."""

    def __init__(self, replies: Iterable[ReplyT], default: ReplyT | None) -> None:
        self._lock = threading.Lock()
        self._replies = deque(replies)
        self._default = default
        self._requests: list[RequestT] = []

    def enqueue(self, reply: ReplyT) -> None:
        """Put a reply behind those that wait."""
        with self._lock:
            self._replies.append(reply)

    def take(self, request: RequestT) -> ReplyT:
        """Record the request and return its reply.

        Raises:
            AssertionError: The script is used up, and there is no default.
        """
        with self._lock:
            self._requests.append(request)
            reply = self._replies.popleft() if self._replies else self._default
            if reply is None:
                raise AssertionError(
                    f"the script is used up: there is no reply to request {len(self._requests)}, which ends "
                    f"with {_last(request)[:_SHOWN]}; give it one more, or a default"
                )
            return reply

    def take_if(self, wanted: Callable[[ReplyT], bool]) -> ReplyT | None:
        """Return the next queued reply if it is wanted, before there is a request."""
        with self._lock:
            return self._replies.popleft() if self._replies and wanted(self._replies[0]) else None

    @property
    def requests(self) -> list[RequestT]:
        """The requests so far, oldest first; a copy."""
        with self._lock:
            return list(self._requests)


def _last(request: object) -> str:
    """Return the last message of a request to a model, or of the body of one; all of anything else."""
    said: Any
    shown: object = request
    if isinstance(request, Mapping):
        fields = cast("Mapping[str, Any]", request)
        said = fields.get("messages") or fields.get("contents")
    else:
        said = getattr(request, "contents", None)
    if said:
        shown = said[-1]
    return repr(shown)
