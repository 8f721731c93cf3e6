"""Making, finding, reading, changing and deleting sessions."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY, app_with, kinds, records
from intermission import (
    CancelSource,
    Runner,
    RunStatus,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    ToolContext,
)
from intermission.testing import FaultyLog, Gate, ManualClock, ScriptedModel, calls, error, text
from intermission_storage import Head, LmdbEventLog, MemoryEventLog, Record


class CountingLog(MemoryEventLog):
    """A memory log that counts the records that are read, and the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.read_records = 0
        self.reads = 0
        self.scans = 0

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        found = super().read(stream, after=after, limit=limit)
        self.reads += 1
        self.read_records += len(found)
        return found

    def streams(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        self.scans += 1
        return super().streams(after=after, limit=limit)


def runner_with(*replies: Any, log: Any = None) -> Runner:
    return Runner(app_with(ScriptedModel(*replies, default="ok")), log=log or MemoryEventLog())


def test_a_session_is_created_with_a_state_and_found_again() -> None:
    clock = ManualClock()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(), clock=clock) as runner:
        made = runner.sessions.create(**KEY, state={"a": [1], "none": None})
        clock.advance(5)
        runner.run(**KEY, message="hi", state_delta={"b": 2}).result()
        found = runner.sessions.get(**KEY)

    assert (made.app, made.user_id, made.session_id) == (APP, "u", "s")
    assert (made.state, made.last_seq, made.created) == ({"a": [1]}, 1, made.updated)
    assert (found.state, found.last_seq) == ({"a": [1], "b": 2}, 5)
    assert (found.created, found.updated) == (made.created, made.created + 5)


def test_a_session_without_an_id_gets_one_of_its_own() -> None:
    with runner_with() as runner:
        ids = {runner.sessions.create(user_id="u").session_id for _ in range(20)}
        assert len(ids) == len(runner.sessions.list()) == 20


def test_an_id_that_exists_is_refused_and_nothing_is_changed() -> None:
    log = MemoryEventLog()
    with runner_with(log=log) as runner:
        runner.run(**KEY, message="hi").result()
        before = records(log)
        with pytest.raises(SessionExistsError, match="'s' of user 'u' already"):
            runner.sessions.create(**KEY, state={"app:a": 1})
        assert records(log) == before
        assert runner.sessions.get(**KEY).state == {}


def test_of_creators_at_one_moment_one_wins() -> None:
    outcomes: list[type] = []

    def create() -> None:
        try:
            outcomes.append(type(runner.sessions.create(**KEY)))
        except SessionExistsError as refusal:
            outcomes.append(type(refusal))

    with runner_with() as runner:
        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert outcomes.count(SessionExistsError) == 7


def test_what_is_not_there_is_an_error_that_names_its_key() -> None:
    with runner_with() as runner:
        asked: list[Callable[[], object]] = [
            lambda: runner.sessions.get(**KEY),
            lambda: runner.sessions.events(**KEY),
            lambda: runner.sessions.runs(**KEY),
            lambda: runner.sessions.set_state(**KEY, delta={"a": 1}),
        ]
        for call in asked:
            with pytest.raises(SessionNotFoundError, match="session 's' of user 'u'"):
                call()
        assert not runner.sessions.exists(**KEY)
        assert not runner.sessions.delete(**KEY)
        assert runner.sessions.list() == []


def test_sessions_are_listed_by_user_from_the_index_and_not_by_a_scan() -> None:
    log = CountingLog()
    with runner_with(log=log) as runner:
        for user, session in [("u", "1"), ("v", "1"), ("u", "2")]:
            runner.sessions.create(user_id=user, session_id=session)
        runner.run(user_id="u", session_id="run", message="hi").result()
        log.reads = log.scans = 0
        everything = [(one.user_id, one.session_id) for one in runner.sessions.list()]
        of_user = [one.session_id for one in runner.sessions.list(user_id="u")]

        assert everything == [("u", "1"), ("v", "1"), ("u", "2"), ("u", "run")]
        assert of_user == ["1", "2", "run"]
        assert runner.sessions.list(user_id="nobody") == []
        assert (log.reads, log.scans) == (0, 0)


def test_more_sessions_than_a_page_of_the_index_are_all_listed() -> None:
    with runner_with() as runner:
        for number in range(1001):
            runner.sessions.create(user_id="u", session_id=str(number))
        assert len(runner.sessions.list(user_id="u")) == 1001


def test_a_page_of_events_reads_no_whole_session() -> None:
    log = CountingLog()
    with runner_with(log=log) as runner:
        for _ in range(100):
            runner.run(**KEY, message="hi").result()
        log.read_records = 0
        page = runner.sessions.events(**KEY, limit=10)
        assert len(page) == 10
        assert log.read_records < 50
        rest = runner.sessions.events(**KEY, after=page[-1].seq or 0)
        assert page + rest == runner.sessions.events(**KEY)
        assert len(rest) == 190


def test_runs_say_how_they_ended_and_what_they_left_open() -> None:
    gate = Gate()

    def slow() -> str:
        gate.wait()
        return "late"

    model = ScriptedModel("Hello", calls(("slow", {})), calls(("slow", {})))
    with Runner(app_with(model, slow), log=MemoryEventLog()) as runner:
        first = runner.run(**KEY, message="a").result()
        second = runner.run(**KEY, message="b").start()
        gate.arrived()
        under_way = runner.sessions.runs(**KEY)[1]
        second.cancel("enough")
        second.result()
        gate.open()
        one, two = runner.sessions.runs(**KEY)

    assert (one.invocation_id, one.status, one.reason, one.source) == (
        first.invocation_id,
        RunStatus.COMPLETED,
        "",
        None,
    )
    assert (one.first_seq, one.last_seq, one.usage) == (2, first.last_seq, first.usage)
    assert one.ended is not None
    assert one.started <= one.ended
    assert (under_way.status, under_way.ended, len(under_way.open_calls)) == (None, None, 1)
    assert (two.status, two.source, two.reason) == (RunStatus.CANCELLED, CancelSource.CALLER, "enough")
    assert two.open_calls == under_way.open_calls
    assert not two.usage.complete


def test_a_failed_runs_record_says_what_failed_it() -> None:
    with runner_with(error("service", "no luck")) as runner:
        assert runner.run(**KEY, message="a").result().status is RunStatus.FAILED
        assert runner.sessions.runs(**KEY)[0].error == "ModelError: no luck"


# The state from outside.


def test_a_state_is_set_from_outside_and_none_removes_a_key() -> None:
    log = MemoryEventLog()
    with runner_with(log=log) as runner:
        runner.sessions.create(**KEY, state={"a": 1, "b": 2})
        runner.sessions.set_state(**KEY, delta={"a": None, "c": 3})
        assert runner.sessions.get(**KEY).state == {"b": 2, "c": 3}
    assert kinds(log) == ["session_created", "state_set"]


def test_a_run_under_way_sees_what_is_set_from_outside() -> None:
    gate = Gate()
    seen: list[object] = []

    def look(tool_context: ToolContext) -> str:
        gate.wait()
        seen.append(tool_context.state.get("color"))
        return "ok"

    with Runner(app_with(ScriptedModel(calls(("look", {})), "done"), look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        runner.sessions.set_state(**KEY, delta={"color": "red"})
        gate.open()
        assert run.answer(30) == "done"
        assert runner.sessions.get(**KEY).state == {"color": "red"}
    assert seen == ["red"]


def test_the_state_is_set_while_a_run_begins_and_while_it_ends() -> None:
    log = FaultyLog()
    with runner_with(log=log) as runner:
        runner.sessions.create(**KEY)
        for kind in ("event", "run_ended"):
            gate = log.hold(kind)
            run = runner.run(**KEY, message="hi")
            run.begin()
            gate.arrived()
            setter = threading.Thread(target=runner.sessions.set_state, kwargs={**KEY, "delta": {kind: 1}})
            setter.start()
            gate.open()
            setter.join(30)
            assert run.result(30).status is RunStatus.COMPLETED
        assert runner.sessions.get(**KEY).state == {"event": 1, "run_ended": 1}


def test_the_state_of_a_session_that_others_have_is_not_changed() -> None:
    gate, log = Gate(), MemoryEventLog()
    with (
        runner_with(text(gate, "Hello"), log=log) as runner,
        runner_with(log=MemoryEventLog(share=log)) as other,
    ):
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        with pytest.raises(SessionBusyError):
            other.sessions.set_state(**KEY, delta={"a": 1})
        with pytest.raises(SessionBusyError):
            other.sessions.delete(**KEY)
        gate.open()
        assert run.answer(30) == "Hello"
        other.sessions.set_state(**KEY, delta={"a": 1})
        assert runner.sessions.get(**KEY).state == {"a": 1}
        assert runner.run(**KEY, message="again").answer(30) == "ok"
        assert runner.sessions.get(**KEY).state == {"a": 1}


def test_a_session_that_is_deleted_while_its_state_is_set_is_not_written_back() -> None:
    class Moving(MemoryEventLog):
        def head(self, stream: str) -> Head:
            found = super().head(stream)
            if deleting:
                deleting.pop()
                assert elsewhere.delete(stream)
            return found

    deleting: list[int] = []
    log = Moving()
    elsewhere = MemoryEventLog(share=log)
    with runner_with(log=log) as runner:
        runner.sessions.create(**KEY)
        runner.run(**KEY, message="hi").result()
        deleting.append(1)
        with pytest.raises(SessionNotFoundError):
            runner.sessions.set_state(**KEY, delta={"a": 1})
        assert log.streams() == []


@pytest.mark.parametrize(
    ("delta", "kind"), [({"temp:a": 1}, ValueError), ({1: 1}, TypeError), ({"a": object()}, TypeError)]
)
def test_what_cannot_be_kept_is_refused(delta: Any, kind: type[Exception]) -> None:
    log = MemoryEventLog()
    with runner_with(log=log) as runner:
        runner.sessions.create(**KEY)
        with pytest.raises(kind):
            runner.sessions.set_state(**KEY, delta=delta)
        with pytest.raises(kind):
            runner.sessions.create(user_id="u", session_id="t", state=delta)
        assert kinds(log) == ["session_created"]
        assert not runner.sessions.exists(user_id="u", session_id="t")


# On an event loop.


def test_each_call_has_a_twin_that_blocks_no_event_loop(tmp_path: Path) -> None:
    async def use(runner: Runner) -> None:
        sessions = runner.sessions
        await sessions.acreate(**KEY, state={"a": 1})
        with pytest.raises(SessionExistsError):
            await sessions.acreate(**KEY)
        await runner.run(**KEY, message="hi")
        await sessions.aset_state(**KEY, delta={"b": 2})
        assert (await sessions.aget(**KEY)).state == {"a": 1, "b": 2}
        assert len(await sessions.aevents(**KEY)) == 2
        assert [one.session_id for one in await sessions.alist()] == ["s"]
        assert [one.status for one in await sessions.aruns(**KEY)] == [RunStatus.COMPLETED]
        assert await sessions.aexists(**KEY)
        assert await sessions.adelete(**KEY)
        with pytest.raises(SessionNotFoundError):
            await sessions.aget(**KEY)

    with LmdbEventLog(tmp_path / "log") as log, runner_with(log=log) as runner:
        asyncio.run(use(runner))


def test_a_twin_leaves_the_loop_free_while_the_log_is_slow() -> None:
    log = FaultyLog()

    async def use(runner: Runner) -> None:
        gate = log.hold("session_created")
        creating = asyncio.ensure_future(runner.sessions.acreate(**KEY))
        await asyncio.to_thread(gate.arrived)
        assert not creating.done()
        gate.open()
        assert (await creating).last_seq == 1

    with runner_with(log=log) as runner:
        asyncio.run(use(runner))
