"""`WildTools`: tools of all kinds, each of which takes a moment, and some of which heed no cancel.

`WildModel` calls some of them when its user says "wild", and otherwise says "done".
"""

import asyncio
import queue
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import plain_tools
from intermission import (
    AgentTool,
    Cancelled,
    Content,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    ToolContext,
    blocking,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel, calls

__all__ = ["WildModel", "WildTools"]

_never = threading.Event()


class WildTools:
    """Tools that wait for a moment at random, each in its own way. A context manager.

    Args:
        chance: Decides how long.
        children: Whether one of them starts a process each time, besides the one that runs in a process.
    """

    def __init__(self, chance: random.Random, *, children: bool = True) -> None:
        self._chance = chance
        self._pool = ThreadPoolExecutor(2, "wild")
        inner = LlmAgent("asks_an_agent", ScriptedModel(default=calls(("looks", {}))), tools=[self.looks])
        self.tools: dict[str, Any] = {
            "looks": self.looks,
            "sleeps": self.sleeps,
            "waits_for_a_queue": self.waits_for_a_queue,
            "heeds_nothing": self.heeds_nothing,
            "swallows": self.swallows,
            "raises": self.raises,
            "hooks": self.hooks,
            "shields": self.shields,
            "is_async": self.is_async,
            "is_async_and_swallows": self.is_async_and_swallows,
            "returns_a_future": self.returns_a_future,
            "asks_an_agent": AgentTool(inner),
            "nap": FunctionTool(plain_tools.nap, isolation="process"),
        }
        if children:
            self.tools["runs_a_process"] = self.runs_a_process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End its threads."""
        self._pool.shutdown()

    def _moment(self) -> float:
        return self._chance.random() / 100

    def looks(self, tool_context: ToolContext) -> str:
        """Look at the scope between steps."""
        for _ in range(5):
            tool_context.cancellation.check()
            _never.wait(self._moment() / 5)
        return "seen"

    def sleeps(self, tool_context: ToolContext) -> None:
        """Sleep on the scope."""
        tool_context.cancellation.sleep(self._moment())

    def waits_for_a_queue(self) -> str:
        """Wait for what does not come."""
        try:
            return str(blocking.get(queue.Queue[int](), timeout=self._moment()))
        except queue.Empty:
            return "nothing"

    def heeds_nothing(self) -> str:
        """Wait without looking at anything."""
        _never.wait(self._moment())
        return "late"

    def swallows(self, tool_context: ToolContext) -> str:
        """Swallow the signal, and go on."""
        try:
            tool_context.cancellation.sleep(self._moment())
        except Cancelled:
            _never.wait(self._moment())
        return "ok"

    def raises(self) -> None:
        """Fail."""
        _never.wait(self._moment())
        raise ValueError("no")

    def hooks(self, tool_context: ToolContext) -> None:
        """Have others told, who take their time, and one of whom fails."""
        tool_context.cancellation.on_cancel(lambda: _never.wait(self._moment()))
        tool_context.cancellation.on_cancel(self.raises)
        tool_context.cancellation.sleep(self._moment())

    def shields(self, tool_context: ToolContext) -> None:
        """Keep a section whole."""
        with tool_context.cancellation.shield():
            _never.wait(self._moment())
        tool_context.cancellation.check()

    async def is_async(self) -> None:
        """Sleep on the loop."""
        await asyncio.sleep(self._moment())

    async def is_async_and_swallows(self) -> str:
        """Swallow the signal on the loop."""
        try:
            await asyncio.sleep(self._moment())
        except asyncio.CancelledError:
            await asyncio.sleep(self._moment())
        return "ok"

    def returns_a_future(self) -> "Future[bool]":
        """Leave the work to a thread of somebody else's."""
        return self._pool.submit(_never.wait, self._moment())

    def runs_a_process(self) -> str:
        """Run a child that takes longer than this."""
        return str(blocking.run([sys.executable, "-c", "pass"], capture_output=True, grace=0.1).returncode)


class WildModel:
    """Calls up to three tools at random.

    Args:
        chance: Decides which.
        tools: Their names.
    """

    name = "wild"

    def __init__(self, chance: random.Random, tools: Iterable[str]) -> None:
        self._chance = chance
        self._tools = sorted(tools)
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.requests.append(request)
        wild = request.contents[-1].text == "wild"
        if request.streaming:
            for _ in range(3):
                _never.wait(self._chance.random() / 1000)
                yield ModelResponse(content=Content.model("do"), partial=True)
        text = "dododo" if request.streaming else "do"
        chosen = self._chance.sample(self._tools, self._chance.randint(1, 3)) if wild else []
        made = [FunctionCall("", name, {"request": "look"} if "agent" in name else {}) for name in chosen]
        yield ModelResponse(content=Content.model(text, calls=made))
