"""google-adk, cancelled as its own server does when a client hangs up: the abort signal, and the task."""

import asyncio
from typing import Any

from cancelling import Scene, found, play


class GoogleAdk:
    """See `cancelling.Framework`."""

    def __init__(self, scene: Scene) -> None:
        agents, models = found("google.adk.agents"), found("google.adk.models")
        model = models.Gemini(
            model="gemini-any", base_url=scene.url, client_kwargs={"api_key": "none", "vertexai": False}
        )
        mode = agents.run_config.StreamingMode
        self._config = agents.RunConfig(streaming_mode=mode.SSE if scene.streaming else mode.NONE)
        agent = agents.LlmAgent(name="agent", model=model, tools=[scene.tool])
        self._runner = found("google.adk.runners").InMemoryRunner(agent=agent, app_name="app")
        self._types = found("google.genai.types")
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._abort = asyncio.Event()
        self._task: asyncio.Task[str] | None = None

    async def run(self, message: str) -> str:
        """See `cancelling.Framework`."""
        self._loop = asyncio.get_running_loop()
        if self._session is None:
            self._session = await self._runner.session_service.create_session(app_name="app", user_id="u")
        self._abort = asyncio.Event()
        self._task = asyncio.create_task(self._answer(message))
        return await self._task

    async def _answer(self, message: str) -> str:
        content: Any = self._types.Content(role="user", parts=[self._types.Part(text=message)])
        events = self._runner.run_async(
            user_id="u",
            session_id=self._session.id,
            new_message=content,
            run_config=self._config,
            abort_signal=self._abort,
        )
        said = ""
        try:
            async for event in events:
                content = event.content
                parts: list[Any] = content.parts if content and content.parts else []
                said = "".join(part.text or "" for part in parts) or said
        finally:
            await events.aclose()
        return said

    def cancel(self) -> None:
        """See `cancelling.Framework`."""

        def both() -> None:
            self._abort.set()
            assert self._task is not None
            self._task.cancel()

        assert self._loop is not None
        self._loop.call_soon_threadsafe(both)

    def running(self) -> str:
        """See `cancelling.Framework`."""
        return ""

    async def close(self) -> None:
        """See `cancelling.Framework`."""
        await self._runner.close()


if __name__ == "__main__":
    play(GoogleAdk, "google-adk", "google-genai")
