"""A Ctrl-C that meets a wait of the main thread: it is neither lost nor turned into something else."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator

import pytest

import intermission_storage.wakeup
from apps import KEY, app_with
from intermission import Event, Runner
from intermission.runs.stream import Stream
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog
from interrupts import at_each_step, interrupt
from loops import PATIENCE

WAITS = (intermission_storage.wakeup.__file__, threading.__file__)


@pytest.fixture
def unnoticed() -> Generator[Callable[[], None]]:
    """Returns what sends a Ctrl-C that does not wake the main thread, as one that has come just before."""
    send, sent = threading.Event(), threading.Event()

    def send_it() -> None:
        send.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)  # this thread takes it, and Python notes it for the main thread
        sent.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Thread(target=send_it)
    sender.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield send.set
    finally:
        send.set()
        sender.join(PATIENCE)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("wait", ["iterate", "result", "result of one in line", "terminated", "close"])
def test_a_ctrl_c_that_comes_just_as_the_wait_begins_is_heeded(
    wait: str, unnoticed: Callable[[], None]
) -> None:
    gate = Gate()
    runner = Runner(app_with(ScriptedModel(text(gate, "late"))), log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    waits: dict[str, Callable[[], object]] = {
        "iterate": lambda: list(run),
        "result": run.result,
        "result of one in line": lambda: runner.run(**KEY, message="behind it").result(),
        "terminated": run.wait_terminated,
        "close": lambda: runner.close(2 * PATIENCE),
    }
    timers = threading.Timer(0.1, unnoticed), threading.Timer(PATIENCE, gate.open)  # the second ends the wait
    for timer in timers:
        timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        waits[wait]()
    assert time.monotonic() - began < PATIENCE
    gate.open()
    runner.close(0)
    for timer in timers:
        timer.cancel()
        timer.join()


def test_a_ctrl_c_at_any_step_of_a_wait_is_raised_as_it_is_and_leaves_the_stream_sound() -> None:
    streams = list[Stream]()

    def prepare() -> Callable[[], object]:
        stream = Stream(lambda after, limit: [])
        streams.append(stream)
        return lambda: stream.get(0.001)

    steps = list(at_each_step(prepare, interrupt, within=WAITS))

    assert len(steps) > 20
    for stream in streams:
        event = Event(invocation_id="i", author="a", timestamp=1.0, partial=True)
        pusher = threading.Thread(target=stream.push, args=(event,))
        pusher.start()
        assert stream.get(PATIENCE) == event
        pusher.join(PATIENCE)
