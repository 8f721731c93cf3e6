"""A bare HTTP client of a `ModelServer`, for what the runtime's own would hide."""

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from intermission.testing import ModelServer

__all__ = ["PATH", "ask", "connect", "post"]

PATH = "/v1/chat/completions"


def connect(server: ModelServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)


def post(connection: http.client.HTTPConnection, **body: Any) -> http.client.HTTPResponse:
    connection.request("POST", PATH, json.dumps({"model": "small", **body}))
    return connection.getresponse()


def ask(server: ModelServer, *headers: str, **body: Any) -> socket.socket:
    """Send a request, with further lines of its head, and leave its answer unread."""
    parts = urlsplit(server.url)
    client = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)
    data = json.dumps(body).encode()
    head = [f"POST {PATH} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers, "", ""]
    client.sendall("\r\n".join(head).encode() + data)
    return client
