"""What a run costs that can be counted: commits, flushes, and turns of threads. No clock has a say in it."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, app_of, app_with
from commits import hold
from flushes import compile_shim, count, in_child
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionCall,
    LlmAgent,
    Part,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Steps, call_tools, emit
from intermission.config import ToolExecution
from intermission.kernel.dispatcher import Activatable, Dispatcher
from intermission.kernel.workers import Budget, Workers
from intermission.testing import Gate, ScriptedModel, calls
from intermission.tools import FunctionTool
from intermission_storage import Appended, LmdbEventLog, MemoryEventLog, Record, StorageError
from pools import until

SESSIONS = 100
RUNS = 5  # of each session
COMMITS = 4  # of a run: its beginning, the call, the response, the answer with its end


def look(where: str) -> dict[str, str]:
    """Look."""
    return {"seen": where}


class OfOnesOwn(BaseAgent):
    """Calls a tool, and answers, with or without the promises that save commits."""

    def __init__(self, *, last: bool = False, starts_calls: bool = False) -> None:
        super().__init__("own")
        self._last = last
        self._starts_calls = starts_calls

    def run(self, context: AgentContext) -> Steps:
        call = FunctionCall(f"call-{len(context.events)}", "look", {"where": "here"})
        asked = context.event(self.name, content=Content("model", (Part(function_call=call),)))
        yield from emit(asked, starts_calls=self._starts_calls)
        (response,) = yield from call_tools([call], {"look": FunctionTool(look)})
        yield context.event(self.name, content=Content("user", (Part(function_response=response),)))
        yield from emit(context.event(self.name, content=Content.model("seen")), last=self._last)


def llm(*turns: int) -> LlmAgent:
    """Return an agent whose model makes so many calls in each turn, and then answers."""
    steps = [calls(*[("look", {"where": str(number)}) for number in range(turn)]) for turn in turns]
    return LlmAgent("agent", ScriptedModel(*steps, default="seen"), tools=[look])


AGENTS: dict[str, tuple[Callable[[], BaseAgent], int]] = {
    "an answer": (llm, 2),
    "a call": (lambda: llm(1), COMMITS),
    "two turns with a call": (lambda: llm(1, 1), 6),
    "two calls in a turn": (lambda: llm(2), 5),
    "of one's own": (lambda: OfOnesOwn(last=True, starts_calls=True), COMMITS),
    "of one's own, which does not tell its end": (lambda: OfOnesOwn(starts_calls=True), 5),
    "of one's own, which promises nothing": (OfOnesOwn, 6),
}
"""Agents, and the commits of a run of each."""


class Counted(MemoryEventLog):
    """Counts the batches that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Any,
    ) -> None:
        """See `EventLog.submit`."""
        self.batches += 1
        super().submit(stream, records, done, **options)


class InStep(LmdbEventLog):
    """Keeps what it is given until each session has given something, then commits all of it together."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.steps = 0
        self._guard = threading.RLock()
        self._kept: list[Callable[[], None]] = []

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Any,
    ) -> None:
        """See `EventLog.submit`."""

        def commit() -> None:
            super(InStep, self).submit(stream, records, done, **options)

        if stream == "gate":
            commit()
            return
        with self._guard:
            self._kept.append(commit)
            if len(self._kept) == SESSIONS:
                self.steps += 1
                together, self._kept = self._kept, []
                gate = hold(self)
                for commit_one in together:
                    commit_one()
                gate.open()


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


# What follows runs in the child.


def flushes_alone(path: str, name: str) -> list[int]:
    """Return the flushes of a session's first run, and of its second."""
    make, _ = AGENTS[name]
    found: list[int] = []
    with LmdbEventLog(path) as log:
        for _ in range(2):
            with Runner(app_of(make()), log=log) as runner:
                before = count()
                assert runner.run(**KEY, message="hi").result().status is RunStatus.COMPLETED
                found.append(count() - before)
    return found


def flushes_together(path: str) -> list[int]:
    """Return the flushes of many sessions' runs, without those of the gates, and the steps that they made."""
    agent = OfOnesOwn(last=True, starts_calls=True)
    with InStep(path) as log, Runner(app_of(agent), log=log) as runner:
        before = count()
        runs = [
            runner.run(user_id="u", session_id=str(session), message="hi")
            for session in range(SESSIONS)
            for _ in range(RUNS)
        ]
        for run in runs:
            run.begin()
        for run in runs:
            assert run.result().status is RunStatus.COMPLETED
        return [count() - before - 2 * log.steps, log.steps]


# And this here.


@pytest.mark.parametrize("name", AGENTS)
def test_the_commits_of_a_run_are_no_more_than_its_agent_asks_for(name: str) -> None:
    make, commits = AGENTS[name]
    with Counted() as log, Runner(app_of(make()), log=log) as runner:
        assert runner.run(**KEY, message="hi").result().status is RunStatus.COMPLETED
        assert log.batches == commits


@pytest.mark.parametrize(
    ("name", "flushes"),
    [("a call", 8), ("of one's own, which does not tell its end", 10)],
)
def test_each_commit_of_a_run_that_is_alone_costs_two_flushes(
    shim: Path, tmp_path: Path, name: str, flushes: int
) -> None:
    assert in_child(shim, flushes_alone, str(tmp_path / "log"), name, flush_us=0) == [flushes, flushes]


@pytest.mark.slow
def test_a_hundred_sessions_in_step_cost_no_more_flushes_than_one(shim: Path, tmp_path: Path) -> None:
    flushes, steps = in_child(shim, flushes_together, str(tmp_path / "log"), flush_us=0)
    assert steps == RUNS * COMMITS
    assert flushes == 2 * steps
    assert flushes / (SESSIONS * RUNS) == 0.08


def submits(monkeypatch: pytest.MonkeyPatch, pools: set[Workers] | None = None) -> Counter[Budget]:
    """Return what counts the jobs that workers are given from now on; add those workers to a set."""
    found = Counter[Budget]()
    submit = Workers.submit

    def counted(self: Workers, *args: Any, **options: Any) -> None:
        found[options.get("budget", Budget.CALLS)] += 1
        if pools is not None:
            pools.add(self)
        submit(self, *args, **options)

    monkeypatch.setattr(Workers, "submit", counted)
    return found


def test_a_run_whose_tools_take_turns_is_one_job_of_the_workers_all_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Runner(app_of(llm(1, 2, 1)), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="the first run reads the session").result()
        jobs = submits(monkeypatch)
        runner.run(**KEY, message="hi").result()
        assert jobs == {Budget.CALLS: 1}


@pytest.mark.parametrize(("agent", "calls"), [("a call", COMMITS - 1), ("of one's own", COMMITS)])
def test_a_worker_is_called_for_the_beginning_of_a_run_and_for_each_commit_but_a_last_one_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, calls: int
) -> None:
    called: list[Workers] = []
    call = Workers._call  # pyright: ignore[reportPrivateUsage] - what is counted

    def counted(self: Workers) -> bool:
        called.append(self)
        return call(self)

    monkeypatch.setattr(Workers, "_call", counted)
    make, _ = AGENTS[agent]
    with LmdbEventLog(tmp_path / "log", sync=False) as log:
        for number in range(20):
            with Runner(app_of(make()), log=log) as runner:
                runner.run(user_id="u", session_id=f"{number}", message="hi").result()
        # And for reading the session. What is stored before the agent has left its thread costs no call; nor
        # does the last event of the runtime's own agent, which has no thread any more.
        assert 20 <= len(called) <= (1 + calls) * 20


def test_a_sessions_first_run_has_one_job_more_which_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = submits(monkeypatch)
    with Runner(app_of(llm(1)), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result()
        assert jobs == {Budget.CALLS: 1, Budget.RESERVE: 1}


def test_calls_that_overlap_have_a_worker_each_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = set[Workers]()
    jobs = submits(monkeypatch, pools)
    overlap = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    gate = Gate()

    def wait() -> str:
        gate.wait()
        return "done"

    with Runner(
        app_with(ScriptedModel(calls(("wait", {}), ("wait", {}), ("wait", {})), "ok"), wait),
        log=MemoryEventLog(),
    ) as runner:
        run = runner.run(**KEY, message="hi", config=overlap).start()
        gate.arrived(3)
        pool = next(iter(pools))
        until(lambda: pool.busy == 3)  # the strand has left, and a worker goes on with it in the end
        assert jobs[Budget.CALLS] == 1 + 3
        gate.open()
        assert run.result().status is RunStatus.COMPLETED
        assert jobs[Budget.CALLS] == 1 + 3 + 1


def test_a_run_with_one_call_takes_the_dispatcher_twelve_turns_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Activatable] = []
    schedule = Dispatcher.schedule

    def counted(self: Dispatcher, item: Activatable) -> None:
        turns.append(item)
        schedule(self, item)

    monkeypatch.setattr(Dispatcher, "schedule", counted)
    agent = OfOnesOwn(last=True, starts_calls=True)
    with LmdbEventLog(tmp_path / "log", sync=False) as log, Runner(app_of(agent), log=log) as runner:
        for _ in range(20):
            runner.run(**KEY, message="hi").result()
        # The session's: the run, three appends, what became of four commits, and that the agent is done. The
        # agent's: that it starts, and stops. And one, for a message that comes while its reader falls asleep.
        assert COMMITS * 20 <= len(turns) <= (1 + 3 + 4 + 1 + 2 + 1) * 20
