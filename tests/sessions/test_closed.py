"""What the sessions of a closed runner, and of a fork of its process, still do."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import tree
from apps import KEY, app_with, records
from intermission import Runner, SessionClosedError
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

FORK = """
import asyncio, os
from intermission import App, LlmAgent, Runner, SessionClosedError
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

log = MemoryEventLog()
runner = Runner(App("app", LlmAgent("agent", ScriptedModel(default="ok"))), log=log)
key = dict(user_id="u", session_id="s")
runner.run(**key, message="a").answer()
uses = [
    lambda: asyncio.run(runner.sessions.aevents(**key)),
    lambda: asyncio.run(runner.sessions.acreate(user_id="u", session_id="new")),
    lambda: runner.sessions.create(user_id="u", session_id="new"),
    lambda: runner.run(**key, message="b").subscribe(print),
]
if os.fork() == 0:
    for use in uses:
        try:
            use()
        except SessionClosedError as error:
            print("fork" in str(error), flush=True)
    print(len(log.streams()), flush=True)
    os._exit(0)
os.wait()
runner.close()
"""


@pytest.fixture
def closed() -> tuple[Runner, MemoryEventLog]:
    """A runner that has run once and is closed, and its log, which is not."""
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("one")), log=log) as runner:
        runner.run(**KEY, message="hi").answer(30)
    return runner, log


def test_a_closed_runner_changes_no_session_and_says_so_and_so_do_the_twins(
    closed: tuple[Runner, MemoryEventLog],
) -> None:
    runner, log = closed
    sessions = runner.sessions
    before = (log.streams(), records(log))
    changes: list[Callable[[], object]] = [
        lambda: sessions.create(user_id="u", session_id="new"),
        lambda: sessions.create(**KEY),
        lambda: sessions.set_state(**KEY, delta={"a": 1}),
        lambda: sessions.delete(**KEY),
    ]
    twins: list[Callable[[], Awaitable[object]]] = [
        lambda: sessions.acreate(user_id="u", session_id="new"),
        lambda: sessions.aset_state(**KEY, delta={"a": 1}),
        lambda: sessions.adelete(**KEY),
    ]
    for change in changes:
        with pytest.raises(SessionClosedError):
            change()
    for twin in twins:
        with pytest.raises(SessionClosedError):
            asyncio.run(_awaited(twin()))
    assert (log.streams(), records(log)) == before


def test_a_handed_in_log_of_a_closed_runner_is_read_alike_with_and_without_an_event_loop(
    closed: tuple[Runner, MemoryEventLog],
) -> None:
    sessions = closed[0].sessions

    async def read() -> list[Any]:
        return [
            await sessions.aevents(**KEY),
            await sessions.aget(**KEY),
            await sessions.alist(),
            await sessions.aruns(**KEY),
            await sessions.aexists(**KEY),
        ]

    assert asyncio.run(read()) == [
        sessions.events(**KEY),
        sessions.get(**KEY),
        sessions.list(),
        sessions.runs(**KEY),
        sessions.exists(**KEY),
    ]
    assert [event.text for event in sessions.events(**KEY)] == ["hi", "one"]


def test_an_own_log_is_closed_with_its_runner_and_both_ways_to_read_it_raise_the_same(tmp_path: Path) -> None:
    with Runner(app_with(ScriptedModel("one")), log=tmp_path / "log") as runner:
        runner.run(**KEY, message="hi").answer(30)
    with pytest.raises(Exception, match="closed") as raised:
        runner.sessions.events(**KEY)
    with pytest.raises(type(raised.value), match="closed"):
        asyncio.run(runner.sessions.aevents(**KEY))


def test_in_a_fork_twins_and_subscriptions_are_refused_as_all_else() -> None:
    finished = tree.run(sys.executable, "-W", "ignore", "-c", FORK, timeout=60)
    finished.check()
    assert finished.output.split() == ["True", "True", "True", "True", "1"]


async def _awaited(what: Awaitable[object]) -> object:
    return await what
