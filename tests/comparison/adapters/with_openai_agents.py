"""openai-agents, cancelled by `result.cancel()` if it streams, else by cancelling the task that waits."""

import asyncio
from typing import Any

from cancelling import Scene, found, play


class OpenAIAgents:
    """See `cancelling.Framework`."""

    def __init__(self, scene: Scene) -> None:
        self._agents = agents = found("agents")
        agents.set_tracing_disabled(True)
        client = found("openai").AsyncOpenAI(base_url=f"{scene.url}/v1", api_key="none", max_retries=0)
        model = agents.OpenAIChatCompletionsModel(model="any", openai_client=client)
        self._agent = agents.Agent(name="agent", model=model, tools=[agents.function_tool(scene.tool)])
        self._session = agents.SQLiteSession("s")
        self._streaming = scene.streaming
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._result: Any = None

    async def run(self, message: str) -> str:
        """See `cancelling.Framework`."""
        self._loop = asyncio.get_running_loop()
        if self._streaming:
            self._result = self._agents.Runner.run_streamed(self._agent, message, session=self._session)
            async for _ in self._result.stream_events():
                pass
            return str(self._result.final_output)
        asked = self._agents.Runner.run(self._agent, message, session=self._session)
        task: asyncio.Task[Any] = asyncio.create_task(asked)
        self._task = task
        result: Any = await task
        return str(result.final_output)

    def cancel(self) -> None:
        """See `cancelling.Framework`."""
        assert self._loop is not None
        cancel = self._result.cancel if self._task is None else self._task.cancel
        self._loop.call_soon_threadsafe(cancel)

    def running(self) -> str:
        """See `cancelling.Framework`."""
        return ""

    async def close(self) -> None:
        """See `cancelling.Framework`."""


if __name__ == "__main__":
    play(OpenAIAgents, "openai-agents", "openai")
