"""`SceneServer`: a model over HTTP that stops where a scene says, in the protocol of OpenAI or of Gemini."""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

from intermission.testing import Gate, calls, chat_history, gemini_history, text
from intermission.testing.chat_wire import ChatWire
from intermission.testing.gemini_wire import GeminiWire
from intermission.testing.replies import CallsReply, TextReply

__all__ = ["CASES", "SceneServer"]

CASES = ("blocking tool", "async tool", "model", "streaming model")
"""What the first request comes to: a call of the tool `look`, no answer, or one that stops in its middle."""

AGAIN = "And?"  # what the next run's message says


_CHAT, _GEMINI = ChatWire(), GeminiWire()


class SceneServer:
    """Serves one scene: the first request as its case says, those of the next run with "ok".

    Attributes:
        begun: Called when the model holds a request, or a stream.
        held: How many requests it holds whose client has not hung up.
        problems: What a real service would refuse of the next run's request; it is refused.
        told: What the next run's request says of the call, for each call that it has; `None` before it.
        went_on: Whether the model was asked again for the run that was cancelled.
    """

    def __init__(self, case: str) -> None:
        self.case = case
        self.begun: Callable[[], None] = _nothing
        self.held = 0
        self.problems: list[str] = []
        self.told: list[str] | None = None
        self.went_on = False
        self.closed = threading.Event()
        self.lock = threading.Lock()
        self._asked = 0
        scene = self

        class Handler(_Handler):
            server_scene = scene

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, body: dict[str, Any], *, gemini: bool) -> TextReply | CallsReply | None:
        """Return what is answered to a request, or raise a ValueError that says why it is refused."""
        with self.lock:
            self._asked += 1
            first = self._asked == 1
        if first:
            if "tool" in self.case:
                return calls(("look", {}))
            return text("Hello ", Gate(), "world") if self.case == "streaming model" else None
        if AGAIN not in json.dumps(body):
            self.went_on = True
            return text("ok")
        found = gemini_history.problems(body) if gemini else chat_history.problems(body["messages"])
        # Gemini's present models take two messages of one role, as OpenAI's do.
        self.problems = [problem for problem in found if "twice in a row" not in problem]
        self.told = list(_told(body))
        if self.problems:
            raise ValueError("; ".join(self.problems))
        return text("ok")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_scene: SceneServer

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(0.05)

    def handle_one_request(self) -> None:
        """Wait for a request only until the scene is over."""
        scene = self.server_scene
        while not scene.closed.is_set():
            if select.select([self.connection], [], [], 0.05)[0]:
                self.connection.settimeout(10)
                super().handle_one_request()
                return
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = cast("dict[str, Any]", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        gemini = "enerateContent" in self.path
        streaming = "stream" in self.path if gemini else bool(body.get("stream"))
        try:
            reply = self.server_scene.take(body, gemini=gemini)
        except ValueError as error:
            self._send(400, {"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}})
            return
        if reply is None:
            self._hold()
        elif streaming:
            self._stream(_GEMINI.stream_events(reply, {}) if gemini else _chat_events(reply))
        else:
            self._send(200, (_GEMINI if gemini else _CHAT).whole_body(reply, {}))

    def _stream(self, events: Iterator[Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            if isinstance(event, Gate):
                self._hold()
                return
            self.wfile.write(_chunk(event))
        self.wfile.write(_chunk(b""))

    def _hold(self) -> None:
        """Hold a request until its client hangs up, or the scene is over."""
        scene = self.server_scene
        with scene.lock:
            scene.held += 1
        scene.begun()
        while not scene.closed.is_set() and not self._is_gone():
            pass
        with scene.lock:
            scene.held -= 1
        self.close_connection = True

    def _is_gone(self) -> bool:
        if not select.select([self.connection], [], [], 0.01)[0]:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _told(body: dict[str, Any]) -> Iterator[str]:
    """Yield what a request says of each call."""
    for message in body.get("messages", ()):
        if message.get("role") == "tool":
            yield str(message.get("content"))
    for content in body.get("contents", ()):
        for part in content["parts"]:
            if "functionResponse" in part:
                yield json.dumps(part["functionResponse"].get("response"))


def _chat_events(reply: TextReply | CallsReply) -> Iterator[Any]:
    yield from _CHAT.stream_events(reply, {"stream_options": {"include_usage": True}})
    yield _CHAT.end_marker


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _nothing() -> None:
    pass
