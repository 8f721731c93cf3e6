"""`ModelHandler`: one connection of a `ModelServer`: reads requests, sends scripted replies."""

import json
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

from intermission.errors import ModelErrorKind
from intermission.testing.chat_wire import ChatWire, models_body
from intermission.testing.protocol import Wire, error_status
from intermission.testing.protocols import wire_of
from intermission.testing.replies import (
    CallsReply,
    Cut,
    ErrorReply,
    Pings,
    Silence,
    SilentReply,
    StreamReply,
    TextReply,
    WireReply,
)
from intermission.testing.server_state import AnyReply, ServerState
from intermission.testing.sync import Gate

__all__ = ["ModelHandler"]


class ModelHandler(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after another.

    Args:
        state: What the server's handlers share.
        tls: Makes the connection one over TLS; `None` for a plain one.
        request, client_address, server: See `socketserver`.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a small piece must not wait for the client to acknowledge the one before

    def __init__(
        self,
        state: ServerState,
        tls: ssl.SSLContext | None,
        request: socket.socket,
        client_address: Any,
        server: Any,
    ) -> None:
        self._state = state
        self._tls = tls
        self._wire: Wire = ChatWire()  # of the request in hand; of a request to nowhere, the usual one
        self._client = object()  # stands for the client in the count of those that went away
        forget = state.watch(request, self._client)
        try:
            super().__init__(request, client_address, server)  # serves the connection, then returns
        finally:
            forget()
            state.forget(self._client)
            self.request.close()

    def setup(self) -> None:
        """Greet the client, as far as the script lets that happen."""
        silence = self._state.silence(has_tls=self._tls is not None)
        if silence is not None:
            self._state.begin(self._client)
        if silence is Silence.HANDSHAKE:
            self._state.hold(self._client)
        if self._tls is not None:
            try:
                self.request = self._tls.wrap_socket(self.request, server_side=True)
            except OSError as error:
                raise ConnectionAbortedError("the client did not agree on TLS") from error
        if silence is not None:
            self._state.hold(self._client)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: what goes wrong is kept as an error."""

    def do_GET(self) -> None:
        """Answer with the list of models."""
        if self.path == "/v1/models":
            self._send_json(200, models_body())
        else:
            self._refuse(404, f"there is nothing at {self.path}")

    def do_POST(self) -> None:
        """Answer with the script's next reply."""
        self._state.begin(self._client)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        wire = wire_of(path)
        if wire is None:
            self._refuse(404, f"there is nothing at {self.path}")
            return
        self._wire = wire
        try:
            parsed: object = json.loads(body)
        except ValueError:
            self._refuse(400, "the body is not JSON")
            return
        if not isinstance(parsed, dict):
            self._refuse(400, "the body is not a JSON object")
            return
        request = cast("dict[str, Any]", parsed)
        if self._state.strict and (found := wire.problems(request)):
            self._refuse(400, "; ".join(found))
            return
        self._state.add_request(self.path, {name.lower(): value for name, value in self.headers.items()})
        try:
            reply = self._state.script.take(request)
        except AssertionError as error:
            self._state.errors.append(error)
            self._refuse(400, str(error))
            return
        try:
            self._reply(reply, request, streamed=wire.streams(path, request))
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True
            self._state.add_aborted(self._client, time.monotonic())
        except TimeoutError as error:
            # The base class takes a TimeoutError for its own, and would say nothing of it.
            raise RuntimeError(f"the reply to {self.path} stood too long at a gate") from error

    def _reply(self, reply: AnyReply, request: Mapping[str, Any], *, streamed: bool) -> None:
        match reply:
            case ErrorReply():
                self._send_error(reply)
            case WireReply():
                self._send_wire(reply)
            case SilentReply():
                self._state.hold(self._client)
            case TextReply() | CallsReply() if not streamed:
                for piece in reply.pieces:
                    if isinstance(piece, Gate):
                        self._state.stand_at(piece)
                self._send_json(200, self._wire.whole_body(reply, request))
            case TextReply() | CallsReply() | StreamReply():
                self._send_stream(reply, request)

    def _send_stream(self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]) -> None:
        wire = self._wire
        events = wire.stream_events(reply, request)
        self._begin(200, {"Content-Type": wire.content_type, "Transfer-Encoding": "chunked"})
        for event in events:
            if isinstance(event, Gate):
                self._state.stand_at(event)
            elif isinstance(event, Pings):
                self._ping(event)
            elif isinstance(event, Cut):
                self._break_off(event)
                return
            else:
                self.wfile.write(_chunk(event))
        self._state.complete(self._client)
        # At once: a client may hang up as soon as it has the end marker, and has not aborted anything then.
        end = _chunk(wire.end_marker) if wire.end_marker else b""
        self.wfile.write(end + _chunk(b""))

    def _ping(self, pings: Pings) -> None:
        while True:
            self.wfile.write(_chunk(self._wire.ping))
            self._state.hold(self._client, pings.every)

    def _break_off(self, cut: Cut) -> None:
        self._state.complete(self._client)
        if cut is Cut.END:
            self.wfile.write(_chunk(b""))
            return
        self.close_connection = True
        if cut is Cut.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _send_wire(self, reply: WireReply) -> None:
        self.close_connection = True
        self._begin(
            reply.status, {"Content-Type": reply.content_type, "Connection": "close", **reply.headers}
        )
        *before, last = reply.chunks or (b"",)
        for chunk in before:
            self._send_chunk(chunk)
        if not isinstance(last, Gate):
            self._state.complete(self._client)
        self._send_chunk(last)

    def _send_chunk(self, chunk: bytes | Gate) -> None:
        if isinstance(chunk, Gate):
            self._state.stand_at(chunk)
        else:
            self.wfile.write(chunk)

    def _send_error(self, reply: ErrorReply) -> None:
        status = error_status(reply)
        if status is None:
            self.close_connection = True
            return
        headers = {} if reply.retry_after is None else {"Retry-After": f"{reply.retry_after:g}"}
        self._send_json(status, self._wire.error_body(reply.message, reply.kind, status), headers)

    def _refuse(self, status: int, message: str) -> None:
        self._send_json(status, self._wire.error_body(message, ModelErrorKind.VALIDATION, status))

    def _send_json(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
        self._state.complete(self._client)
        self._begin(
            status,
            {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})},
        )
        self.wfile.write(data)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _chunk(data: bytes) -> bytes:
    """Frame a piece for chunked encoding; an empty one ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
