"""Handles on sessions, the runner as an async block, missing sessions, and closing on signals."""

import asyncio
import signal
import sys
import threading
from typing import Any

import pytest

import tree
from apps import KEY, app_with, kinds
from intermission import Runner, RunStatus, Session, SessionExistsError, SessionNotFoundError
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog


def test_a_handle_has_the_verbs_of_its_runner_and_repeats_no_key() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel("one", text(gate, "two"))), log=MemoryEventLog()) as runner:
        session = runner.session(**KEY)
        assert (session.user_id, session.session_id) == ("u", "s")
        assert not session.exists()
        assert session.create({"a": 1}).state == {"a": 1}
        assert session.exists()
        assert session.run("hi", state_delta={"b": 2}).answer() == "one"
        session.set_state({"a": None, "user:c": 3})
        assert session.state() == session.info().state == {"b": 2, "user:c": 3}
        assert [event.text for event in session.events()] == ["hi", "one"]
        assert [event.text for event in session.events(after=3, limit=1)] == ["one"]
        assert [event.text for event in session.attach(after=3)] == ["one"]

        run = session.run("again").start()
        gate.arrived()
        assert [one.invocation_id for one in session.active()] == [run.invocation_id]
        session.stop("later", invocation_id="another")
        assert session.cancel("enough", invocation_id="another").nothing_running
        assert session.cancel("enough").accepted
        gate.open()
        assert run.result(30).reason == "enough"
        assert [one.status for one in session.runs()] == [RunStatus.COMPLETED, RunStatus.CANCELLED]
        assert session.delete()
        assert not session.exists()


def test_a_handle_stops_the_run_under_way() -> None:
    gate = Gate()

    def work() -> str:
        gate.wait()
        return "done"

    with Runner(app_with(ScriptedModel(calls(("work", {})), "never"), work), log=MemoryEventLog()) as runner:
        session = runner.session(**KEY)
        run = session.run("hi").start()
        gate.arrived()
        session.stop("enough")
        gate.open()
        assert (run.result(30).status, run.result().reason) == (RunStatus.STOPPED, "enough")


@pytest.mark.parametrize(("key", "error"), [({"user_id": ""}, ValueError), ({"session_id": 1}, TypeError)])
def test_a_handle_of_no_key_is_refused(key: dict[str, Any], error: type[Exception]) -> None:
    with (
        Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner,
        pytest.raises(error),
    ):
        runner.session(**{"user_id": "u", "session_id": "s", **key})


def test_each_verb_of_a_handle_that_can_wait_has_a_twin() -> None:
    async def use(session: Session, gate: Gate) -> None:
        assert not await session.aexists()
        await session.acreate({"a": 1})
        with pytest.raises(SessionExistsError):
            await session.acreate()
        run = await session.run("hi").astart()
        await asyncio.to_thread(gate.arrived)
        viewer = await session.aattach()
        receipt = await session.acancel("enough", wait=False)
        assert receipt.accepted
        gate.open()
        assert (await run).status is RunStatus.CANCELLED
        assert [event.text async for event in viewer] == ["hi"]
        assert (await session.acancel("late", wait=True)).nothing_running
        await session.aset_state({"b": 2})
        assert await session.astate() == (await session.ainfo()).state == {"a": 1, "b": 2}
        assert len(await session.aevents(limit=5)) == 1
        assert len(await session.aruns()) == 1
        assert await session.adelete()

    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog()) as runner:
        asyncio.run(use(runner.session(**KEY), gate))


def test_a_runner_is_an_async_block_which_closes_it_beside_the_loop() -> None:
    log = FaultyLog()
    ticks: list[int] = []

    async def use() -> None:
        async with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
            gate = log.hold("run_ended")
            run = await runner.run(**KEY, message="hi").astart()
            await asyncio.to_thread(gate.arrived)
            asyncio.get_running_loop().call_soon(ticks.append, 1)
            asyncio.get_running_loop().call_later(0.01, gate.open)
        assert run.status is RunStatus.COMPLETED
        await runner.aclose()

    asyncio.run(use())
    assert ticks == [1]
    assert kinds(log)[-1] == "run_ended"


def test_a_runner_that_creates_no_sessions_refuses_the_start_and_stores_nothing() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log, auto_create=False) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(SessionNotFoundError, match="session 's' of user 'u'"):
            run.start()
        with pytest.raises(SessionNotFoundError):
            runner.run(**KEY, message="hi").answer()
        assert log.streams() == []
        runner.sessions.create(**KEY)
        assert runner.run(**KEY, message="hi").answer() == "ok"
        runner.sessions.delete(**KEY)
        with pytest.raises(SessionNotFoundError):
            runner.run(**KEY, message="hi").start()


PROGRAM = """
import os, signal, sys, threading
from intermission import App, LlmAgent, Runner
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog

gate = Gate()
runner = Runner(App("app", LlmAgent("agent", ScriptedModel(text(gate, "Hello")))), log=MemoryEventLog())
runner.close_on_signals(grace={grace})
run = runner.run(user_id="u", session_id="s", message="hi").start()
gate.arrived()
print("running", flush=True)
os.kill(os.getpid(), signal.{name})
{then}
try:
    result = run.result(60)
    print(result.status, flush=True)
    gate.open()
    for _ in range(600):  # a wait of Python's that is just beginning does not notice a signal
        threading.Event().wait(0.1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("SIGINT", 0, ["running", "cancelled", "interrupted"]),
        ("SIGTERM", -signal.SIGTERM, ["running", "cancelled"]),
    ],
)
def test_a_signal_closes_the_runner_and_then_takes_its_course(name: str, code: int, said: list[str]) -> None:
    finished = tree.run(sys.executable, "-c", PROGRAM.format(name=name, then="", grace=0), timeout=60)
    assert finished.output.split() == said
    assert finished.code == code


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_second_signal_ends_the_process_at_once(name: str) -> None:
    then = f"os.kill(os.getpid(), signal.{name})"
    finished = tree.run(sys.executable, "-c", PROGRAM.format(name=name, then=then, grace=1000), timeout=60)
    assert finished.output.split() == ["running"]
    assert finished.code == -signal.Signals[name]


def test_the_handlers_and_the_helper_go_with_the_runner_and_none_is_there_without_asking() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner:
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        runner.close_on_signals()
        runner.close_on_signals()
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert not [thread for thread in threading.enumerate() if "signals" in thread.name]
