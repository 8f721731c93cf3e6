"""A loop's heart beats on while its runs meet slow, silent and broken servers, cancels and slow commits."""

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from apps import Key
from intermission import App, CancelSource, LlmAgent, ResumabilityConfig, Run, RunConfig, Runner, RunStatus
from intermission.models import ChatCompletions, ModelRequest, ModelResponse
from intermission.testing import Cut, FaultyLog, Gate, ModelServer, Pings, ScriptedModel, silent, stream, text
from intermission_storage import LmdbEventLog, MemoryEventLog
from loop_kinds import LOOPS, MakeLoop, run_on
from loop_watch import LoopWatch, heartbeat
from loops import PATIENCE

KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=[] if name == "asyncio" else pytest.mark.long)
        for name, kind in LOOPS.items()
    ],
)
MANY = max(64, 4 * (os.cpu_count() or 1))


def key(number: int) -> Key:
    return {"user_id": "u", "session_id": str(number)}


def model_at(url: str) -> ChatCompletions:
    return ChatCompletions("model", base_url=url, api_key="key", max_retries=0)


class ByName:
    """Asks the model that its user names."""

    name = "any"

    def __init__(self, models: dict[str, ChatCompletions]) -> None:
        self.models = models

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        said = next(content for content in reversed(request.contents) if content.role == "user")
        return self.models[str(said.parts[0].text)].generate(request)


class Storm:
    """Servers of each kind, a look-up that takes for ever, and a log some of whose commits are slow."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stack, self.lookup, self.answers = ExitStack(), Gate(), Gate()
        look_up = socket.getaddrinfo

        def slow(host: Any, *args: Any, **options: Any) -> Any:
            if host == "slow.invalid":
                self.lookup.wait()
            return look_up(host, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", slow)
        replies: dict[str, Any] = {
            "whole": text("Hel", "lo"),
            "silent": silent("answer"),
            "pings": stream("Hel", Pings()),
            "broken": stream("Hel", Cut.RESET),
        }
        self.servers = {
            name: self.stack.enter_context(ModelServer(default=reply)) for name, reply in replies.items()
        }
        models = {name: model_at(server.url) for name, server in self.servers.items()}
        models["unknown"] = model_at("http://slow.invalid:1/v1")
        app = App(
            "app",
            LlmAgent("agent", ByName(models)),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        self.names = list(models)
        self.log = FaultyLog(LmdbEventLog(path / "log"))
        self.slow_commits = [self.log.hold(number) for number in range(3, 4 * MANY, 5)]
        self._opener, self._over = threading.Thread(target=self._open), threading.Event()
        self._opener.start()
        self.runner = Runner(app, log=self.log)

    def _open(self) -> None:
        """Let each held commit go on after a hundredth of a second."""
        for gate in self.slow_commits:
            while not (gate.arrivals or self._over.is_set()):
                self._over.wait(0.01)
            self._over.wait(0.01)
            gate.open()

    def close(self) -> None:
        self._over.set()
        self.lookup.open()
        self._opener.join(PATIENCE)
        self.runner.close(0)
        self.log.close()
        self.stack.close()


@pytest.fixture
def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storm]:
    """A storm, over at the end."""
    one = Storm(tmp_path, monkeypatch)
    yield one
    one.close()


async def consume(run: Run) -> str:
    return "".join([event.delta async for event in run])


@KINDS
def test_a_storm_of_runs_never_stops_the_heart_of_their_loop(kind: MakeLoop, storm: Storm) -> None:
    runner = storm.runner

    async def storm_on(numbers: range) -> Counter[tuple[str, RunStatus]]:
        runs = dict[int, tuple[str, Run, asyncio.Task[str]]]()
        for number in numbers:
            name = storm.names[number % len(storm.names)]
            run = runner.run(**key(number), message=name, config=RunConfig(streaming=True))
            runs[number] = name, run, asyncio.create_task(consume(run))
            if number % 8 == 0:
                viewer = asyncio.ensure_future(look(runner, number))
                await asyncio.sleep(0)
                await viewer
        await asyncio.to_thread(storm.servers["silent"].wait_held, (numbers.stop - 1) // len(storm.names))
        for number, (name, run, task) in runs.items():
            if name in {"silent", "unknown"}:
                assert (await run.acancel("enough")).accepted
            elif name == "pings":
                (task.cancel if number % 2 else run.cancel)()
        await asyncio.wait([task for _, _, task in runs.values()])
        assert (await runner.arecover_all()).failed == ()
        statuses = [(name, (await run.aresult(PATIENCE)).status) for name, run, _ in runs.values()]
        for _, run, task in runs.values():
            if not task.cancelled():
                task.exception()
            assert len(await (await run).aevents()) >= 1
        return Counter(statuses)

    async def main() -> None:
        with LoopWatch() as watch:
            async with heartbeat() as steps:
                found = await storm_on(range(1, MANY + 1))
                left = [runner.run(**key(number), message="silent") for number in range(8)]
                for run in left:
                    await run.astart()
                await runner.aclose(grace=0)
                assert {run.status for run in left} == {RunStatus.INTERRUPTED}
        assert watch.seen == []
        ends = {
            "whole": RunStatus.COMPLETED,
            "broken": RunStatus.FAILED,
            **dict.fromkeys(("silent", "pings", "unknown"), RunStatus.CANCELLED),
        }
        assert found.keys() == set(ends.items())
        assert found.total() == MANY
        assert len(steps) > 50

    run_on(kind, main())


async def look(runner: Runner, number: int) -> None:
    """What else a service does: it lists, looks, and counts."""
    await runner.sessions.alist()
    assert runner.metrics()["runs_active"] >= 0
    assert not await runner.session(**key(number)).apending()


@KINDS
def test_as_many_tasks_as_there_are_meet_inside_a_server_that_answers_when_all_are_there(
    kind: MakeLoop,
) -> None:
    gate = Gate()
    with ModelServer(default=text(gate, "ok")) as server:

        async def main() -> None:
            app = App("app", LlmAgent("agent", model_at(server.url)))
            async with Runner(app, log=MemoryEventLog()) as runner, heartbeat(), asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(runner.run(**key(number), message="hi").aanswer())
                    for number in range(MANY)
                ]
                await asyncio.to_thread(gate.arrived, MANY)  # else it says how many have
                gate.open()
                assert [await task for task in tasks] == ["ok"] * MANY
                assert dispatchers() == 1  # of all their actors

        run_on(kind, main())


def dispatchers() -> int:
    """How many threads the actors of sessions have."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith("intermission-sessions") for name in names)


class Counting(ScriptedModel):
    """Knows how many ask it at a time."""

    asking = most = 0

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.asking += 1
        self.most = max(self.most, self.asking)
        try:
            yield from super().generate(request)
        finally:
            self.asking -= 1


def test_with_one_worker_sixteen_tasks_take_turns_and_who_waits_too_long_is_told() -> None:
    gate = Gate()
    model = Counting(*["ok"] * 16, default=text(gate, "late"))
    app = App("app", LlmAgent("agent", model))

    async def main() -> None:
        async with Runner(app, log=MemoryEventLog(), workers=1) as runner, heartbeat():
            runs = [runner.run(**key(number), message="hi") for number in range(16)]
            assert [result.text for result in await asyncio.gather(*runs)] == ["ok"] * 16
            assert model.most == 1
        async with Runner(app, log=MemoryEventLog(), workers=1, worker_wait=0.05) as runner:
            first = await runner.run(**key(0), message="hi").astart()
            await asyncio.to_thread(gate.arrived)
            second = runner.run(**key(1), message="hi")  # a server that waits for both would wait in vain
            assert (await second).status is RunStatus.CANCELLED
            assert second.cancel_report is not None
            assert second.cancel_report.source is CancelSource.OVERLOAD
            gate.open()
            assert await first.aanswer(PATIENCE) == "late"

    asyncio.run(main())
