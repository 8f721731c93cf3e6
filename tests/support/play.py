"""`Play`: performs an agent's effects on plain lists: no thread, no log, no model."""

from collections.abc import Mapping
from typing import Any

from intermission import (
    AgentContext,
    BaseAgent,
    CancelScope,
    Content,
    Event,
    FunctionCall,
    FunctionResponse,
    Part,
    RunConfig,
    State,
    ToolContext,
)
from intermission.actions import Actions
from intermission.agents.effects import Call, CallModel, CallTools, Emit, Generated, RunAgent
from intermission.kernel.clock import SystemClock
from intermission.models import ModelRequest, ModelResponse
from intermission.state import apply_change
from intermission.tools.base import ToolArgumentError

__all__ = ["Play", "answering", "calling", "said"]


def said(content: Content | str | None, author: str = "a", **fields: Any) -> Event:
    """An event in which somebody says something; a text is the user's or the model's, after the author."""
    if isinstance(content, str):
        content = Content.user(content) if author == "user" else Content.model(content)
    known: dict[str, Any] = {"invocation_id": "e", "timestamp": 0.0, **fields}
    return Event(author=author, content=content, **known)


def calling(*ids: str, author: str = "a", **fields: Any) -> Event:
    """An event with calls of those ids."""
    return said(Content.model(calls=[FunctionCall(each, "look", {}) for each in ids]), author, **fields)


def answering(*ids: str, author: str = "a", said_back: str = "", **fields: Any) -> Event:
    """An event with responses to the calls of those ids."""
    told = {"ok": said_back}
    parts = [Part(function_response=FunctionResponse(each, "look", {**told, "id": each})) for each in ids]
    return said(Content("user", tuple(parts)), author, **fields)


class Play:
    """Runs agents on lists.

    Args:
        replies: What the models say, in order, whichever is asked.
        events: What was before.
        state: The session's state.
        config: The run's settings.

    Attributes:
        events: The session's events, those of the agents among them.
        requests: What the models were asked.
        effects: All effects, in order.
    """

    def __init__(
        self,
        *replies: Content | str,
        events: tuple[Event, ...] = (),
        state: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
    ) -> None:
        self.replies = [Content.model(one) if isinstance(one, str) else one for one in replies]
        self.events = list(events) or [said("hi", "user")]
        self.state = dict(state or {})
        self.requests: list[ModelRequest] = []
        self.effects: list[Any] = []
        self._config = config or RunConfig()

    def context(self, branch: str | None = None) -> AgentContext:
        """What an agent knows."""
        return AgentContext(
            invocation_id="e",
            user_id="u",
            session_id="s",
            config=self._config,
            events=self.events,
            clock=SystemClock(),
            state=State(lambda: self.state),
            cancellation=CancelScope.child_of(None),
            branch=branch,
        )

    def run(self, agent: BaseAgent, branch: str | None = None) -> list[Event]:
        """Run an agent to its end, and return the events that came of it."""
        before = len(self.events)
        self._steps(agent, self.context(branch))
        return self.events[before:]

    def _steps(self, agent: Any, context: AgentContext) -> None:
        steps = agent.run(context)
        answer: Any = None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration:
                return
            self.effects.append(effect)
            answer = self._perform(effect, context)

    def _perform(self, effect: Any, context: AgentContext) -> Any:
        match effect:
            case Emit(event):
                return self._emit(event, context)
            case CallModel(_, request):
                self.requests.append(request)
                return Generated(ModelResponse(content=self.replies.pop(0)), 0)
            case CallTools(calls, tools):
                return tuple(self._call(tools[call.name], call, context) for call in calls)
            case RunAgent(agent):
                return self._steps(agent, context)
            case Call(function, args):
                return function(*args)
            case _:
                raise AssertionError(f"no effect of this kind was expected: {effect!r}")

    def _emit(self, event: Event, context: AgentContext) -> Event:
        data = event.to_dict()
        data["actions"] = context.actions.take(event.actions).to_dict()
        event = Event.from_dict(data)
        delta, operations = context.state.take()
        apply_change(self.state, {**delta, **event.actions.state_delta}, operations)
        self.events.append(event)
        return event

    def _call(self, tool: Any, call: FunctionCall, context: AgentContext) -> FunctionResponse:
        asked = Actions()
        stops = list[str]()
        known = ToolContext(call.id, "e", "u", "s", context.state, context.cancellation, asked, stops.append)
        try:
            response = tool.call(call.args, known)
        except ToolArgumentError as error:
            response = {"status": "error", "message": str(error)}
        context.actions.merge(asked)
        return FunctionResponse(call.id, call.name, response)
