"""Many sessions, many callers and many steps cost no more than few at a time."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import pytest

from apps import KEY, Key, app_of, app_with
from intermission import AgentContext, BaseAgent, Content, Runner
from intermission.agents.effects import Steps
from intermission.models import ModelRequest
from intermission.sessions import directory
from intermission.sessions.view import SessionView
from intermission.testing import ScriptedModel
from intermission_storage import Appended, BatchOptions, LmdbEventLog, MemoryEventLog, Record, StorageError
from loops import PATIENCE
from pools import until
from races import at_once
from scale import rounds

SESSIONS = rounds(300, 10_000)
STEPS = rounds(200, 2000)


def said(request: ModelRequest) -> list[str]:
    """The texts of a conversation."""
    return [content.text for content in request.contents]


@pytest.mark.scenario("J1")
def test_sessions_at_rest_cost_neither_threads_nor_actors_and_the_first_one_has_its_history() -> None:
    model, threads = ScriptedModel(default="ok"), list[int]()
    before = threading.active_count()
    with Runner(app_with(model), log=MemoryEventLog(), resident_sessions=10) as runner:
        for number in range(SESSIONS):
            runner.run(user_id="u", session_id=str(number), message=f"{number}").answer(PATIENCE)
            threads.append(threading.active_count() - before)
        first = Key(user_id="u", session_id="0")
        assert runner._directory.active <= 20  # pyright: ignore[reportPrivateUsage]  # memory is no API
        assert runner.run(**first, message="again").answer(PATIENCE) == "ok"
    assert said(model.requests[-1]) == ["0", "ok", "again"]
    assert max(threads) <= 12


def histories() -> int:
    """How many sessions hold their events."""
    gc.collect()
    return sum(type(thing) is SessionView and thing.position > 0 for thing in gc.get_objects())


def test_sessions_that_were_not_idle_last_hold_no_events_and_have_them_in_their_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory, "WARM", 3)
    model, others = ScriptedModel(default="ok"), histories()
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        for number in range(20):
            runner.run(user_id="u", session_id=str(number), message=f"{number}").answer(PATIENCE)
        until(lambda: histories() == others + 3)
        for number in (0, 19):
            key = Key(user_id="u", session_id=str(number))
            assert runner.run(**key, message="again").answer(PATIENCE) == "ok"
            assert said(model.requests[-1]) == [f"{number}", "ok", "again"]
            until(lambda: histories() == others + 3)


def test_idle_sessions_hold_so_many_events_in_all_and_the_last_one_any_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory, "WARM_EVENTS", 10)
    others = histories()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:

        def run(name: str, times: int) -> None:
            for _ in range(times):
                assert runner.run(user_id="u", session_id=name, message="hi").answer(PATIENCE) == "ok"

        for number in range(8):
            run(str(number), 1)
        until(lambda: histories() == others + 5)  # of two events each
        run("long", 3)
        until(lambda: histories() == others + 3)
        run("longer", 6)
        until(lambda: histories() == others + 1)
        run("short", 1)
        until(lambda: histories() == others + 1)
        run("longer", 1)
        until(lambda: histories() == others + 1)
        for number in range(5):
            run(str(number), 1)
        until(lambda: histories() == others + 2)  # of four events each


def test_no_run_misses_an_event_however_often_its_session_lets_go_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A race: each session is told to let go whenever it is idle, while the next run is on its way."""
    monkeypatch.setattr(directory, "WARM", 0)
    seen = dict[str, list[int]]()

    class Counting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            seen.setdefault(context.session_id, []).append(len(context.events))
            yield context.event(self.name, content=Content.model("ok"))

    times = rounds(30, 100)
    with Runner(app_of(Counting("counting")), log=MemoryEventLog()) as runner:

        def work(session_id: str) -> None:
            for _ in range(times):
                assert runner.run(user_id="u", session_id=session_id, message="hi").answer(PATIENCE) == "ok"

        at_once(*[partial(work, str(number)) for number in range(4)])
    assert seen == {str(number): list(range(1, 2 * times, 2)) for number in range(4)}


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.scenario("J2")
def test_runs_from_threads_and_loops_that_come_and_go_keep_no_descriptor(tmp_path: Path) -> None:
    with (
        LmdbEventLog(tmp_path / "log", sync=False) as log,
        Runner(app_with(ScriptedModel(default="ok")), log=log) as runner,
    ):

        def work() -> None:
            assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"

        async def work_on_a_loop() -> None:
            assert await runner.run(**KEY, message="hi").aanswer(PATIENCE) == "ok"

        work()
        before = descriptors()
        for _ in range(rounds(50, 1000)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(PATIENCE)
        for _ in range(rounds(10, 100)):
            asyncio.run(work_on_a_loop())
        assert descriptors() <= before + 5


class Stepping(BaseAgent):
    """Says something in each of many steps."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for number in range(STEPS):
            yield context.event(self.name, content=Content.model(f"{number}"))


class Slow(MemoryEventLog):
    """A log that commits each batch later, on a thread of its own, and counts those that wait for that."""

    def __init__(self) -> None:
        super().__init__()
        self.pending, self.most, self.batches = 0, 0, 0
        self._counting = threading.Lock()
        self._timers = list[threading.Timer]()

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Unpack[BatchOptions],
    ) -> None:
        """See `EventLog.submit`."""
        with self._counting:
            self.pending += 1
            self.batches += 1
            self.most = max(self.most, self.pending)

        def answer(outcome: Appended | StorageError) -> None:
            with self._counting:
                self.pending -= 1
            done(outcome)

        timer = threading.Timer(0.001, super().submit, (stream, records, answer), options)
        self._timers.append(timer)
        timer.start()

    def join(self) -> None:
        """Wait until all has been committed."""
        for timer in self._timers:
            timer.join(PATIENCE)


@pytest.mark.scenario("E10")
def test_a_log_that_is_slow_holds_a_run_up_and_no_queue_of_batches_grows() -> None:
    log = Slow()
    with Runner(app_of(Stepping("stepping")), log=log) as runner:
        result = runner.run(**KEY, message="hi").result(10 * PATIENCE)
        assert [event.text for event in result.events[1:]] == [f"{number}" for number in range(STEPS)]
    log.join()
    assert log.batches >= STEPS
    assert log.most <= 2
