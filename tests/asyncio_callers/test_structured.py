"""Runs under what asyncio has for structure: groups, limits, shields; on each kind of loop."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from apps import Key, app_with, records
from intermission import CancelSource, Run, RunConfig, Runner, RunStatus
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import Kind, MemoryEventLog
from loop_kinds import LOOPS, MakeLoop, run_on
from loops import PATIENCE, forever

KINDS = pytest.mark.parametrize("kind", LOOPS.values(), ids=LOOPS)


class Held:
    """A runner whose model says half a word, and then stands at a gate."""

    def __init__(self) -> None:
        self.gate, self.log = Gate(), MemoryEventLog()
        self.runner = Runner(app_with(ScriptedModel(default=text("Hel", self.gate, "lo"))), log=self.log)

    def run(self, number: int = 0, policy: str = "cancel") -> Run:
        """A cold run in a session of its own."""
        config = RunConfig(streaming=True, on_consumer_lost=policy)
        return self.runner.run(**key(number), message="hi", config=config)

    async def begun(self, count: int = 1) -> None:
        """Return when the model was asked so often."""
        await asyncio.to_thread(self.gate.arrived, count)

    async def assert_lost(self, *runs: Run) -> None:
        """Assert that they were lost and have ended, in the log, too, and that nothing of them is left."""
        self.gate.open()
        for run in runs:
            assert (await run.aresult(PATIENCE)).status is RunStatus.CANCELLED
            assert run.cancel_report is not None
            assert run.cancel_report.source is CancelSource.CONSUMER_LOST
            assert await run.aterminated(PATIENCE)
            last = records(self.log, session_id=run.session_id)[-1]
            assert (last.kind, last.data["source"]) == ("run_ended", "consumer_lost")
        assert (self.runner.active(), self.runner.residual()) == ([], [])


def key(number: int) -> Key:
    return {"user_id": "u", "session_id": str(number)}


@pytest.fixture
def held() -> Iterator[Held]:
    """A runner, closed at the end, with its gate opened."""
    one = Held()
    yield one
    one.gate.open()
    one.runner.close()


async def consume(run: Run) -> str:
    return "".join([event.delta async for event in run])


async def grouped(*coroutines: Coroutine[Any, Any, object]) -> None:
    async with asyncio.TaskGroup() as group:
        for one in coroutines:
            group.create_task(one)


@KINDS
def test_a_sibling_that_fails_in_a_task_group_takes_the_runs_of_the_others_along(
    kind: MakeLoop, held: Held
) -> None:
    runs = [held.run(number) for number in range(4)]

    async def main() -> None:
        async def fail() -> None:
            await held.begun(4)
            raise LookupError

        consumers = consume(runs[0]), runs[1].aresult(), runs[2].aanswer(), in_block(runs[3])
        with pytest.raises(ExceptionGroup) as caught:
            await grouped(*consumers, fail())
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
        await held.assert_lost(*runs)

    run_on(kind, main())


async def in_block(run: Run) -> None:
    async with run, asyncio.timeout(None):
        await asyncio.Event().wait()


@KINDS
def test_a_run_that_fails_ends_its_group_with_its_own_error(kind: MakeLoop, held: Held) -> None:
    async def main() -> None:
        failing = held.runner.run(**key(9), message="hi", config=RunConfig(max_llm_calls=1, timeout=0.001))
        other = held.run()
        with pytest.raises(ExceptionGroup, match="unhandled") as caught:
            await grouped(consume(other), consume(failing))
        assert [type(error).__name__ for error in caught.value.exceptions] == ["RunTimeoutError"]
        held.gate.open()
        assert await failing.aterminated(PATIENCE)
        await held.assert_lost(other)

    run_on(kind, main())


@KINDS
def test_of_limits_inside_each_other_the_one_that_has_passed_loses_its_run_alone(
    kind: MakeLoop, held: Held
) -> None:
    inner, outer, after = held.run(0), held.run(1), held.run(2)

    async def within(limit: asyncio.Timeout) -> None:
        async with asyncio.timeout(PATIENCE), limit:
            await consume(inner)

    async def around(limit: asyncio.Timeout) -> None:
        async with limit, asyncio.timeout(PATIENCE):
            await outer

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            for count, place in enumerate((within, around), start=1):
                limit = asyncio.timeout(None)
                task = asyncio.ensure_future(expire(limit, held, count))
                with pytest.raises(TimeoutError):
                    await place(limit)
                await task
            await held.assert_lost(inner, outer)
            assert await asyncio.wait_for(after.aanswer(), PATIENCE) == "Hello"

    run_on(kind, main())


async def expire(limit: asyncio.Timeout, held: Held, count: int) -> None:
    await held.begun(count)
    limit.reschedule(0)


@KINDS
def test_what_is_gathered_and_given_up_is_lost_and_what_is_shielded_goes_on(
    kind: MakeLoop, held: Held
) -> None:
    async def main() -> None:
        lost, kept = [held.run(number) for number in range(2)], held.run(2)
        gathered = asyncio.gather(asyncio.gather(*(asyncio.ensure_future(run) for run in lost)), forever())
        shielded = asyncio.create_task(shield(kept))
        await held.begun(3)
        gathered.cancel()
        shielded.cancel()
        for one in (gathered, shielded):
            with pytest.raises(asyncio.CancelledError):
                await one
        assert (kept.state, kept.cancel_report) == ("running", None)
        held.gate.open()
        assert await kept.aanswer(PATIENCE) == "Hello"
        assert await kept.aterminated(PATIENCE)
        await held.assert_lost(*lost)

    run_on(kind, main())


async def shield(run: Run) -> None:
    await asyncio.shield(run)


@KINDS
def test_runs_are_awaited_as_they_are_completed(kind: MakeLoop, held: Held) -> None:
    async def main() -> None:
        held.gate.open()
        runs = [held.run(number) for number in range(8)]
        done = [await one for one in asyncio.as_completed([asyncio.ensure_future(run) for run in runs])]
        assert {result.invocation_id for result in done} == {run.invocation_id for run in runs}
        results = await asyncio.gather(*runs, *runs)  # again, and twice each
        assert all(result.text == "Hello" for result in results)
        assert (await asyncio.wait_for(runs[0], PATIENCE)).text == "Hello"

    run_on(kind, main())


@KINDS
def test_a_task_that_is_cancelled_before_it_begins_starts_no_run(kind: MakeLoop, held: Held) -> None:
    async def main() -> None:
        run = held.run()
        task = asyncio.ensure_future(run.aresult())
        begun = run.state != "created"  # an eager task has begun already, and loses what it has begun
        task.cancel()
        await asyncio.wait([task])
        if not begun:
            assert run.state == "created"
            run.cancel()
        assert (await run.aresult(PATIENCE)).status is RunStatus.CANCELLED
        assert begun or records(held.log, session_id="0") == []

    run_on(kind, main())


@KINDS
def test_of_two_tasks_the_last_to_be_cancelled_takes_the_run_along(kind: MakeLoop, held: Held) -> None:
    async def main() -> None:
        run = held.run()
        first, last = asyncio.ensure_future(consume(run)), asyncio.ensure_future(run)
        await held.begun()
        first.cancel()
        await asyncio.wait([first])
        assert (run.state, run.cancel_report) == ("running", None)
        last.cancel()
        await asyncio.wait([last])
        await held.assert_lost(run)

    run_on(kind, main())


@KINDS
def test_cancels_by_asyncio_at_any_moment_end_each_run_once_and_leave_nothing(kind: MakeLoop) -> None:
    log = MemoryEventLog()

    async def main() -> None:
        async with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
            tasks, runs = list[asyncio.Task[object]](), list[Run]()
            for number in range(60):
                run = runner.run(**key(number % 7), message="hi")
                tasks.append(asyncio.create_task(consume(run)))
                runs.append(run)
            for number, task in enumerate(tasks):
                await asyncio.sleep(0)
                if number % 3:
                    task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for run, end in zip(runs, ends, strict=True):
                if run.state == "created":  # its task had not begun
                    run.cancel()
                status = (await run.aresult(PATIENCE)).status
                assert status in {RunStatus.COMPLETED, RunStatus.CANCELLED}
                assert end == "ok" or isinstance(end, asyncio.CancelledError)
                assert await run.aterminated(PATIENCE)
            assert (runner.active(), runner.residual()) == ([], [])

    run_on(kind, main())
    for number in range(7):
        kinds = [record.kind for record in records(log, session_id=str(number))]
        assert kinds.count(Kind.RUN_STARTED) == kinds.count(Kind.RUN_ENDED)
