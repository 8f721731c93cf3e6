"""All that ends a run, each as something that a test can let happen at a moment of its choice."""

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from apps import APP, KEY, records
from async_gates import AsyncGate
from intermission import (
    AgentContext,
    App,
    BaseAgent,
    CancelSource,
    Content,
    LlmAgent,
    LongRunningFunctionTool,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    blocking,
)
from intermission.agents.effects import Call, Fork, Steps
from intermission.runs.receipt import CancelReceipt
from intermission.runs.result import RunResult
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from pools import until
from races import at_once

__all__ = ["ENDS", "OWN", "SOURCES", "Ending", "Race"]

OWN = frozenset({"completion", "pause", "stop", "sibling_failure", "tool_failure"})
"""Ends that a run comes to by itself."""

_PATIENCE = 30.0
_NEVER = 1_000_000.0
_PASSES = 20.0  # seconds by which the clock is moved


@dataclass(frozen=True)
class Ending:
    """One cause of an end.

    Attributes:
        statuses: How a run ends that it has won.
        source: What the records say then.
        happen: Lets it happen, on the thread that calls this.
    """

    statuses: frozenset[RunStatus]
    source: CancelSource | None
    happen: Callable[["Race"], object]


class _Forking(BaseAgent):
    def __init__(self, *branches: BaseAgent) -> None:
        super().__init__("forking")
        self.branches = branches

    def run(self, context: AgentContext) -> Steps:
        yield Fork(self.branches)
        yield context.event(self.name, content=Content.model("both"))


class _Calling(BaseAgent):
    def __init__(self, name: str, step: Callable[[], object]) -> None:
        super().__init__(name)
        self.step = step

    def run(self, context: AgentContext) -> Steps:
        yield Call(self.step)
        yield context.event(self.name, content=Content.model(self.name))


class Race:
    """A run of two branches: each waits until it may go on, or a cancel comes. Then causes of an end meet.

    If an overload is among them, the second branch stands in line for a worker instead. If the failure of a
    tool is, the first branch makes two calls, of which one fails while the other waits. If a pause is, the
    first branch makes a call that is answered from outside.

    Args:
        causes: The names of what will meet.
        after: How many steps towards an end of its own the run takes before a cause from outside comes: the
            first branch goes on, then each event is shown.
        limit: Seconds that the run may take, if a deadline is among the causes.
        worker_wait: Seconds that a strand stands in line, if an overload is. Both pass in one move.

    Attributes:
        receipts: What the cancels among them were told, by the cause.
        results: What those who watched the run to its end were told.
    """

    def __init__(self, *causes: str, after: int = 0, limit: float = 10, worker_wait: float = 10) -> None:
        self.causes = causes
        self._after = after if set(causes) & set(OWN) else 0  # otherwise it takes none
        self._steps, self._changed = 0, threading.Condition()
        self.receipts: dict[str, CancelReceipt] = {}
        self.results: list[RunResult] = []
        self.fails = False
        self.goes_on, self.over = threading.Event(), threading.Event()
        self.clock, self.log, self._there = ManualClock(), MemoryEventLog(), Gate()
        self._there.open()
        self.tool_fails = AsyncGate()
        crowded, pausing = "overload" in causes, "pause" in causes
        calling = "tool_failure" in causes
        if (calling or pausing) and self._after:  # two events are shown before the tool has returned
            # In a crowd, the strand whose call was given up stands in line, and takes no more steps.
            self._after = 1 if crowded else self._after + 2
        agent = _Forking(self._first(calling, pausing), _Calling("two", self._wait))
        self.runner = Runner(
            App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=pausing)),
            log=self.log,
            clock=self.clock,
            workers=2 if crowded else 8,  # the one that forks has one, too
            worker_wait=worker_wait if crowded else _NEVER,
        )
        config = RunConfig(timeout=limit if "deadline" in causes else _NEVER)
        self.run: Run = self.runner.run(**KEY, message="hi", config=config)
        self._block = ExitStack()
        if "consumer_lost" in causes:
            self._block.enter_context(self.run)
        else:
            self.run.start()
        self.viewer = self.runner.attach(**KEY)
        self._there.arrived(1 if crowded else 2)
        if calling:
            self.tool_fails.arrived()
        if crowded:
            workers: Any = self.runner._services.workers  # pyright: ignore[reportPrivateUsage]  # to see the line
            until(lambda: workers.waiting > 0)

    def go(self) -> None:
        """Let the causes meet, watched by others, and wait until nothing of the run is left."""
        watchers = [self._watch]
        if "consumer_lost" not in self.causes:  # who waits is a consumer, and would not be lost
            watchers.append(lambda: self.results.append(self.run.result(_PATIENCE)))
        causes = [lambda name=name: self._cause(name) for name in self.causes]
        try:
            at_once(*causes, *watchers)
            self.over.set()
            assert self.run.wait_terminated(_PATIENCE)
            self.results.append(self.run.result(_PATIENCE))
        finally:
            self.goes_on.set()
            self.tool_fails.open()
            self._block.close()

    def lose_consumer(self) -> None:
        """Leave the block of the run."""
        self._block.close()

    def own_records(self) -> list[Any]:
        """The run's records."""
        return [one for one in records(self.log) if one.data.get("invocationId") == self.run.invocation_id]

    def _cause(self, name: str) -> None:
        if name not in OWN:
            with self._changed:
                assert self._changed.wait_for(lambda: self._steps >= self._after, _PATIENCE)
        ENDS[name].happen(self)

    def _step(self, count: int = 1) -> None:
        with self._changed:
            self._steps += count
            self._changed.notify_all()

    def _watch(self) -> None:
        with suppress(Exception):  # whatever ended the run
            for _ in self.viewer:
                self._step()
        self._step(self._after)
        self.results.append(self.viewer.result(_PATIENCE))

    def _wait(self) -> None:
        self._there.wait()
        blocking.wait(self.goes_on)

    def _first(self, calling: bool, pausing: bool) -> BaseAgent:
        if calling:
            return self._calls_tools()
        return self._asks_outside() if pausing else _Calling("one", self._wait_or_fail)

    def _asks_outside(self) -> BaseAgent:
        def ask() -> None:
            self._wait()
            self._step()

        return LlmAgent("one", ScriptedModel(calls(("ask", {}))), tools=[LongRunningFunctionTool(ask)])

    def _calls_tools(self) -> BaseAgent:
        async def fail() -> None:
            await self.tool_fails.wait()
            self._step()
            raise ValueError("a tool has failed")

        def wait() -> None:
            self._wait()

        return LlmAgent("one", ScriptedModel(calls(("fail", {}), ("wait", {}))), tools=[fail, wait])

    def _wait_or_fail(self) -> None:
        self._wait()
        self._step()
        if self.fails:
            raise ValueError("branch one has failed")


def _by_caller(race: Race) -> None:
    race.receipts["caller"] = race.run.cancel("caller")


def _by_admin(race: Race) -> None:
    race.receipts["admin"] = race.runner.cancel(**KEY, reason="admin")


def _fail(race: Race) -> None:
    race.fails = True
    race.goes_on.set()


def _stop(race: Race) -> None:
    race.run.stop("stop")
    race.goes_on.set()


def _crowd(race: Race) -> None:
    # Again and again, for a strand whose call was given up may come to stand in line behind the first move.
    for _ in range(1000):
        race.clock.advance(_PASSES)
        if race.run.state == "ended":
            return
        race.over.wait(0.01)


_CANCELLED = frozenset({RunStatus.CANCELLED})

SOURCES: dict[str, Ending] = {
    "caller": Ending(_CANCELLED, CancelSource.CALLER, _by_caller),
    "consumer_lost": Ending(_CANCELLED, CancelSource.CONSUMER_LOST, Race.lose_consumer),
    "deadline": Ending(
        frozenset({RunStatus.EXPIRED}), CancelSource.DEADLINE, lambda race: race.clock.advance(_PASSES)
    ),
    "sibling_failure": Ending(frozenset({RunStatus.FAILED}), None, _fail),
    "shutdown": Ending(_CANCELLED, CancelSource.SHUTDOWN, lambda race: race.runner.close(0, runs="cancel")),
    "overload": Ending(_CANCELLED, CancelSource.OVERLOAD, _crowd),
    "admin": Ending(_CANCELLED, CancelSource.ADMIN, _by_admin),
}
"""The seven sources. The failure of a branch cancels its sibling, and fails the run."""

ENDS: dict[str, Ending] = {
    **SOURCES,
    "tool_failure": Ending(frozenset({RunStatus.FAILED}), None, lambda race: race.tool_fails.open()),
    "completion": Ending(frozenset({RunStatus.COMPLETED}), None, lambda race: race.goes_on.set()),
    "pause": Ending(frozenset({RunStatus.PAUSED}), None, lambda race: race.goes_on.set()),
    "stop": Ending(frozenset({RunStatus.STOPPED, RunStatus.COMPLETED}), None, _stop),
    "release": Ending(
        frozenset({RunStatus.INTERRUPTED}), None, lambda race: race.runner.close(0, runs="release")
    ),
}
"""All that can end a run by itself or from outside."""
