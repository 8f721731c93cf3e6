"""The start and the end of a web service's worker, as an ASGI lifespan. No key: the model is scripted."""

import asyncio
from collections.abc import Awaitable, Callable

from intermission import App, LlmAgent, ResumabilityConfig, Runner
from intermission.testing import Gate, ScriptedModel, text

Messages = Callable[[], Awaitable[dict[str, str]]]
Send = Callable[[dict[str, str]], Awaitable[None]]


class Worker:
    """One process of the service."""

    def __init__(self, model: ScriptedModel) -> None:
        agent = LlmAgent("writer", model)
        self.app = App("service", agent, resumability_config=ResumabilityConfig(is_resumable=True))

    async def lifespan(self, receive: Messages, send: Send) -> None:
        """What the server calls with the lifespan's messages."""
        await receive()  # lifespan.startup
        self.runner = Runner(self.app, log="service.lmdb", loop=asyncio.get_running_loop())
        self.recovery = asyncio.create_task(self.recover())  # requests need not wait for it
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self.runner.aclose(grace=0.1)  # what does not end by then is released, for the next worker
        await self.recovery  # it has nothing more to wait for
        await send({"type": "lifespan.shutdown.complete"})

    async def recover(self) -> None:
        """Go on with what other workers have left."""
        report = await self.runner.arecover_all(max_parallel=4)
        for one in report.continued:
            print("continued", one.session_id, one.result.text)
        for one in report.failed:
            print("failed", one.session_id, one.result.error)


async def serve(worker: Worker, request: Callable[[Worker], Awaitable[None]]) -> None:
    """Stand for the server: start a worker, have one request made, and end it."""
    messages, started = asyncio.Queue[dict[str, str]](), asyncio.Event()

    async def send(message: dict[str, str]) -> None:
        print(message["type"])
        started.set()

    messages.put_nowait({"type": "lifespan.startup"})
    task = asyncio.create_task(worker.lifespan(messages.get, send))
    await started.wait()
    await request(worker)
    messages.put_nowait({"type": "lifespan.shutdown"})
    await task


async def main() -> None:
    """Deploy a new worker while the old one has a run under way."""
    gate = Gate()

    async def write(worker: Worker) -> None:
        run = worker.runner.run(user_id="ada", session_id="essay", message="Write an essay.")
        await run.astart()
        await asyncio.to_thread(gate.arrived)  # the model is at work

    async def come_later(worker: Worker) -> None:
        await worker.recovery

    await serve(Worker(ScriptedModel(text(gate, "never heard"))), write)
    gate.open()
    await serve(Worker(ScriptedModel("The essay.")), come_later)


asyncio.run(main())
