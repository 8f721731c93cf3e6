"""`ModelHandler`: one connection of a `ModelServer`: reads requests, sends scripted replies."""

import json
import select
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from intermission.errors import ModelErrorKind
from intermission.testing.chat_wire import (
    END_MARKER,
    error_body,
    error_status,
    models_body,
    stream_events,
    whole_body,
)
from intermission.testing.replies import CallsReply, ErrorReply, Reply, TextReply, WireReply
from intermission.testing.server_state import ServerState
from intermission.testing.sync import Gate

__all__ = ["ModelHandler"]


class ModelHandler(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after another."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a small piece must not wait for the client to acknowledge the one before

    def __init__(self, state: ServerState, request: Any, client_address: Any, server: Any) -> None:
        self._state = state
        self._client = object()  # stands for the client in the count of those that went away
        super().__init__(request, client_address, server)  # serves the connection, then returns

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
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._refuse(404, f"there is nothing at {self.path}")
            return
        try:
            request = json.loads(body)
        except ValueError:
            self._refuse(400, "the body is not JSON")
            return
        self._state.add_headers({name.lower(): value for name, value in self.headers.items()})
        try:
            reply = self._state.script.take(request)
        except AssertionError as error:
            self._state.errors.append(error)
            self._refuse(400, str(error))
            return
        try:
            self._reply(reply, request)
        except ConnectionError:
            self.close_connection = True
            self._state.add_aborted(self._client)
        except TimeoutError as error:
            # The base class takes a TimeoutError for its own, and would say nothing of it.
            raise RuntimeError(f"the reply to {self.path} stood too long at a gate") from error

    def _reply(self, reply: Reply | WireReply, request: Mapping[str, Any]) -> None:
        model = str(request.get("model"))
        match reply:
            case ErrorReply():
                self._send_error(reply)
            case WireReply():
                self._send_wire(reply)
            case TextReply() | CallsReply() if request.get("stream"):
                options: Mapping[str, Any] | None = request.get("stream_options")
                with_usage = bool(options and options.get("include_usage"))
                self._send_stream(reply, model, with_usage=with_usage)
            case TextReply() | CallsReply():
                for piece in reply.pieces:
                    if isinstance(piece, Gate):
                        self._stand_at(piece)
                self._send_json(200, whole_body(reply, model))

    def _send_stream(self, reply: TextReply | CallsReply, model: str, *, with_usage: bool) -> None:
        self._begin(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for event in stream_events(reply, model, with_usage=with_usage):
            if isinstance(event, Gate):
                self._stand_at(event)
            else:
                self.wfile.write(_chunk(event))
        # At once: a client may hang up as soon as it has the end marker, and has not aborted anything then.
        self.wfile.write(_chunk(END_MARKER) + _chunk(b""))

    def _send_wire(self, reply: WireReply) -> None:
        self.close_connection = True
        self._begin(
            reply.status, {"Content-Type": reply.content_type, "Connection": "close", **reply.headers}
        )
        for chunk in reply.chunks:
            if isinstance(chunk, Gate):
                self._stand_at(chunk)
            else:
                self.wfile.write(chunk)

    def _send_error(self, reply: ErrorReply) -> None:
        status = error_status(reply)
        if status is None:
            self.close_connection = True
            return
        headers = {} if reply.retry_after is None else {"Retry-After": f"{reply.retry_after:g}"}
        self._send_json(status, error_body(reply.message, reply.kind), headers)

    def _refuse(self, status: int, message: str) -> None:
        self._send_json(status, error_body(message, ModelErrorKind.VALIDATION))

    def _send_json(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
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

    def _stand_at(self, gate: Gate) -> None:
        with self._watching_client():
            self._state.stand_at(gate)

    @contextmanager
    def _watching_client(self) -> Generator[None]:
        """Note it at once if the client goes away while this thread waits for something else."""
        ours, watchers = socket.socketpair()
        watcher = threading.Thread(
            target=self._watch_client, args=(watchers,), name="model-server-watch", daemon=True
        )
        with ours, watchers:
            watcher.start()
            try:
                yield
            finally:
                ours.shutdown(socket.SHUT_RDWR)
                watcher.join()

    def _watch_client(self, stop: socket.socket) -> None:
        poll = select.poll()
        poll.register(stop, select.POLLIN)
        poll.register(self.connection, select.POLLRDHUP)
        if any(descriptor == self.connection.fileno() for descriptor, _ in poll.poll()):
            self._state.add_aborted(self._client)


def _chunk(data: bytes) -> bytes:
    """Frame a piece for chunked encoding; an empty one ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
