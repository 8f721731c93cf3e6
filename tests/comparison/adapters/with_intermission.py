"""Intermission, cancelled by `run.cancel()`."""

import tempfile
from pathlib import Path

from cancelling import Scene, play
from intermission import App, LlmAgent, Run, RunConfig, Runner
from intermission.models import ChatCompletions


class Intermission:
    """See `cancelling.Framework`."""

    def __init__(self, scene: Scene) -> None:
        agent = LlmAgent("agent", ChatCompletions("any", base_url=f"{scene.url}/v1"), tools=[scene.tool])
        self._directory = tempfile.TemporaryDirectory(prefix="intermission-comparison-")
        log = Path(self._directory.name) / "log"
        config = RunConfig(streaming=scene.streaming)
        self._runner = Runner(App("app", agent), log=log, config=config)
        self._run: Run | None = None

    async def run(self, message: str) -> str:
        """See `cancelling.Framework`."""
        self._run = self._runner.run(user_id="u", session_id="s", message=message)
        return await self._run.aanswer()

    def cancel(self) -> None:
        """See `cancelling.Framework`."""
        assert self._run is not None
        self._run.cancel("no time")

    def running(self) -> str:
        """See `cancelling.Framework`."""
        return ", ".join(f"`residual()`: {work.name}" for work in self._runner.residual())

    async def close(self) -> None:
        """See `cancelling.Framework`."""
        await self._runner.aclose()
        self._directory.cleanup()


if __name__ == "__main__":
    play(Intermission, "intermission")
