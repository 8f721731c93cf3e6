"""Runs whose model is a client: a cancel in any phase of a call frees who waits, and the service sees it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from apps import Key, app_with
from certificates import ca_bundle, server_context
from intermission import Event, Run, RunConfig, Runner, RunStatus, ToolContext
from intermission.kernel.scope import CancelScope
from intermission.models import ChatCompletions
from intermission.testing import Gate, ModelServer, calls, error, silent, stream, wire
from intermission.testing.replies import SilentReply, StreamReply, WireReply
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until
from waits import connects

AT_ONCE = 5.0  # seconds, on a machine that does many other things; what is measured stands on the page
POOL = 10  # connections to one host that a client keeps
STREAMED = RunConfig(streaming=True)
SAID = b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'
WHOLE = b'{"choices": [{"message": {"content": "here I am"}, "finish_reason": "stop"}]}'


@pytest.fixture(params=["http", "https"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    with ModelServer(tls=server_context() if request.param == "https" else None) as server:
        yield server


def stops(tool_context: ToolContext) -> None:
    """Ask the run to stop, and answer."""
    tool_context.stop("enough")


@pytest.fixture
def runner(server: ModelServer, tmp_path: Path) -> Iterator[Runner]:
    model = ChatCompletions("small", base_url=server.url, api_key="k", ca_bundle=ca_bundle(tmp_path))
    with closing(model), Runner(app_with(model, stops), log=MemoryEventLog()) as runner:
        yield runner


def key(number: int) -> Key:
    """A session."""
    return {"user_id": "u", "session_id": str(number)}


def shown(run: Run, count: int) -> Iterator[Event]:
    """Consume so many pieces of text of a run; who keeps what this returns remains its consumer."""
    events = iter(run)
    for _ in range(count):
        assert next(events).partial
    return events


def assert_cancelled_at_once(run: Run) -> None:
    """Cancel a run, twice, and assert that the caller, the result and the thread are free at once."""
    before = time.monotonic()
    assert run.cancel("enough").accepted
    run.cancel("twice")
    assert time.monotonic() - before < AT_ONCE
    assert run.result(AT_ONCE).status is RunStatus.CANCELLED
    assert run.wait_terminated(AT_ONCE)
    assert run.cancel_report is not None
    assert run.cancel_report.reason == "enough"


def assert_answered(runner: Runner, server: ModelServer, number: int) -> None:
    """Assert that one more run goes through, at once."""
    server.enqueue("here I am")
    assert runner.run(**key(number), message="hi").answer(AT_ONCE) == "here I am"


def connections() -> int:
    """How many connections the services of this process hold."""
    return sum(thread.name == "loopback-server-handler" for thread in threading.enumerate())


@pytest.mark.scenario("A5")
@pytest.mark.parametrize("end", ["cancelled", "stopped"])
def test_two_hundred_runs_that_end_early_leave_the_next_one_a_connection(
    server: ModelServer, runner: Runner, end: str
) -> None:
    for number in range(200):
        if end == "cancelled":
            gate = Gate()
            server.enqueue(stream("one ", "two", gate))
            run = runner.run(**key(number), message="hi", config=STREAMED)
            events = shown(run, 2)
            assert_cancelled_at_once(run)
            assert list(events) == []
            server.wait_aborted(number + 1, AT_ONCE)
            gate.open()
        else:
            server.enqueue(calls(("stops", {}), text="one"))
            run = runner.run(**key(number), message="hi", config=STREAMED)
            assert run.result(PATIENCE).status is RunStatus.STOPPED
    assert len(server.requests) == 200

    assert_answered(runner, server, 200)
    until(lambda: connections() <= POOL)


IN_PHASES: dict[str, Callable[[], SilentReply | StreamReply]] = {
    "handshake": lambda: silent("handshake"),
    "sent, and no headers": lambda: silent("answer"),
    "in the body": lambda: stream("one", Gate()),
}


@pytest.mark.scenario("A6")
@pytest.mark.parametrize("phase", IN_PHASES)
def test_more_runs_than_connections_cancelled_twice_in_a_phase_leave_the_next_one_its_way(
    server: ModelServer, runner: Runner, phase: str
) -> None:
    for number in range(POOL + 2):
        reply = IN_PHASES[phase]()
        server.enqueue(reply)
        run = runner.run(**key(number), message="hi", config=STREAMED)
        if isinstance(reply, StreamReply):
            events = shown(run, 1)
        else:
            run.start()
            server.wait_held(number + 1)
            events = iter(())
        assert_cancelled_at_once(run)
        server.wait_aborted(number + 1, AT_ONCE)
        assert list(events) == []

    assert_answered(runner, server, POOL + 2)


class Deaf:
    """A listener that accepts nobody, whose line is full, until it is told to answer."""

    def __init__(self, stack: ExitStack) -> None:
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        self._waiting = [stack.enter_context(socket.socket()) for _ in range(4)]
        for waiting in self._waiting:
            waiting.setblocking(False)
            waiting.connect_ex(self._listener.getsockname())
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def answer(self) -> None:
        """Accept whoever comes, until somebody has asked for something."""
        for waiting in self._waiting:
            waiting.close()
        asked = b""
        while not asked:
            connection, _ = self._listener.accept()
            with connection:
                asked = connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                if asked:
                    connection.sendall(head % len(WHOLE) + WHOLE)


@pytest.mark.scenario("A6")
def test_more_runs_than_connections_cancelled_twice_while_they_connect_leave_the_next_one_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connecting = connects(monkeypatch)
    with ExitStack() as stack:
        deaf = Deaf(stack)
        model = stack.enter_context(closing(ChatCompletions("small", base_url=deaf.url, api_key="k")))
        runner = stack.enter_context(Runner(app_with(model), log=MemoryEventLog()))
        for number in range(POOL + 2):
            run = runner.run(**key(number), message="hi").start()
            connecting.arrived(number + 1)
            assert_cancelled_at_once(run)
        run = runner.run(**key(POOL + 2), message="hi").start()
        deaf.answer()

        assert run.answer(PATIENCE) == "here I am"


BODIES: dict[str, Callable[[], StreamReply | WireReply]] = {
    "chunked": lambda: stream("one", Gate()),
    "with a length": lambda: wire(SAID, Gate(), headers={"Content-Length": "9999"}),
    "without a length": lambda: wire(SAID, Gate()),
}


@pytest.mark.scenario("A7")
@pytest.mark.parametrize("body", BODIES)
def test_a_run_whose_answer_has_fallen_silent_is_cancelled_at_once_and_the_service_sees_it(
    server: ModelServer, runner: Runner, body: str
) -> None:
    server.enqueue(BODIES[body]())
    run = runner.run(**key(1), message="hi", config=STREAMED)
    events = shown(run, 1)
    assert_cancelled_at_once(run)
    server.wait_aborted(1, AT_ONCE)

    assert list(events) == []
    assert server.aborted == 1


@pytest.mark.scenario("A9")
@pytest.mark.parametrize("config", [STREAMED, RunConfig()], ids=["streamed", "whole"])
def test_a_run_whose_request_was_read_and_not_answered_is_cancelled_at_once_and_the_service_sees_it(
    server: ModelServer, runner: Runner, config: RunConfig
) -> None:
    server.enqueue(silent("answer"))
    run = runner.run(**key(1), message="hi", config=config).start()
    server.wait_held()
    assert_cancelled_at_once(run)
    server.wait_aborted(1, AT_ONCE)

    assert len(server.requests) == 1


@pytest.mark.scenario("A22")
def test_a_run_that_is_cancelled_in_a_back_off_ends_at_once_and_asks_no_second_time(
    server: ModelServer, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    backing_off, sleep = Gate(), CancelScope.sleep
    backing_off.open()

    def told(scope: CancelScope, seconds: float) -> None:
        backing_off.wait()
        sleep(scope, seconds)

    monkeypatch.setattr(CancelScope, "sleep", told)
    server.enqueue(error("service", status=503, retry_after=10))
    run = runner.run(**key(1), message="hi", config=STREAMED).start()
    backing_off.arrived()
    assert_cancelled_at_once(run)

    assert len(server.requests) == 1
    assert_answered(runner, server, 2)


@pytest.mark.scenario("F3")
def test_a_stream_survives_its_pauses_and_a_run_is_cancelled_at_once_in_one(
    server: ModelServer, runner: Runner
) -> None:
    pauses = [Gate() for _ in range(4)]
    server.enqueue(stream("one", pauses[0], "two", pauses[1], "three", pauses[2], "four", pauses[3]))
    run = runner.run(**key(1), message="hi", config=STREAMED)
    events = iter(run)
    said = [next(events).delta]
    for pause in pauses[:-1]:
        pause.arrived()
        pause.open()
        said.append(next(events).delta)
    pauses[-1].arrived()
    assert_cancelled_at_once(run)
    server.wait_aborted(1, AT_ONCE)

    assert said == ["one", "two", "three", "four"]
    assert list(events) == []
