"""`Environment`: what the strands of one run share."""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from typing import Any

import pykka

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.compaction import EventsCompactionConfig
from intermission.agents.contents import Conversations
from intermission.agents.effects import Runnable
from intermission.agents.outcomes import CallOutcome
from intermission.agents.plugins import Plugins
from intermission.agents.progress import AgentState, Making, Progress
from intermission.config import ToolExecution
from intermission.content import FunctionCall, FunctionResponse
from intermission.errors import LlmCallsLimitExceededError
from intermission.events import NO_ACTIONS, Event, EventActions
from intermission.isolation.children import Children
from intermission.kernel.ref import ActorRef
from intermission.kernel.scope import CancelScope
from intermission.kernel.workers import Budget
from intermission.processes.groups import Descendant
from intermission.runs.ahead import Ahead, EventsAhead, Preview, state_ahead
from intermission.runs.leftovers import watch
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import AgentDone, Append
from intermission.runs.services import Services
from intermission.runs.signals import RunOver
from intermission.state import TEMP, State, apply_change
from intermission.tools.base import Tool, is_async
from intermission_storage import Kind, Record

__all__ = ["Environment", "model_calls_of"]


def model_calls_of(events: Sequence[Event], invocation_id: str) -> int:
    """Return how often an invocation has asked a model so far, as far as its events tell."""
    return sum(event.invocation_id == invocation_id and event.usage is not None for event in events)


class Environment:
    """What the strands of one run share.

    Args:
        run: The run.
        services: What the runs of a runner share.
        session: The run's session.
        committed: Returns the session's state as it is committed, now.
        events: The session's events, which grow as they are stored.
        plugins: The app's plugins.
        outcomes: See `AgentContext`.
        makings: See `AgentContext`.
        root: The app's root agent.
        resumable: Whether the app keeps what is needed to go on with its runs.
        pauses: Whether a run ends where a call waits for an answer from outside.
        progress: How far its agents had come, if the run is gone on with.
        compaction: How older events are summed up when the run is done, if that is due.
        branch: The branch that it begins on.
    """

    def __init__(
        self,
        run: Lifecycle,
        services: Services,
        session: ActorRef,
        committed: Callable[[], Mapping[str, Any]],
        events: Sequence[Event],
        plugins: Plugins,
        outcomes: Mapping[str, CallOutcome] | None = None,
        makings: Mapping[str, Making] | None = None,
        root: BaseAgent | None = None,
        *,
        resumable: bool = False,
        pauses: bool = False,
        progress: Progress | None = None,
        compaction: EventsCompactionConfig | None = None,
        branch: str | None = None,
    ) -> None:
        self.run = run
        self._branch = branch
        self.resumable = resumable
        self.pauses = pauses
        self.compaction = compaction
        self._progress = progress
        self._root = root
        self._outcomes = outcomes
        self._makings = makings
        self.plugins = plugins
        # Where an event is looked at before it is shown, the run's end waits for that.
        self.ends_with_event = not plugins.hooks("on_event_callback")
        self.pauses_with_end = self.ends_with_event and not plugins.hooks("after_run_callback")
        self.callback_data: dict[str, Any] = {}
        self.services = services
        self._overlaps = run.config.overlap_model_calls
        self._stored = events
        self.events = EventsAhead(events) if self._overlaps else events
        self._conversations = Conversations(self.events)
        self._session = session
        self._committed = committed
        given = run.state_delta.items()
        self._temp = {key: value for key, value in given if key.startswith(TEMP) and value is not None}
        self._temp_changing = threading.Lock()  # parallel branches may
        before = 0 if progress is None else model_calls_of(events, run.invocation_id or "")
        self._model_calls = itertools.count(1 + before)
        self.extra = {
            "session": run.key.session_id,
            "user": run.key.user_id,
            "invocation": run.invocation_id,
        }

    @property
    def scope(self) -> CancelScope:
        """The run's scope."""
        assert self.run.scope is not None
        return self.run.scope

    @property
    def children(self) -> Children:
        """Processes for the tools that have one."""
        return self.services.children

    @property
    def grace(self) -> float:
        """Seconds between the request to end and the kill of such a process."""
        return self.run.config.grace

    def left_behind(self, call_id: str, process: Descendant) -> None:
        """A process has left the group of its tool call, and lives though the call is over."""
        watch(self.run.work, call_id, process, self.extra)

    def context(self) -> AgentContext:
        """Return what the run's root agent knows."""
        assert self.run.invocation_id is not None
        return AgentContext(
            invocation_id=self.run.invocation_id,
            user_id=self.run.key.user_id,
            session_id=self.run.key.session_id,
            config=self.run.config,
            events=self.events,
            clock=self.services.clock,
            state=self.new_state(),
            cancellation=self.scope,
            branch=self._branch,
            outcomes=self._outcomes,
            makings=self._makings,
            callback_data=self.callback_data,
            root=self._root,
            resumable=self.resumable,
            pauses=self.pauses,
            conversations=self._conversations,
        )

    def inner(self, agent: Runnable, outer: AgentContext) -> AgentContext | None:
        """Return what an agent knows that is run where `outer` is known.

        It is `None` if the run is gone on with, and the agent had come to its end before.
        """
        saved = None if self._progress is None else self._progress.take(agent.name, outer.branch)
        if saved is None:
            return replace(outer, agent_state=AgentState(), saved=None, agent_name=agent.name)
        if saved.ended:
            return None
        return replace(outer, agent_state=AgentState(saved.state), saved=saved, agent_name=agent.name)

    def check_event(self, event: Event, agent: str) -> None:
        """Refuse what an agent may have yielded, but no reader of the log would find or understand.

        Raises:
            TypeError: It is no event, its author is no `str`, or its timestamp no number.
            ValueError: It belongs to another run, or says that it is from the user, or from nobody.
        """
        given: object = event
        if not isinstance(given, Event):  # pyright: ignore[reportUnnecessaryIsInstance] - agents without types
            raise TypeError(f"agent {agent!r} yielded Emit({given!r}), which holds no event")
        author, timestamp = event.author, event.timestamp
        if not isinstance(author, str):  # pyright: ignore[reportUnnecessaryIsInstance] - agents without types
            raise TypeError(f"agent {agent!r} yielded an event whose author is {author!r}, which is no str")
        if author in {"user", ""}:
            raise ValueError(
                f"agent {agent!r} yielded an event of author {author!r}; give it the name of an agent"
            )
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - agents without types
            raise TypeError(
                f"agent {agent!r} yielded an event whose timestamp is {timestamp!r}; give seconds as a number"
            )
        if event.invocation_id != self.run.invocation_id:
            raise ValueError(
                f"agent {agent!r} yielded an event of invocation {event.invocation_id!r}, but this is run "
                f"{self.run.invocation_id!r}; context.event() makes events that belong to it"
            )

    def tell(self, message: Append | AgentDone) -> None:
        """Send the session a message.

        Raises:
            RunOver: There is no such session any more, and so no run.
        """
        try:
            # The strand has nothing else to do until the session has handled it.
            self._session.tell_here(message)
        except pykka.ActorDeadError:
            raise RunOver from None

    def tell_later(self, message: Append) -> None:
        """Send the session a message, which it handles on a thread of its own.

        Raises:
            RunOver: See `tell`.
        """
        try:
            self._session.tell(message)
        except pykka.ActorDeadError:
            raise RunOver from None

    def ahead(self, event: Event, refused: Callable[[], None]) -> Ahead:
        """Return a reply to the append of an event that a model is asked about meanwhile; see `Ahead`."""
        state = dict(self._visible())
        apply_change(state, event.actions.state_delta, event.actions.state_operations)
        return Ahead(Preview(self._stored, event), state, refused)

    def submit(
        self,
        function: Callable[..., None],
        *args: Any,
        refused: Callable[[], None] | None = None,
        budget: Budget = Budget.CALLS,
        context: Context | None = None,
    ) -> None:
        """Have a worker call a function, with the variables of the run's caller; see `Workers.submit`."""
        context = self.run.context.copy() if context is None else context
        self.services.workers.submit(function, *args, refused=refused, budget=budget, context=context)

    def count_model_call(self) -> None:
        """Count one more model call of the run.

        Raises:
            LlmCallsLimitExceededError: The run has had all that it may.
        """
        limit = self.run.config.max_llm_calls
        if 0 < limit < next(self._model_calls):
            raise LlmCallsLimitExceededError(limit)

    def new_state(self) -> State:
        """Return a view of the session's state, with no changes yet."""
        return State(self._visible)

    def _visible(self) -> Mapping[str, Any]:
        ahead = state_ahead() if self._overlaps else None
        if ahead is not None:
            return ahead
        committed = self._committed()
        return {**committed, **self._temp} if self._temp else committed

    def with_changes(self, event: Event, context: AgentContext) -> Event:
        """Return the event with what its agent has changed and asks for; what is `temp:` stays here."""
        if self.resumable and context.agent_state.changed:
            actions = replace(event.actions, agent_state=context.agent_state.take())
            event = replace(event, actions=actions)
        if context.actions.asked:
            event = replace(event, actions=context.actions.take(event.actions))
        delta, operations = context.state.take()
        delta |= event.actions.state_delta
        if not (delta or operations or event.actions.state_operations):
            return event
        operations = (*event.actions.state_operations, *operations)
        temp = {key: delta.pop(key) for key in list(delta) if key.startswith(TEMP)}
        passing = tuple(one for one in operations if one.key.startswith(TEMP))
        if temp or passing:
            with self._temp_changing:
                changed = dict(self._temp)
                apply_change(changed, temp, passing)
                self._temp = changed
        stored = tuple(one for one in operations if not one.key.startswith(TEMP))
        return replace(event, actions=replace(event.actions, state_delta=delta, state_operations=stored))

    def at_once(self, calls: Sequence[FunctionCall], tools: Mapping[str, Tool]) -> Sequence[FunctionCall]:
        """Return which calls of a turn begin at once."""
        match self.run.config.tool_execution:
            case ToolExecution.SEQUENTIAL:
                return calls[:1]
            case ToolExecution.PARALLEL_SUBSCRIBE:
                return calls
            case _:
                blocking = [call for call in calls if not is_async(tools.get(call.name))]
                return [call for call in calls if call in blocking[:1] or call not in blocking]

    def call_started(self, call: FunctionCall) -> Record:
        """The record that a call begins: from then on it may have had its effect."""
        return Record(
            Kind.CALL_STARTED,
            {
                "invocationId": self.run.invocation_id,
                "callId": call.id,
                "tool": call.name,
                "timestamp": self.services.clock.time(),
            },
        )

    def call_finished(
        self,
        call: FunctionCall,
        outcome: str,
        response: FunctionResponse | None = None,
        actions: EventActions = NO_ACTIONS,
    ) -> Record:
        """The record that a call has ended.

        It holds the response and what the call has changed and asks for, if no event of it travels along.
        """
        data: dict[str, Any] = {
            "invocationId": self.run.invocation_id,
            "callId": call.id,
            "outcome": outcome,
            "timestamp": self.services.clock.time(),
        }
        if response is not None:
            data["response"] = dict(response.response)
        if actions is not NO_ACTIONS:
            data["actions"] = {name: value for name, value in actions.to_dict().items() if value}
        return Record(Kind.CALL_FINISHED, data)
