"""pydantic-ai, cancelled by its `CancellationToken`; its error holds the messages for the next run."""

from typing import Any

from cancelling import Scene, found, play


class PydanticAI:
    """See `cancelling.Framework`."""

    def __init__(self, scene: Scene) -> None:
        self._ai = found("pydantic_ai")
        provider = found("pydantic_ai.providers.openai").OpenAIProvider(
            base_url=f"{scene.url}/v1", api_key="none"
        )
        model = found("pydantic_ai.models.openai").OpenAIChatModel("any", provider=provider)
        self._agent = self._ai.Agent(model, tools=[scene.tool])
        self._streaming = scene.streaming
        self._messages: list[Any] = []
        self._token: Any = None

    async def run(self, message: str) -> str:
        """See `cancelling.Framework`."""
        self._token = self._ai.CancellationToken()
        try:
            result = await self._asked(message)
        except self._ai.RunCancelled as cancelled:
            self._messages = cancelled.all_messages()
            raise
        self._messages = result.all_messages()
        return str(result.output)

    async def _asked(self, message: str) -> Any:
        options = {"message_history": self._messages, "cancellation_token": self._token}
        if not self._streaming:
            return await self._agent.run(message, **options)
        result: Any = None
        async with self._agent.run_stream_events(message, **options) as events:
            async for event in events:
                result = getattr(event, "result", result)
        return result

    def cancel(self) -> None:
        """See `cancelling.Framework`."""
        self._token.cancel()

    def running(self) -> str:
        """See `cancelling.Framework`."""
        return ""

    async def close(self) -> None:
        """See `cancelling.Framework`."""


if __name__ == "__main__":
    play(PydanticAI, "pydantic-ai-slim", "openai")
