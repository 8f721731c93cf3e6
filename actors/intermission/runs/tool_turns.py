"""What a strand does for `CallTools`, as a generator of blocking calls."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from intermission.actions import Actions
from intermission.agents.base import AgentContext
from intermission.agents.confirmations import question
from intermission.agents.effects import CallTools, Emit
from intermission.config import OnToolFailure, ToolExecution
from intermission.content import Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ToolFailedError
from intermission.events import NO_ACTIONS, Event, EventActions
from intermission.kernel.scope import CancelScope
from intermission.pending import Confirmation, PendingKind
from intermission.runs.async_calls import LATER, Later
from intermission.runs.call_changes import kept_changes, taken_up
from intermission.runs.calls import Blocking, CallGivenUpError, Outcome
from intermission.runs.line import Line, Pause, Store
from intermission.runs.result import CancelSource
from intermission.runs.standing_calls import FRESH, Standing, looked_up, standing_of
from intermission.runs.together import Together
from intermission.runs.tool_calls import Answered, call_tool, failed
from intermission.runs.tool_hooks import ToolHooks, tool_hooks
from intermission.state import State, StateChange
from intermission.tools.base import is_async, is_long_running, time_limit
from intermission.tools.function import confirmation_needed
from intermission_storage import Record

__all__ = ["NOT_RUN", "tool_turn"]

# Named, for what annotates an inner function is worked out each time that the function is made.
_Made: TypeAlias = Answered | Later

_LEFT_OUT: Final = object()

NOT_RUN = "not run, stopped"
"""What the model is told of a call that was not begun because the run was stopped."""

_SIBLING_FAILED = "another call of its turn failed"


@dataclass(slots=True)
class _Turn:
    """The calls of one turn, and what has become of them.

    Attributes:
        author: The name of the agent that made the calls.
        standing: How they stood before.
        asked: What those ask that were not made, for want of leave.
        waiting: Those whose response comes from outside.
        error: What fails the run, when the calls are answered; the first one.
        left: Those that wait, or waited, whose changes the journal holds and no event yet.
    """

    strand: Line
    context: AgentContext
    effect: CallTools
    hooks: ToolHooks | None
    author: str
    standing: Standing = field(default_factory=lambda: FRESH)
    asked: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    waiting: set[int] = field(default_factory=set[int])
    responses: dict[int, FunctionResponse] = field(default_factory=dict[int, FunctionResponse])
    changes: dict[int, tuple[StateChange, Actions]] = field(
        default_factory=dict[int, tuple[StateChange, Actions]]
    )
    error: Exception | None = None
    left: set[int] = field(default_factory=set[int])

    def blocking(self, index: int, detach: Callable[[Outcome], None] | None = None) -> Blocking:
        call = self.effect.calls[index]
        tools, hooks = self.effect.tools, self.hooks
        environment = self.strand.environment
        below = self.context.state
        state = State(lambda: below)  # not of the turn, which keeps this state: a circle would be left behind

        confirmation = self.standing.confirmed.get(index)
        look_up = self.standing.look_up.get(index)

        def function(scope: CancelScope) -> _Made:
            found = None if look_up is None else looked_up(look_up, call, environment.extra)
            if found is not None:
                return found, StateChange({}, ()), Actions()
            return call_tool(environment, call, tools, hooks, scope, state, confirmation)

        limit = time_limit(tools.get(call.name), environment.run.config.tool_timeout)
        return Blocking(function, "tool", call.name, call.id, limit, detach)

    def settle(self, index: int, outcome: Outcome) -> str:
        """Keep a call's response, and return its outcome for the log."""
        call = self.effect.calls[index]
        error = outcome.error
        if error is None:
            return self._answered(index, *outcome.value)
        if isinstance(error, CallGivenUpError):
            said = error.outcome
            response = {"status": error.status, "outcome": said, "message": str(error)}
        else:
            self.error = self.error or error
            said = "finished" if isinstance(error, ToolFailedError) else "unknown"
            response = {**failed(), "outcome": said}
        self.responses[index] = FunctionResponse(call.id, call.name, response)
        return said

    def _answered(self, index: int, response: FunctionResponse, change: StateChange, actions: Actions) -> str:
        call = self.effect.calls[index]
        asked = actions.requested_tool_confirmations.get(call.id)
        if asked is not None:
            self.asked[index] = asked
            if not self.strand.environment.pauses:
                self.responses[index] = FunctionResponse(call.id, call.name, confirmation_needed())
            return "asked"
        self.changes[index] = change, actions
        environment = self.strand.environment
        said_enough = response.response and (environment.resumable or not environment.pauses)
        if not said_enough and is_long_running(self.effect.tools.get(call.name)):
            self.waiting.add(index)
            if response.response:
                self.responses[index] = response  # the model is told what there is, and waits all the same
            return "pending"
        self.responses[index] = response
        return "finished"

    def finished(self, index: int, said: str) -> Record:
        """The record that a call has ended which is stored before any event that holds its response."""
        call = self.effect.calls[index]
        response = None if said == "pending" else self.responses.get(index)
        actions = kept_changes(*self.changes[index]) if index in self.changes else NO_ACTIONS
        if said == "pending" and actions is not NO_ACTIONS:
            self.left.add(index)
        return self.strand.environment.call_finished(call, said, response, actions)

    def leave_out(self, index: int) -> None:
        """Answer a call that does not begin."""
        call = self.effect.calls[index]
        stopped = self.strand.environment.run.stop_requested
        if self.error is not None:
            message = f"not run: {_SIBLING_FAILED}"
        else:
            message = f"{NOT_RUN}: {stopped}" if stopped else NOT_RUN
        response = {"status": "not_run", "outcome": "not_started", "message": message}
        self.responses[index] = FunctionResponse(call.id, call.name, response)
        if call.id in self.strand.begun:
            # The log says that it begins.
            self.strand.owed.append(self.strand.environment.call_finished(call, "not_started"))

    @property
    def over(self) -> bool:
        """Whether no more calls may begin."""
        return self.error is not None or self.strand.environment.run.stop_requested is not None

    @property
    def open(self) -> tuple[int, ...]:
        """The calls that are to be made, by their places."""
        known = self.standing.known
        return tuple(index for index in range(len(self.effect.calls)) if index not in known)

    def take(self, standing: Standing) -> None:
        """Take over how the calls stand that were begun before."""
        self.standing = standing
        self.responses |= standing.made
        self.waiting |= standing.waiting
        owed, environment = self.strand.owed, self.strand.environment
        outcomes, makings = self.context.outcomes or {}, self.context.makings or {}
        for index, call in enumerate(self.effect.calls):
            making = makings.get(call.id)
            if index in standing.known and making is not None and making.left is not None:
                self.changes[index] = taken_up(making.left)
                if index not in standing.made:
                    self.left.add(index)
            if index in standing.ask:
                hint = f"Is this call of the tool {call.name} to be made again? What came of it is not known."
                self.asked[index] = Confirmation(False, hint=hint).to_dict()
            elif index in standing.made and outcomes.get(call.id) == "unknown":
                owed.append(environment.call_finished(call, "unknown"))

    @property
    def pauses(self) -> bool:
        """Whether calls wait for answers from outside, and the run with them."""
        return self.strand.environment.pauses and bool(self.asked or self.waiting)

    def question(self) -> Event:
        """The event that asks whether calls may be made."""
        calls = self.effect.calls
        resume, confirm = PendingKind.RESUME, PendingKind.CONFIRMATION
        content = question(
            (calls[index], self.asked[index], resume if index in self.standing.ask else confirm)
            for index in sorted(self.asked)
        )
        ids = tuple(call.id for call in content.function_calls)
        requested = {calls[index].id: asked for index, asked in self.asked.items()}
        actions = EventActions(requested_tool_confirmations=requested)
        return self.context.event(self.author, content=content, long_running_tool_ids=ids, actions=actions)

    def response_event(self, answers: Sequence[FunctionResponse]) -> Event:
        """The event that holds responses, with what the tools changed and ask for."""
        parts = tuple(Part(function_response=response) for response in answers)
        return self.context.event(self.author, content=Content("user", parts))

    def answers(self) -> tuple[FunctionResponse, ...]:
        """Take over what the tools changed and ask for; return the responses. All in the calls' order."""
        for index in sorted(self.changes):
            change, actions = self.changes[index]
            self.context.state.merge(change)
            self.context.actions.merge(actions)
        for index in sorted(self.left):  # from here on an event holds it
            said = "pending" if index in self.waiting else "finished"
            ended = self.strand.environment.call_finished(self.effect.calls[index], said)
            self.strand.owed.append(ended)
        return tuple(self.responses[index] for index in sorted(self.responses))


def tool_turn(
    strand: Line, effect: CallTools, context: AgentContext, agent: str
) -> Generator[Any, Any, tuple[FunctionResponse, ...]]:
    """Run tools; return a response for each call, in order.

    Args:
        strand: Whose turn it is.
        effect: The calls.
        context: What the agent knows.
        agent: The name of the agent that made the calls, if the effect does not say it.

    Raises:
        Exception: What fails the run. The responses are stored before, so that no call is left open.
    """
    environment = strand.environment
    author = agent if effect.agent is None else effect.agent.name
    turn = _Turn(strand, context, effect, tool_hooks(environment.plugins, effect.agent), author)
    if effect.again:
        turn.take(standing_of(effect.calls, author, context, effect.tools))
    calls = turn.open
    mode = environment.run.config.tool_execution
    if turn.over:
        for index in calls:
            turn.leave_out(index)
    elif mode is ToolExecution.SEQUENTIAL or len(calls) <= 1:
        yield from _one_by_one(turn, calls)
    else:
        yield from _Overlapped(turn, calls).steps(all_at_once=mode is ToolExecution.PARALLEL_SUBSCRIBE)
    answers = turn.answers()
    if turn.error is not None:
        yield Emit(turn.response_event(answers))
        raise turn.error
    if turn.pauses:
        yield from _pause(turn, answers)
    elif turn.asked:
        yield Emit(turn.question())
    return answers


def _pause(turn: _Turn, answers: Sequence[FunctionResponse]) -> Generator[Any, Any, None]:
    """Have what there is of the turn stored, and leave: with the run's end, if nothing comes between."""
    strand, environment = turn.strand, turn.strand.environment
    events = [turn.question()] if turn.asked else []
    if answers:
        events.append(environment.with_changes(turn.response_event(answers), turn.context))
    elif turn.context.state.changed or turn.context.actions.asked:
        events.append(environment.with_changes(turn.context.event(turn.author), turn.context))
    if strand.pauses_with_end:
        strand.owed += events
    elif events or strand.owed:
        yield Store(events)
    yield Pause()


def _one_by_one(turn: _Turn, calls: Sequence[int]) -> Generator[Any, Any, None]:
    strand, environment = turn.strand, turn.strand.environment
    before: tuple[int, str] | None = None
    for index in calls:
        call = turn.effect.calls[index]
        if turn.over:
            turn.leave_out(index)
            continue
        if before is not None:
            # With its response, which no event holds yet: a run that is resumed need not repeat the call.
            strand.owed[-1] = turn.finished(*before)
        yield from _begin(strand, [call])
        try:
            outcome = Outcome((yield turn.blocking(index)))
        except Exception as error:  # noqa: BLE001 - raised again, when the turn is answered
            outcome = Outcome(error=error)
        said = turn.settle(index, outcome)
        strand.owed.append(environment.call_finished(call, said))
        before = (index, said)


class _Overlapped:
    """The calls of a turn that do not wait for each other."""

    def __init__(self, turn: _Turn, calls: Sequence[int]) -> None:
        self._turn = turn
        self._strand = turn.strand
        self._open = calls
        self._calls = turn.effect.calls
        self._gives_up = turn.strand.environment.run.config.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS
        self._together = Together(turn.strand, len(calls), self._settled, self._failed)

    def steps(self, *, all_at_once: bool) -> Generator[Any, Any, None]:
        """Begin the calls, and leave the strand until all have ended.

        Async ones begin first. Of those that may block each has a worker of its own, or the strand's makes
        one after another.
        """
        try:
            yield from self._begin(all_at_once)
        except Exception:
            self._give_up_others()
            raise
        if self._turn.error is not None:
            self._failed()  # once more: some may have begun meanwhile
        try:
            yield self._together
        except Exception as error:
            if error is not self._turn.error:
                raise

    def _begin(self, all_at_once: bool) -> Generator[Any, Any, None]:
        environment, tools = self._strand.environment, self._turn.effect.tools
        mine = [index for index in self._open if is_async(tools.get(self._calls[index].name))]
        others = [index for index in self._open if index not in mine]
        opened = [self._calls[index] for index in self._open]
        yield from _begin(self._strand, environment.at_once(opened, tools))
        for index in mine:
            if self._turn.error is None:
                yield from self._make(index, self._together.settler(index))
            else:
                self._leave_out(index)
        # The awaitable of a hook may stand before what blocks: then the next one waits for that, too.
        detached = self._turn.hooks is None
        for index in others:
            settler = self._together.settler(index)
            if all_at_once and self._turn.error is None:
                self._together.submit(index, self._turn.blocking(index, settler))
            elif not all_at_once and not self._turn.over:
                yield from _begin(self._strand, [self._calls[index]])
                yield from self._make(index, settler if detached else None)
            else:
                self._leave_out(index)

    def _make(self, index: int, detach: Callable[[Outcome], None] | None) -> Generator[Any, Any, None]:
        try:
            outcome = Outcome((yield self._turn.blocking(index, detach)))
        except Exception as error:  # noqa: BLE001 - raised by the strand, when all are settled
            outcome = Outcome(error=error)
        if outcome.value is not LATER:
            self._together.settle(index, outcome, here=True)

    def _leave_out(self, index: int) -> None:
        self._together.settle(index, Outcome(_LEFT_OUT), here=True)

    def _settled(self, index: int, outcome: Outcome, last: bool, here: bool) -> None:
        if outcome.value is _LEFT_OUT:
            self._turn.leave_out(index)
            return
        said = self._turn.settle(index, outcome)
        # The response of the last one is in the event that is stored with the record.
        environment, call = self._strand.environment, self._calls[index]
        record = environment.call_finished(call, said) if last else self._turn.finished(index, said)
        if last or here:
            self._strand.owed.append(record)
        else:
            self._strand.journal(record)
        if outcome.error is not None and outcome.error is self._turn.error:
            raise outcome.error

    def _failed(self) -> None:
        if self._gives_up:
            self._give_up_others()

    def _give_up_others(self) -> None:
        for call in self._calls:
            give_up = self._strand.environment.run.calls.get(call.id)
            if give_up is not None:
                give_up("stopped", _SIBLING_FAILED, CancelSource.SIBLING_FAILURE)


def _begin(strand: Line, calls: Sequence[FunctionCall]) -> Generator[Any, Any, None]:
    """Have it in the log that calls begin, before they do."""
    fresh = [call for call in calls if call.id not in strand.begun]
    if fresh:
        strand.begun.update(call.id for call in fresh)
        yield Store([strand.environment.call_started(call) for call in fresh])
