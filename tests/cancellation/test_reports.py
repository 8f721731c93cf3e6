"""What a cancel says of itself, looked at all the time: it never says more than is true."""

import asyncio
import random
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from apps import KEY, app_with
from intermission import AgentTool, Cancelled, CancelReport, LlmAgent, Run, RunConfig, Runner, ToolContext
from intermission.config import ToolExecution
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from scale import rounds

ROUNDS = rounds(40, 1000)
_never = threading.Event()


class Bodies:
    """Tools that note which calls of theirs are under way, as their own code sees it."""

    def __init__(self, chance: random.Random, pool: ThreadPoolExecutor) -> None:
        self._chance = chance
        self._pool = pool
        self.inside: set[str] = set()

    @contextmanager
    def _body(self, context: ToolContext) -> Generator[float]:
        self.inside.add(context.function_call_id)
        try:
            yield self._chance.random() / 50
        finally:
            self.inside.discard(context.function_call_id)

    def heeds(self, tool_context: ToolContext) -> None:
        """Sleep on the scope."""
        with self._body(tool_context) as moment:
            tool_context.cancellation.sleep(moment)

    def heeds_nothing(self, tool_context: ToolContext) -> None:
        """Wait without looking at anything."""
        with self._body(tool_context) as moment:
            _never.wait(moment)

    def swallows(self, tool_context: ToolContext) -> str:
        """Swallow the signal, and go on."""
        with self._body(tool_context) as moment:
            try:
                tool_context.cancellation.sleep(moment)
            except Cancelled:
                _never.wait(moment)
        return "ok"

    async def is_async(self, tool_context: ToolContext) -> None:
        """Swallow the signal on the loop."""
        with self._body(tool_context) as moment:
            try:
                await asyncio.sleep(moment)
            except asyncio.CancelledError:
                await asyncio.sleep(moment)

    def returns_a_future(self, tool_context: ToolContext) -> "Future[None]":
        """Leave the work to a thread of somebody else's."""

        def work() -> None:
            with self._body(tool_context) as moment:
                _never.wait(moment)

        return self._pool.submit(work)


class Watch:
    """Looks at a run's report and at the bodies of its tools, and keeps what was seen of the report.

    Args:
        run: The run.
        bodies: Its tools.
        ours: Whether each call that is under way is one of the run's own.
    """

    def __init__(self, run: Run, bodies: Bodies, *, ours: bool) -> None:
        self._run = run
        self._bodies = bodies
        self._ours = ours
        self.seen: list[CancelReport] = []

    def look(self) -> CancelReport | None:
        """Assert that the report of this moment tells the truth, and return it."""
        before = set(self._bodies.inside)
        report = self._run.cancel_report
        inside = before & self._bodies.inside  # all the time
        if report is None:
            return None
        self.seen.append(report)
        if inside:
            assert report.terminated is None
            assert report.still_running
            assert not self._run.wait_terminated(0) or not inside & self._bodies.inside
            if self._ours:
                assert inside <= {work.call_id for work in report.still_running}
        if report.terminated is not None:
            assert (report.still_running, self._run.state) == ((), "ended")
            assert not self._bodies.inside
            assert self._run.wait_terminated(0)
        if report.acknowledged is not None:
            assert report.race_winner is not None
            assert report.race_winner == self._run.status
        else:
            assert report.terminated is None
        return report


def assert_steps(seen: list[CancelReport]) -> None:
    """Assert that what was said once was not taken back, and that the moments are in order."""
    for field in ("source", "reason", "requested"):
        assert len({getattr(report, field) for report in seen}) == 1
    for field in ("acknowledged", "terminated", "race_winner"):
        said = [getattr(report, field) for report in seen]
        known = [one for one in said if one is not None]
        assert said == [None] * (len(said) - len(known)) + known
        assert len(set(known)) <= 1
    last = seen[-1]
    assert last.acknowledged is not None
    assert last.terminated is not None
    assert last.acknowledged <= last.terminated
    assert last.requested <= last.acknowledged or last.race_winner == "completed"  # it was over


@pytest.mark.scenario("A19")
@pytest.mark.parametrize("nested", [False, True])
def test_what_a_cancel_says_it_has_reached_is_true_whenever_one_looks(nested: bool) -> None:
    chance = random.Random(19)
    names = ("heeds", "heeds_nothing", "swallows", "is_async", "returns_a_future")
    with ThreadPoolExecutor(4) as pool:
        for _ in range(ROUNDS):
            bodies = Bodies(chance, pool)
            tools = [getattr(bodies, name) for name in names]
            nothing: dict[str, Any] = {}
            turn = calls(*((name, nothing) for name in chance.sample(names, 3)))
            app = app_with(ScriptedModel(turn, default="ok"), *tools)
            if nested:
                inner = LlmAgent("inner", ScriptedModel(turn, default="ok"), tools=tools)
                outer = ScriptedModel(calls(("inner", {"request": "go"})), default="ok")
                app.root_agent = LlmAgent("outer", outer, tools=[AgentTool(inner)])
            config = RunConfig(tool_execution=chance.choice(list(ToolExecution)))
            with Runner(app, log=MemoryEventLog(), config=config) as runner:
                run = runner.run(**KEY, message="hi").start()
                watch = Watch(run, bodies, ours=not nested)
                _never.wait(chance.random() / 100)
                assert watch.look() is None
                receipt = run.cancel("enough")
                while (report := watch.look()) is None or report.terminated is None:
                    assert len(watch.seen) < 1_000_000
                if receipt.accepted:
                    assert report.race_winner == "cancelled"
                assert_steps(watch.seen)
                assert run.wait_terminated(PATIENCE)


@pytest.mark.scenario("A19")
def test_a_dispose_returns_at_once_and_the_wait_for_the_end_of_the_work_is_another() -> None:
    begun, go = threading.Event(), threading.Event()

    def stubborn() -> None:
        begun.set()
        go.wait(PATIENCE)

    with Runner(app_with(ScriptedModel(calls(("stubborn", {}))), stubborn), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        assert run.dispose().accepted
        assert not run.wait_terminated(0.05)
        assert run.cancel_report is not None
        assert run.cancel_report.terminated is None
        go.set()
        assert run.wait_terminated(PATIENCE)
        assert run.cancel_report.terminated is not None
