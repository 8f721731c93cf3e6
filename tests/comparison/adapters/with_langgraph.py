"""langgraph, with the agent of langchain; cancelled by cancelling the task that waits for it."""

import asyncio
from typing import Any

from cancelling import Scene, found, play


class LangGraph:
    """See `cancelling.Framework`."""

    def __init__(self, scene: Scene) -> None:
        model = found("langchain_openai").ChatOpenAI(
            model="any", base_url=f"{scene.url}/v1", api_key="none", max_retries=0, streaming=scene.streaming
        )
        saver = found("langgraph.checkpoint.memory").InMemorySaver()
        self._agent = found("langchain.agents").create_agent(model, [scene.tool], checkpointer=saver)
        self._config = {"configurable": {"thread_id": "s"}}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self, message: str) -> str:
        """See `cancelling.Framework`."""
        self._loop = asyncio.get_running_loop()
        asked = {"messages": [("user", message)]}
        task: asyncio.Task[Any] = asyncio.create_task(self._agent.ainvoke(asked, self._config))
        self._task = task
        state: Any = await task
        return str(state["messages"][-1].content)

    def cancel(self) -> None:
        """See `cancelling.Framework`."""
        assert self._loop is not None
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)

    def running(self) -> str:
        """See `cancelling.Framework`."""
        return ""

    async def close(self) -> None:
        """See `cancelling.Framework`."""


if __name__ == "__main__":
    play(LangGraph, "langgraph", "langchain", "langchain-openai")
