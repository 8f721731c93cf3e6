"""What a strand does for `CallTools`, as a generator of blocking calls."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.effects import CallTools
from intermission.config import ToolExecution
from intermission.content import FunctionCall, FunctionResponse
from intermission.kernel.scope import CancelScope
from intermission.runs.async_calls import LATER, Later
from intermission.runs.calls import Blocking, CallGivenUpError, Outcome
from intermission.runs.line import Line, Store
from intermission.runs.together import Together
from intermission.runs.tool_calls import Answered, call_tool
from intermission.state import State
from intermission.tools.base import is_async

__all__ = ["NOT_RUN", "tool_turn"]

# Named, for what annotates an inner function is worked out each time that the function is made.
_Made: TypeAlias = Answered | Later

_LEFT_OUT: Final = object()

NOT_RUN = "not run, stopped"
"""What the model is told of a call that was not begun because the run was stopped."""


@dataclass(slots=True)
class _Turn:
    """The calls of one turn, and what has become of them."""

    strand: Line
    context: AgentContext
    effect: CallTools
    responses: dict[int, FunctionResponse]
    states: dict[int, State]

    def blocking(self, index: int, detach: Callable[[Outcome], None] | None = None) -> Blocking:
        call = self.effect.calls[index]
        tool = self.effect.tools.get(call.name)
        environment = self.strand.environment
        below = self.context.state
        state = State(lambda: below)  # not of the turn, which keeps this state: a circle would be left behind

        def function(scope: CancelScope) -> _Made:
            return call_tool(environment, call, tool, scope, state)

        return Blocking(function, "tool", call.name, call.id, environment.run.config.tool_timeout, detach)

    def settle(self, index: int, outcome: Outcome) -> str:
        """Keep a call's response, and return its outcome for the log.

        Raises:
            Exception: The call crashed its thread; that is not for the model to handle.
        """
        call = self.effect.calls[index]
        error = outcome.error
        if error is None:
            self.responses[index], self.states[index] = outcome.value
            return "finished"
        if not isinstance(error, CallGivenUpError):
            raise error
        said = "not_started" if error.status == "overload" else "unknown"
        response = {"status": error.status, "outcome": said, "message": str(error)}
        self.responses[index] = FunctionResponse(call.id, call.name, response)
        return said

    def leave_out(self, index: int, reason: str) -> None:
        """Answer a call that does not begin."""
        call = self.effect.calls[index]
        message = NOT_RUN if not reason else f"{NOT_RUN}: {reason}"
        response = {"status": "not_run", "outcome": "not_started", "message": message}
        self.responses[index] = FunctionResponse(call.id, call.name, response)
        if call.id in self.strand.begun:
            # The log says that it begins.
            self.strand.owed.append(self.strand.environment.call_finished(call, "not_started"))

    def merge_states(self) -> None:
        """Take over what the tools changed, in the order of the calls."""
        for index in sorted(self.states):
            self.context.state.merge(self.states[index].take())


def tool_turn(
    strand: Line, effect: CallTools, context: AgentContext
) -> Generator[Any, Any, tuple[FunctionResponse, ...]]:
    """Run tools; return a response for each call, in order."""
    turn = _Turn(strand, context, effect, {}, {})
    mode = strand.environment.run.config.tool_execution
    stopped = strand.environment.run.stop_requested
    if stopped is not None:
        for index in range(len(effect.calls)):
            turn.leave_out(index, stopped)
    elif mode is ToolExecution.SEQUENTIAL or len(effect.calls) <= 1:
        yield from _one_by_one(turn)
    else:
        yield from _Overlapped(turn).steps(all_at_once=mode is ToolExecution.PARALLEL_SUBSCRIBE)
    turn.merge_states()
    return tuple(turn.responses[index] for index in range(len(effect.calls)))


def _one_by_one(turn: _Turn) -> Generator[Any, Any, None]:
    strand, environment = turn.strand, turn.strand.environment
    before: tuple[FunctionCall, str, FunctionResponse] | None = None
    for index, call in enumerate(turn.effect.calls):
        stopped = environment.run.stop_requested
        if stopped is not None:
            turn.leave_out(index, stopped)
            continue
        if before is not None:
            # With its response, which no event holds yet: a run that is resumed need not repeat the call.
            strand.owed[-1] = environment.call_finished(*before)
        yield from _begin(strand, [call])
        try:
            outcome = Outcome((yield turn.blocking(index)))
        except CallGivenUpError as error:
            outcome = Outcome(error=error)
        said = turn.settle(index, outcome)
        strand.owed.append(environment.call_finished(call, said))
        before = (call, said, turn.responses[index])


class _Overlapped:
    """The calls of a turn that do not wait for each other."""

    def __init__(self, turn: _Turn) -> None:
        self._turn = turn
        self._strand = turn.strand
        self._calls = turn.effect.calls
        self._together = Together(turn.strand, len(self._calls), self._settled, self._give_up_others)

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
        yield self._together

    def _begin(self, all_at_once: bool) -> Generator[Any, Any, None]:
        environment, tools = self._strand.environment, self._turn.effect.tools
        mine = [index for index, call in enumerate(self._calls) if is_async(tools.get(call.name))]
        others = [index for index in range(len(self._calls)) if index not in mine]
        yield from _begin(self._strand, environment.at_once(self._calls, tools))
        for index in mine:
            yield from self._make(index)
        for index in others:
            if all_at_once:
                self._together.submit(index, self._turn.blocking(index, self._together.settler(index)))
            elif environment.run.stop_requested is None and self._together.error is None:
                yield from _begin(self._strand, [self._calls[index]])
                yield from self._make(index)
            else:
                self._together.settle(index, Outcome(_LEFT_OUT), here=True)

    def _make(self, index: int) -> Generator[Any, Any, None]:
        try:
            outcome = Outcome((yield self._turn.blocking(index, self._together.settler(index))))
        except Exception as error:  # noqa: BLE001 - raised by the strand, when all are settled
            outcome = Outcome(error=error)
        if outcome.value is not LATER:
            self._together.settle(index, outcome, here=True)

    def _settled(self, index: int, outcome: Outcome, last: bool, here: bool) -> None:
        if outcome.value is _LEFT_OUT:
            self._turn.leave_out(index, self._strand.environment.run.stop_requested or "")
            return
        said = self._turn.settle(index, outcome)
        # The response of the last one is in the event that is stored with the record.
        response = None if last else self._turn.responses[index]
        record = self._strand.environment.call_finished(self._calls[index], said, response)
        if last or here:
            self._strand.owed.append(record)
        else:
            self._strand.journal(record)

    def _give_up_others(self) -> None:
        """A call has crashed, and the turn ends with that: what still runs of it is nobody's."""
        for call in self._calls:
            give_up = self._strand.environment.run.calls.get(call.id)
            if give_up is not None:
                give_up("stopped", "another call of its turn crashed")


def _begin(strand: Line, calls: Sequence[FunctionCall]) -> Generator[Any, Any, None]:
    """Have it in the log that calls begin, before they do."""
    fresh = [call for call in calls if call.id not in strand.begun]
    if fresh:
        strand.begun.update(call.id for call in fresh)
        yield Store([strand.environment.call_started(call) for call in fresh])
