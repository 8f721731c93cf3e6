"""`ModelServer`: a scripted model behind real HTTP on this machine, in the protocols of the providers."""

import functools
import ssl
from typing import Any, Self

from intermission.testing.loopback import LoopbackServer
from intermission.testing.model_handler import ModelHandler
from intermission.testing.protocol import error_status
from intermission.testing.replies import ErrorReply, text
from intermission.testing.script import Script
from intermission.testing.server_state import AnyReply, ServerState
from intermission.testing.sync import PATIENCE

__all__ = ["ModelServer"]


class ModelServer:
    """Answers requests with the given replies in order, streamed or whole as each request asks.

    It listens from the start until `close`, or until the end of its `with` block. The path of a request
    says its protocol: see `intermission.testing.protocols`. Streamed replies are sent in chunked encoding,
    each piece at once; a `wire` reply ends with its connection.

    Args:
        replies: `text(…)`, `calls(…)`, `error(…)`, `stream(…)`, `silent(…)`, `wire(…)`, or a `str`, which is
            `text` of one piece.
        default: The reply when they are used up; with `None`, one more request is refused with status 400,
            and kept in `errors`.
        strict: Whether a request is refused with status 400 if the real service would refuse its messages or
            its tools: see `Wire.problems`.
        tls: A server's context, to speak HTTPS; `None` for plain HTTP.

    Raises:
        ValueError: A reply is an error that no HTTP answer means.
        TypeError: A reply is none of these.
    """

    def __init__(
        self,
        *replies: AnyReply | str,
        default: AnyReply | str | None = None,
        strict: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        script = Script[dict[str, Any], AnyReply](
            [_checked(reply) for reply in replies], None if default is None else _checked(default)
        )
        self._errors: list[BaseException] = []
        self._state = ServerState(script, self._errors, strict=strict)
        self._server = LoopbackServer(functools.partial(ModelHandler, self._state, tls), self._errors)
        self._root_url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.port}"
        self._closed = False
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The base address for a client of chat completions; it ends in `/v1`."""
        return f"{self._root_url}/v1"

    @property
    def root_url(self) -> str:
        """The base address for the other providers, without a path."""
        return self._root_url

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The JSON bodies of the requests for a chat so far, oldest first."""
        return self._state.script.requests

    @property
    def paths(self) -> list[str]:
        """The paths of those requests, with their queries."""
        return self._state.paths

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of those requests, their names in lower case."""
        return self._state.headers

    @property
    def aborted(self) -> int:
        """How many requests lost their client before the reply was complete.

        That is noticed at once.
        """
        return len(self._state.aborted_at)

    @property
    def aborted_at(self) -> list[float]:
        """When each of them hung up, in seconds of `time.monotonic`, in order."""
        return self._state.aborted_at

    @property
    def errors(self) -> list[BaseException]:
        """What went wrong in the server. `close` raises these; a test that means them clears the list."""
        return self._errors

    @property
    def held(self) -> int:
        """How many clients have met a `silent(…)` reply so far."""
        return self._state.held

    @property
    def connections(self) -> int:
        """How many connections it has accepted so far."""
        return self._server.accepted

    def enqueue(self, reply: AnyReply | str) -> None:
        """Put one more reply behind those that wait.

        Raises:
            ValueError: It is an error that no HTTP answer means.
            TypeError: It is no reply.
        """
        self._state.script.enqueue(_checked(reply))

    def wait_aborted(self, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until `aborted` is at least `count`.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        self._state.wait_aborted(count, timeout)

    def wait_held(self, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until `count` clients in all have met a `silent(…)` reply.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        self._state.wait_held(count, timeout)

    def wait_requests(self, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until there have been `count` requests for a chat.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        self._state.wait_requests(count, timeout)

    def hang_up(self) -> None:
        """Close every connection, those that wait for a further request, too, and go on listening."""
        self._server.hang_up()

    def close(self) -> None:
        """Hang up on every client and end every thread. A second close does nothing.

        Gates that replies have stood at are opened, and those replies break off.

        Raises:
            ExceptionGroup: Something went wrong in the server, see `errors`.
            TimeoutError: A thread did not end.
        """
        if self._closed:
            return
        self._closed = True
        self._state.close()
        try:
            self._server.stop()
        finally:
            self._state.end()
        if self._errors:
            raise BaseExceptionGroup("the model server met errors", self._errors)


def _checked(reply: AnyReply | str) -> AnyReply:
    checked = text(reply) if isinstance(reply, str) else reply
    if not isinstance(checked, AnyReply):  # pyright: ignore[reportUnnecessaryIsInstance] - tests without types
        raise TypeError(f"a ModelServer takes text(…), calls(…) and their like, or a str, not {reply!r}")
    if isinstance(checked, ErrorReply):
        error_status(checked)
    return checked
