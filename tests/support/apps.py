"""The smallest app there is, and looks into what a run left in the log."""

from collections.abc import Callable
from typing import Any, TypedDict

from intermission import AgentContext, App, BaseAgent, Content, LlmAgent
from intermission.agents.effects import Call, Steps
from intermission.keys import SessionKey
from intermission.models import Model
from intermission.testing import Gate
from intermission_storage import EventLog, Record

__all__ = ["APP", "KEY", "Key", "Slow", "app_of", "app_with", "kinds", "records", "runs_in_order"]

APP = "app"


class Key(TypedDict):
    """The keywords that name a session."""

    user_id: str
    session_id: str


KEY: Key = {"user_id": "u", "session_id": "s"}


def app_of(agent: BaseAgent) -> App:
    """An app of this agent."""
    return App(APP, agent)


def app_with(model: Model, *tools: Callable[..., Any]) -> App:
    """An app of one LLM agent."""
    return app_of(LlmAgent("agent", model, tools=tools))


class Slow(BaseAgent):
    """Waits at a gate, if its user says "a", and says "one"; otherwise it says "two".

    It does not tell its end, so what it says and the end of its run are two commits.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__("slow")
        self.gate = gate

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        first = context.events[-1].text == "a"
        if first:
            yield Call(self.gate.wait)
        yield context.event(self.name, content=Content.model("one" if first else "two"))


def records(log: EventLog, user_id: str = "u", session_id: str = "s") -> list[Record]:
    """All records of a session."""
    return log.read(SessionKey(APP, user_id, session_id).stream)


def kinds(log: EventLog) -> list[str]:
    """The kinds of the session's records, in order."""
    return [record.kind for record in records(log)]


def runs_in_order(log: EventLog) -> list[str]:
    """The invocation ids in the log, in order, asserting that no two runs interleave and each has one end."""
    finished: list[str] = []
    current: str | None = None
    for record in records(log)[1:]:
        invocation = record.data["invocationId"]
        if record.kind == "run_started":
            assert current is None, f"run {invocation} begins inside {current}"
            current = invocation
        assert invocation == current, f"a record of {invocation} stands in {current}"
        if record.kind == "run_ended":
            finished.append(invocation)
            current = None
    assert current is None, f"run {current} has no end"
    return finished
