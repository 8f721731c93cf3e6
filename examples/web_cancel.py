"""A web service that streams answers, and cancels a run whose client has hung up. Standard library only."""

import asyncio
from contextlib import suppress

from intermission import App, LlmAgent, Run, RunConfig, Runner
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog

rest = Gate()  # stands for a model that takes its time
model = ScriptedModel(text("Once ", rest, "upon a time"), default=text("Hello ", "again."))
app = App("web", LlmAgent("teller", model))


async def answer(runner: Runner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one request: `GET /session`, answered as the text comes."""
    session_id = (await reader.readline()).decode().split()[1].strip("/")
    while (await reader.readline()).strip():
        pass  # the headers
    config = RunConfig(streaming=True)
    run = runner.run(user_id="web", session_id=session_id, message="Tell me something.", config=config)
    sending = asyncio.create_task(send(run, writer))
    hung_up = asyncio.create_task(reader.read())  # there is no more to read: it returns when the client goes
    await asyncio.wait({sending, hung_up}, return_when=asyncio.FIRST_COMPLETED)
    if not sending.done():
        # Cancelling the task would do, as a lost consumer. This says why.
        await run.acancel("the client has hung up")
    for task in (sending, hung_up):
        task.cancel()
    await asyncio.gather(sending, hung_up, return_exceptions=True)
    writer.close()
    result = await run
    print(session_id, result.status, result.reason or "whole")


async def send(run: Run, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
    with suppress(ConnectionError):  # it has hung up, and the other task knows
        async for piece in run.atext_stream():
            writer.write(piece.encode())
            await writer.drain()


async def get(port: int, path: str, size: int = -1) -> bytes:
    """A client that reads as much, and hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    try:
        return await reader.read(size)
    finally:
        writer.close()


async def main() -> None:
    async with Runner(app, log=MemoryEventLog()) as runner:
        served = asyncio.Queue[None]()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await answer(runner, reader, writer)
            served.put_nowait(None)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            begun = await get(port, "/s1", size=5)
            await served.get()
            rest.open()
            whole = await get(port, "/s1")
            await served.get()
            print(begun, whole)


asyncio.run(main())
