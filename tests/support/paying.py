"""`Shop`: an app whose tools wait for people, and a log whose batches can be looked at."""

from collections.abc import Sequence
from typing import Any

from apps import APP, KEY
from intermission import (
    App,
    BaseAgent,
    Event,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    PendingCall,
    ResumabilityConfig,
    Runner,
    RunResult,
    ToolContext,
)
from intermission.testing import ScriptedModel, calls
from intermission_storage import EventLog, MemoryEventLog, Record

__all__ = ["PAY", "RESUMABLE", "Shop", "Submits", "paused"]

RESUMABLE = ResumabilityConfig(is_resumable=True)
PAY = calls(("pay", {"amount": 3}))


class Shop:
    """An app with a tool that asks for leave, one whose result comes later, and a plain one."""

    def __init__(self, *replies: Any, default: Any = "done") -> None:
        self.paid: list[tuple[int, Any]] = []
        self.model = ScriptedModel(*replies, default=default)
        self.log: EventLog = MemoryEventLog()

    def pay(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Pay."""
        said = tool_context.confirmation
        self.paid.append((amount, None if said is None else said.payload))
        return {"paid": amount}

    def measure(self, number: int = 1) -> None:
        """Measure, which takes days."""

    def tools(self) -> list[FunctionTool]:
        """Its tools."""
        return [FunctionTool(self.pay, require_confirmation=True), LongRunningFunctionTool(self.measure)]

    def agent(self, name: str = "clerk", **fields: Any) -> LlmAgent:
        """The agent that has them."""
        return LlmAgent(name, self.model, tools=self.tools(), **fields)

    def runner(self, root: BaseAgent | None = None) -> Runner:
        """A runner on its log; of no other is anything left."""
        return Runner(App(APP, root or self.agent(), resumability_config=RESUMABLE), log=self.log)


class Submits(MemoryEventLog):
    """Keeps the batches that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Record]] = []

    def submit(self, stream: str, records: Sequence[Record], *args: Any, **options: Any) -> None:
        """See `EventLog.submit`."""
        self.batches.append(list(records))
        super().submit(stream, records, *args, **options)

    def kinds(self) -> list[list[str]]:
        """The kinds of the records of each batch."""
        return [[str(record.kind) for record in batch] for batch in self.batches]

    def events(self) -> list[list[Event]]:
        """The events of each batch."""
        return [[Event.from_dict(one.data) for one in batch if one.kind == "event"] for batch in self.batches]


def paused(runner: Runner, message: str = "Pay!") -> tuple[RunResult, list[PendingCall]]:
    """Have a run pause; return its result and what it waits for."""
    result = runner.run(**KEY, message=message).result()
    assert result.status == "paused", result
    return result, list(result.pending)
