"""The example of a web chat, behind a real server: who hangs up loses nothing, and the stop button stops."""

import importlib.util
import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import uvicorn

import tree
from intermission import ModelErrorKind, Run, Runner, RunStatus
from intermission.testing import Gate, ScriptedModel, error, text
from loop_kinds import LOOPS
from loops import PATIENCE
from pools import until

assert "uvloop" in LOOPS  # it is the server's loop, too
EXAMPLE = tree.ROOT / "examples" / "web_chat.py"


def make(model: ScriptedModel, log: str) -> Any:
    """Import the example, and have it make its service."""
    spec = importlib.util.spec_from_file_location("web_chat", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.web_app(model, log)


class Service:
    """The example, served on a thread of its own."""

    def __init__(self, model: ScriptedModel, log: str) -> None:
        self.web = make(model, log)
        config = uvicorn.Config(
            self.web, loop="uvloop", log_config=None, ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive())

    @property
    def runner(self) -> Runner:
        runner: Runner = self.web.state.runner
        return runner

    def run(self) -> Run:
        """The run under way."""
        (run,) = self.runner.active()
        return run

    def post(self, path: str, body: str = "") -> Any:
        answer = requests.post(f"{self.url}{path}", data=body, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.json()

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.url}{path}", timeout=PATIENCE)

    @contextmanager
    def reading(self, path: str, *, after: str = "", body: str | None = None) -> Generator[Iterator["Sent"]]:
        """Read what is sent, as a browser does, and hang up at the end of the block."""
        headers = {"Last-Event-ID": after} if after else {}
        method = "GET" if body is None else "POST"
        with (
            requests.Session() as session,
            session.request(
                method, f"{self.url}{path}", data=body, headers=headers, stream=True, timeout=PATIENCE
            ) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield sent(answer)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()


class Sent(dict[str, str]):
    """One event of a stream: its fields by their names."""

    @property
    def said(self) -> tuple[str, str]:
        """Who has said what; or the end and how it was."""
        if self.get("event") == "end":
            return "end", self["data"]
        data = json.loads(self["data"])
        return data["author"], data["text"]


def sent(answer: requests.Response) -> Iterator[Sent]:
    event = Sent()
    for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
        name, _, value = line.partition(": ")
        if line and not line.startswith(":"):
            event[name] = value
        elif event:
            yield event
            event = Sent()


Serve = Callable[[ScriptedModel], Service]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves the example with a model, until the end of the test."""
    services = list[Service]()

    def begin(model: ScriptedModel) -> Service:
        services.append(Service(model, str(tmp_path / "chat.lmdb")))
        return services[-1]

    yield begin
    for service in services:
        service.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def shown(events: Iterator[Sent]) -> list[tuple[str, str]]:
    """What is said, but for checkpoints, which say nothing."""
    return [event.said for event in events if event.said[1]]


@pytest.mark.scenario("A2", "A4")
def test_a_browser_that_hangs_up_loses_nothing_and_goes_on_after_the_last_number_that_it_has(
    serve: Serve, gate: Gate
) -> None:
    service = serve(ScriptedModel("one", text("Hel", gate, "lo")))
    with service.reading("/chats/a", body="first") as events:
        *others, end = events
        assert shown(iter(others)) == [("friend", "one")] * 2  # a partial, and the whole
        assert end.said == ("end", "completed")
    with service.reading("/chats/a", body="hi") as events:
        assert next(events).said == ("friend", "Hel")
    run = service.run()
    with service.reading("/chats/a/events", after=others[-1]["id"]) as events:
        assert next(events).said == ("user", "hi")
        assert (run.state, run.cancel_report) == ("running", None)
        gate.open()
        assert shown(events) == [("friend", "Hello"), ("end", "completed")]  # what had begun comes whole
    with service.reading("/chats/a/events?after=0") as events:
        *again, end = events
    numbers = [int(event["id"]) for event in again]
    assert numbers == sorted(set(numbers))
    assert shown(iter(again)) == [("user", "first"), ("friend", "one"), ("user", "hi"), ("friend", "Hello")]


@pytest.mark.scenario("A3")
def test_the_stop_button_ends_the_run_for_all_who_read_it(serve: Serve, gate: Gate) -> None:
    service = serve(ScriptedModel(text("Hel", gate, "lo"), default="again"))
    with (
        service.reading("/chats/one", body="hi") as events,
        service.reading("/chats/one/events") as others,
    ):
        assert next(events).said == ("friend", "Hel")
        assert next(others).said == ("user", "hi")
        run = service.run()
        assert service.post("/chats/one/stop") == {"outcome": "accepted"}
        assert shown(events)[-1] == shown(others)[-1] == ("end", "cancelled")
    assert run.cancel_report is not None
    assert run.cancel_report.reason == "the stop button"
    gate.open()
    assert run.wait_terminated(PATIENCE)
    assert service.post("/chats/one/stop") == {"outcome": "nothing_running"}
    with service.reading("/chats/one", body="once more") as events:
        assert shown(events)[-2:] == [("friend", "again"), ("end", "completed")]


def test_a_run_that_is_asked_to_ends_with_its_reader(serve: Serve, gate: Gate) -> None:
    service = serve(ScriptedModel(text("Hel", gate, "lo"), default="whole"))
    with service.reading("/chats/one?mine", body="hi") as events:
        assert next(events).said == ("friend", "Hel")
        run = service.run()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert run.cancel_report is not None
    assert run.cancel_report.source == "consumer_lost"
    with service.reading("/chats/two?mine", body="hi") as events:
        assert shown(events)[-2:] == [("friend", "whole"), ("end", "completed")]


def test_what_is_not_there_or_fails_is_said(serve: Serve) -> None:
    failing = error(ModelErrorKind.AUTHENTICATION)
    service = serve(ScriptedModel(failing))
    assert "EventSource" in service.get("/").text
    assert service.get("/chats/none/events").status_code == 204
    assert service.get("/chats/none/events?after=x").status_code == 400
    assert service.get("/chats/none/events?after=-1").status_code == 400
    with service.reading("/chats/one", body="hi") as events:
        assert shown(events) == [("end", "failed")]
