"""Runs of all kinds, cancelled and closed at random: each ends, and leaves nothing behind."""

import asyncio
import random
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from apps import app_of
from intermission import AgentContext, BaseAgent, Content, LlmAgent, Run, RunConfig, Runner
from intermission.agents.effects import Call, Fork, RunAgent, Steps
from intermission.config import ToolExecution
from intermission.testing import ScriptedModel, calls
from intermission_storage import LmdbEventLog
from loops import PATIENCE
from pools import until
from races import at_once
from scale import rounds

ROUNDS = rounds(5, 300)
_never = threading.Event()


@pytest.fixture
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class AtRandom(BaseAgent):
    """Does something else in each run, and blocks now and then for a moment wherever it may."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__("at_random")
        self._chance = chance

    def pause(self) -> None:
        if self._chance.random() < 0.3:
            _never.wait(self._chance.random() / 500)

    def asks(self, name: str) -> LlmAgent:
        def look() -> str:
            self.pause()
            return "seen"

        async def look_later() -> str:
            await asyncio.sleep(self._chance.random() / 500)
            return "seen"

        turn = calls(("look", {}), ("look_later", {}), ("look", {}))
        return LlmAgent(name, ScriptedModel(turn, default="ok"), tools=[look, look_later])

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            match self._chance.randrange(4):
                case 0:
                    yield RunAgent(self.asks("one"))
                case 1:
                    yield Fork([self.asks("one"), self.asks("other")])
                case 2:
                    yield context.event(self.name, content=Content.model("before"))
                    self.pause()
                case _:
                    yield Call(self.pause)
            yield context.event(self.name, content=Content.model("after"))
        finally:
            self.pause()


@pytest.mark.usefixtures("_many_switches")
def test_runs_that_are_cancelled_and_closed_at_random_end_and_leave_no_work_and_no_place(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)
    for number in range(ROUNDS):
        mode = chance.choice(list(ToolExecution))
        config = RunConfig(tool_execution=mode, overlap_model_calls=chance.random() < 0.5)
        with LmdbEventLog(tmp_path / f"log-{number}", sync=False) as log:
            runner, runs = Runner(app_of(AtRandom(chance)), log=log, config=config), list[Run]()

            def work(session: int, runner: Runner = runner, runs: list[Run] = runs) -> None:
                for _ in range(6):
                    runs.append(run := runner.run(user_id="u", session_id=f"s-{session}", message="hi"))
                    run.start()
                    if chance.random() < 0.4:
                        _never.wait(chance.random() / 100)
                        run.cancel()

            at_once(*[partial(work, thread % 5) for thread in range(8)])
            if chance.random() < 0.5:
                runner.close(grace=0, runs=chance.choice(["cancel", "release"]))
            for run in runs:
                run.result(PATIENCE)
                assert run.wait_terminated(PATIENCE)
            workers = runner._services.workers  # pyright: ignore[reportPrivateUsage] - whose places are counted
            until(lambda workers=workers: workers.busy == 0)  # type: ignore[misc]  # it takes no argument
            assert workers.waiting == 0
            runner.close()
            assert runner.residual() == []
