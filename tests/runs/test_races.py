"""What happens at once: cancels and all that they can meet."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

from apps import KEY, Key, app_with, records
from intermission import RunConfig, Runner, RunStatus, SessionClosedError
from intermission.agents.app import App
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from races import Raced, at_once, check, check_usable
from scale import rounds

ROUNDS = rounds(50, 500)
EACH = ROUNDS // 2  # under each load

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("load")]


def look() -> str:
    """Look."""
    return "seen"


def looking(turns: int = EACH) -> App:
    """An app whose model calls a tool in each of its first runs, then says "ok" as often as it is asked."""
    script = [reply for _ in range(turns) for reply in (calls(("look", {})), text("o", "k"))]
    return app_with(ScriptedModel(*script, default="ok"), look)


def saying() -> App:
    """An app whose model says "ok"."""
    return app_with(ScriptedModel(default=text("o", "k")))


@pytest.mark.scenario("A21")
def test_a_cancel_that_meets_the_start_leaves_no_half_of_a_run() -> None:
    log = MemoryEventLog()
    with Runner(saying(), log=log, config=RunConfig(streaming=True)) as runner:
        for _ in range(EACH):
            one = Raced(runner.run(**KEY, message="hi"))
            at_once(one.consume, one.cancel)
            check(log, one)
        check_usable(runner)


@pytest.mark.scenario("A21")
def test_a_cancel_of_a_run_that_waits_touches_neither_the_one_before_nor_the_one_behind() -> None:
    for _ in range(EACH):
        log, gate = MemoryEventLog(), Gate()
        with Runner(app_with(ScriptedModel(text(gate, "ok"), default="ok")), log=log) as runner:
            first, second, third = (Raced(runner.run(**KEY, message=word)) for word in "abc")
            for one in (first, second, third):
                one.run.start()
            gate.arrived()
            at_once(second.cancel, gate.open, first.consume, second.consume, third.consume)
            check(log, first, second, third)
            assert (first.run.status, third.run.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
            check_usable(runner)


@pytest.mark.parametrize("after", range(4))
def test_a_cancel_that_meets_the_completion_has_one_outcome(after: int) -> None:
    log = MemoryEventLog()
    with Runner(looking(), log=log) as runner:
        for _ in range(EACH // 4 + 1):
            one, seen = Raced(runner.run(**KEY, message="hi")), threading.Event()

            def consume(one: Raced = one, seen: threading.Event = seen) -> None:
                for event in one.run:
                    one.shown.append(event)
                    if len(one.shown) >= after:
                        seen.set()
                seen.set()

            def cancel(one: Raced = one, seen: threading.Event = seen) -> None:
                assert after == 0 or seen.wait(30)
                one.cancel()

            at_once(consume, cancel)
            check(log, one)
    with Runner(saying(), log=log) as runner:
        check_usable(runner)


@pytest.mark.parametrize("batch", range(1, 5))
def test_a_cancel_that_meets_a_commit_has_one_outcome(batch: int) -> None:
    for _ in range(EACH // 4 + 1):
        log = FaultyLog()
        with Runner(looking(1), log=log) as runner:
            gate = log.hold(batch)
            one = Raced(runner.run(**KEY, message="hi"))
            consumer = threading.Thread(target=one.consume)
            consumer.start()
            gate.arrived()
            at_once(one.cancel, gate.open)
            consumer.join(30)
            check(log, one)
            if batch == 4:
                assert one.run.status is RunStatus.COMPLETED
                assert one.receipts[0].already_ending or one.receipts[0].already_ended


def test_a_cancel_that_meets_the_close_ends_the_run_once() -> None:
    for number in range(EACH):
        log, gate = MemoryEventLog(), Gate()
        runner = Runner(app_with(ScriptedModel(text(gate, "ok"), default="ok")), log=log)
        one = Raced(runner.run(**KEY, message="hi"))
        close = partial(runner.close, 0, runs="release" if number % 2 else "cancel")
        if number % 3:
            one.run.start()
            gate.arrived()
        at_once(one.cancel, close, one.consume)
        gate.open()
        check_ended(log, one)


def check_ended(log: MemoryEventLog, one: Raced) -> None:
    """As `check`, for a run that a close may have cancelled, too."""
    if one.run.status is RunStatus.CANCELLED:
        one.receipts.clear()
    check(log, one)


@pytest.mark.scenario("D10")
def test_six_cancels_at_once_are_one() -> None:
    log = MemoryEventLog()
    for _ in range(EACH):
        gate = Gate()
        with Runner(app_with(ScriptedModel(text(gate, "ok"), default="ok")), log=log) as runner:
            one = Raced(runner.run(**KEY, message="hi"))
            one.run.start()
            gate.arrived()
            at_once(*[one.cancel] * 6, one.consume)
            gate.open()
            check(log, one)
            assert one.run.status is RunStatus.CANCELLED
            check_usable(runner)


def test_a_stop_that_meets_a_cancel_has_one_outcome() -> None:
    log = MemoryEventLog()
    for _ in range(EACH):
        gate = Gate()
        with Runner(
            app_with(ScriptedModel(calls(("wait", {})), default="ok"), wait_at(gate)), log=log
        ) as runner:
            one = Raced(runner.run(**KEY, message="hi"))
            one.run.start()
            gate.arrived()
            at_once(one.run.stop, one.cancel, gate.open, one.consume)
            check(log, one)
            assert one.run.status in {RunStatus.CANCELLED, RunStatus.STOPPED, RunStatus.COMPLETED}
            check_usable(runner)


def wait_at(gate: Gate) -> Callable[[], str]:
    """A tool that waits at a gate."""

    def wait() -> str:
        gate.wait()
        return "waited"

    return wait


def test_a_delete_that_meets_a_start_leaves_a_whole_session_or_none() -> None:
    log = MemoryEventLog()
    with Runner(saying(), log=log) as runner:
        for _ in range(EACH):
            runner.run(**KEY, message="before").result(30)
            one = Raced(runner.run(**KEY, message="hi"))
            at_once(one.consume, lambda: runner.sessions.delete(**KEY))
            status = one.run.status
            assert status in {RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.FAILED}
            if status is RunStatus.FAILED:
                with pytest.raises(SessionClosedError):
                    one.run.answer(0)
            check(log)
            check_usable(runner)


def test_a_cancel_that_meets_passivation_loses_nothing() -> None:
    log = MemoryEventLog()
    keys = [Key(user_id="u", session_id=str(number)) for number in range(4)]
    with Runner(saying(), log=log, resident_sessions=1) as runner:
        for _ in range(EACH):
            raced = [Raced(runner.run(**key, message="hi")) for key in keys]
            cancels = [one.cancel for one in raced[::2]]
            at_once(*[one.consume for one in raced], *cancels)
            for key, one in zip(keys, raced, strict=True):
                check(log, one, key=key)
                if not one.receipts:
                    assert one.run.status is RunStatus.COMPLETED
        for key in keys:
            check_usable(runner, key)


@pytest.mark.scenario("J1")
def test_sessions_that_come_and_go_lose_and_double_no_run() -> None:
    log, sessions, threads = MemoryEventLog(), 12, 8
    keys = [Key(user_id="u", session_id=str(number)) for number in range(sessions)]
    times = rounds(20, 400) // 2
    started: list[Raced] = []
    with Runner(saying(), log=log, resident_sessions=2) as runner:

        def work(number: int) -> None:
            for turn in range(times):
                key = keys[(number * 5 + turn) % sessions]
                one = Raced(runner.run(**key, message=f"{number}.{turn}"))
                started.append(one)
                one.consume()
                assert one.run.status is RunStatus.COMPLETED

        at_once(*[partial(work, number) for number in range(threads)])

    for key in keys:
        check(log, *[one for one in started if one.run.session_id == key["session_id"]], key=key)
    said = sorted(
        record.data["content"]["parts"][0]["text"]
        for key in keys
        for record in records(log, **key)
        if record.kind == "event" and record.data["author"] == "user"
    )
    assert said == sorted(f"{number}.{turn}" for number in range(threads) for turn in range(times))
