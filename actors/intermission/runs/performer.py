"""`Performer`: the half of a strand that does what its generators yield."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import (
    Call,
    CallModel,
    CallTools,
    Emit,
    Ended,
    Escalate,
    Fork,
    RunAgent,
    Runnable,
    SaveState,
    promises,
)
from intermission.agents.llm import LlmAgent
from intermission.events import NO_ACTIONS, Event, EventActions
from intermission.kernel.scope import CancelScope
from intermission.runs.ahead import Ahead
from intermission.runs.async_calls import function_call
from intermission.runs.calls import Blocking, OpenCall, Outcome
from intermission.runs.environment import Environment
from intermission.runs.fork import Forked, check_depth
from intermission.runs.frames import Frame, frame_in, frame_of, part_frame
from intermission.runs.hooks import Body, Opening
from intermission.runs.line import Finished, Line, Owe, Pause, Store
from intermission.runs.messages import Item
from intermission.runs.model_hooks import has_model_hooks, model_steps
from intermission.runs.signals import RunPaused, RunStopped
from intermission.runs.storing import Stored, Storing
from intermission.runs.together import Together
from intermission.runs.tool_turns import tool_turn

__all__ = ["Performer"]

logger = logging.getLogger(__name__)


class Performer(Storing):
    """The half of a strand that does what its generators yield.

    Args:
        environment: What the strands of a run share.
        scope: Cancelled when the strand must end.
        root: Whether the run ends with this strand.
        caught: Whether an agent that has forked ends when one here escalates.

    Attributes:
        begun: The ids of calls whose beginning is in the log.
        stopped: Whether it ended before its time, because a stop was asked for.
        paused: Whether it ended before its time, because a call waits for an answer from outside.
        escalated: Whether it ended before its time, because an agent in it escalated.
    """

    def __init__(self, environment: Environment, scope: CancelScope, *, root: bool, caught: bool) -> None:
        super().__init__(environment, scope)
        self.begun: set[str] = set()
        self.stopped = self.paused = self.escalated = False
        self._root = root
        self._caught = caught
        self._escalates = False  # what is being stored asks the enclosing loop to end
        self._stack: list[Frame] = []
        self._last: Stored | None = None  # the reply after which a quick root has nothing more to do

    @property
    def pauses_with_end(self) -> bool:
        """See `Line.pauses_with_end`."""
        return self._root and self.environment.pauses_with_end

    def start(self) -> None:
        """See `Line.start`."""
        raise NotImplementedError

    def resume(self, outcome: Outcome) -> None:
        """See `Line.resume`."""
        raise NotImplementedError

    def leave(self) -> None:
        """See `Line.leave`."""
        raise NotImplementedError

    def branch(
        self, agent: Runnable, context: AgentContext, scope: CancelScope, finished: Finished, *, caught: bool
    ) -> Line:
        """See `Line.branch`."""
        raise NotImplementedError

    def catches_escalation(self) -> bool:
        """See `Line.catches_escalation`."""
        return self._caught or any(_ends_on_escalation(frame) for frame in self._stack)

    def _check_stop(self) -> None:
        if self.environment.run.stop_requested is not None:
            raise RunStopped

    def _check_agents(self, effect: object, agents: Iterable[object]) -> None:
        for agent in agents:
            if isinstance(agent, type) or not callable(getattr(agent, "run", None)):
                name = self._stack[-1].agent.name
                raise TypeError(f"agent {name!r} yielded {effect!r}, but {agent!r} is no agent")

    def _perform(self, effect: Any) -> Outcome | Stored | None:
        if self._ahead is not None and not self._may_overlap(effect):
            self._settle_ahead()
        asked: object = effect
        kind = type(asked)  # the most frequent ones first; of their subclasses there are few
        if kind is Blocking:
            return self._block(effect)
        if kind is Emit:
            return self._emit(effect)
        match effect:
            case Event():
                return self._emit(Emit(effect))
            case CallModel():
                self._check_stop()
                ahead, self._ahead = self._ahead, None
                top = self._stack[-1]
                return self._push(model_steps(self.environment, effect, top.agent, top.context, ahead))
            case CallTools():
                top = self._stack[-1]
                return self._push(tool_turn(self, effect, top.context, top.agent.name))
            case Emit():
                return self._emit(effect)
            case Store(records):
                return self._store(None, after=records)
            case Blocking():
                return self._block(effect)
            case Together():
                return effect.suspend()
            case RunAgent(agent, part):
                self._check_stop()
                self._check_agents(effect, [agent])
                check_depth(self._stack, agent)
                context = self.environment.inner(agent, self._stack[-1].context)
                if context is not None:
                    make = part_frame if part else frame_of
                    self._stack.append(make(self.environment, agent, context))
                return Outcome()
            case Fork(agents):
                self._check_stop()
                self._check_agents(effect, agents)
                return self._fork(effect)
            case _:
                return self._perform_more(effect)

    def _perform_more(self, effect: Any) -> Outcome | Stored | None:
        """As `_perform`, for what is rare."""
        match effect:
            case Ahead():
                return effect
            case Escalate():
                self._escalates = True
                return Outcome()
            case SaveState(state):
                return self._save(self._stack[-1], state)
            case Owe(item):
                self.owed.append(item)
                return Outcome()
            case Pause():
                self._check_stop()
                raise RunPaused
            case Call(function, args):
                name = getattr(function, "__name__", type(function).__name__)
                return self._block(Blocking(function_call(function, args), "call", name))
            case Body():
                top = self._stack[-1]
                if effect.tail:
                    self._stack.pop().steps.close()
                self._stack.append(frame_in(self.environment, effect, top))
                return Outcome()
            case Opening(event):
                plan = self.environment.run.plan
                if plan is not None:
                    self.owed += plan.records(event.timestamp)
                return self._store(event, opening=True)
            case _:
                name = self._stack[-1].agent.name
                raise TypeError(f"agent {name!r} yielded {effect!r}, which is no effect")

    def _may_overlap(self, effect: Any) -> bool:
        if not isinstance(effect, CallModel) or self.environment.run.stop_requested is not None:
            return False
        # Hooks see nothing that is not stored.
        return not has_model_hooks(self.environment.plugins, self._stack[-1].agent)

    def _push(self, steps: Any) -> Outcome:
        """Put steps of the runtime's own on the stack; what they return is the effect's answer."""
        top = self._stack[-1]
        self._stack.append(Frame(steps, top.agent, top.context, quick=True))
        return Outcome()

    def _emit(self, effect: Emit) -> Outcome | Stored:
        event = effect.event
        run = self.environment.run
        self.environment.check_event(event, self._stack[-1].agent.name)
        if event.partial:
            run.show(event)
            return Outcome(event)
        event = self.environment.with_changes(event, self._stack[-1].context)
        actions = event.actions
        self._escalates = actions is not NO_ACTIONS and actions.escalate
        after: list[Item] = []
        if effect.starts_calls and run.stop_requested is None:
            agent = self._stack[-1].agent
            tools = agent.tools if isinstance(agent, LlmAgent) else {}
            calls = self.environment.at_once(event.function_calls, tools)
            self.begun.update(call.id for call in calls)
            after = [self.environment.call_started(call) for call in calls]
        if effect.calls_model and run.config.overlap_model_calls and run.stop_requested is None:
            return Outcome(self._store_ahead(event))
        top = self._stack[-1]
        ends = effect.last and promises(top.steps)
        if ends and top.ends and self.environment.resumable:
            after.append(self._end_of(top))
            top.ends = False
        if not (ends and self._root and len(self._stack) == 1 and self.environment.ends_with_event):
            return self._store(event, after=after)
        reply = self._store(event, after=after, last=True)
        if top.quick:
            self._last = reply
        return reply

    def _end_of(self, frame: Frame) -> Event:
        """The event that says that an agent has come to its end."""
        end = frame.context.event(frame.agent.name, actions=EventActions(end_of_agent=True))
        return self.environment.with_changes(end, frame.context)

    def _save(self, top: Frame, state: Mapping[str, Any] | None) -> Outcome | Stored:
        kept = top.context.agent_state
        if state is not None:
            kept.clear()
            kept.update(state)
        if not self.environment.resumable:
            return Outcome()
        event = top.context.event(top.agent.name, actions=EventActions(agent_state=kept.take()))
        return self._store(self.environment.with_changes(event, top.context))

    def _fork(self, fork: Fork) -> Outcome:
        top = self._stack[-1]
        with self._blocking:
            ended = Forked(self, fork, top.agent, top.context).wait()
        if ended is None or _ends_on_escalation(top):
            return Outcome(ended)
        return self._escalate(Outcome())

    def _escalate(self, outcome: Outcome) -> Outcome:
        """An agent has escalated: leave all up to the innermost one that ends by that, if there is one."""
        self._escalates = False
        if outcome.error is not None:
            return outcome
        emitter = self._stack[-1].agent
        for index in range(len(self._stack) - 1, -1, -1):
            frame = self._stack[index]
            if frame.agent is not emitter and _ends_on_escalation(frame):
                self._close(index + 1)
                return Outcome(Ended.ESCALATED)
        if self._caught:
            self.escalated = True
            self._close()
        return outcome

    def _block(self, blocking: Blocking) -> Outcome | None:
        call = OpenCall(
            self.environment.run,
            self.environment.services,
            self.scope,
            blocking,
            go_on=self.resume,
            leave=self.leave,
        )
        with self._blocking:
            return call.perform()

    def _close(self, height: int = 0) -> None:
        """Leave the generators above a height."""
        while len(self._stack) > height:
            frame = self._stack.pop()
            try:
                with nullcontext() if frame.quick else self._blocking:
                    frame.steps.close()
            except BaseException:
                logger.exception(
                    "agent %s raised while it was closed", frame.agent.name, extra=self.environment.extra
                )


def _ends_on_escalation(frame: Frame) -> bool:
    return bool(getattr(frame.agent, "ends_on_escalation", False))
