"""What a strand does for `CallModel` and `CallTools`, as generators of blocking calls."""

import logging
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import CallModel, CallTools, Generated
from intermission.config import ToolExecution
from intermission.content import FunctionCall, FunctionResponse, plain_copy
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.scope import CancelScope
from intermission.models.base import ModelResponse
from intermission.runs.calls import Blocking, CallGivenUpError, Outcome
from intermission.runs.together import Together
from intermission.state import State
from intermission.tools.base import Tool, ToolArgumentError, ToolContext
from intermission_storage.codec import encode_value

if TYPE_CHECKING:
    from intermission.runs.environment import Environment
    from intermission.runs.strand import Strand

__all__ = ["NOT_RUN", "model_turn", "tool_turn"]

logger = logging.getLogger(__name__)

NOT_RUN = "not run, stopped"
"""What the model is told of a call that was not begun because the run was stopped."""


def model_turn(
    environment: "Environment", effect: CallModel, context: AgentContext
) -> Generator[Any, Any, Generated]:
    """Ask a model; return its whole response.

    Raises:
        LlmCallsLimitExceededError: The run has had all the calls that it may.
        ModelError: The call failed, or the model contradicts what it has shown.
    """
    environment.count_model_call()
    shown: list[str] = []

    def show(scope: CancelScope, response: ModelResponse) -> None:
        shown.append(response.content.text)
        if not scope.cancelled:
            partial = context.event(effect.author, content=response.content, partial=True)
            environment.run.show(partial)

    def ask(scope: CancelScope) -> ModelResponse | None:
        with closing(_closable(effect.model.generate(effect.request))) as responses:
            for response in responses:
                scope.check()
                if not response.partial:
                    return response
                show(scope, response)
        return None

    whole: ModelResponse | None = yield Blocking(ask, "model", effect.model.name)
    text = "".join(shown)
    if whole is None or not whole.content.text.startswith(text):
        problem = "ended without a whole response" if whole is None else "gave a text other than its partials"
        raise ModelError(f"model {effect.model.name} {problem}", kind=ModelErrorKind.OTHER)
    return Generated(whole, len(text))


def _closable(responses: Iterator[ModelResponse]) -> Generator[ModelResponse]:
    # A model may be any iterator; a generator's `finally` must run when the whole response is there.
    yield from responses


@dataclass(slots=True)
class _Turn:
    """The calls of one turn, and what has become of them."""

    environment: "Environment"
    context: AgentContext
    effect: CallTools
    responses: dict[int, FunctionResponse]
    states: dict[int, State]

    def blocking(self, index: int) -> Blocking:
        call = self.effect.calls[index]
        state = State(lambda: self.context.state)

        def function(scope: CancelScope) -> FunctionResponse:
            response = _call_tool(self.environment, call, self.effect.tools.get(call.name), scope, state)
            self.states[index] = state
            return response

        timeout = self.environment.run.config.tool_timeout
        return Blocking(function, "tool", call.name, call.id, timeout)

    def settle(self, index: int, outcome: Outcome) -> str:
        """Keep a call's response, and return its outcome for the log.

        Raises:
            Exception: The call crashed its thread; that is not for the model to handle.
        """
        call = self.effect.calls[index]
        error = outcome.error
        if error is None:
            self.responses[index] = outcome.value
            return "finished"
        if not isinstance(error, CallGivenUpError):
            raise error
        # What an abandoned call still does to its state is dropped with it.
        self.states.pop(index, None)
        said = "not_started" if error.status == "overload" else "unknown"
        response = {"status": error.status, "outcome": said, "message": str(error)}
        self.responses[index] = FunctionResponse(call.id, call.name, response)
        return said

    def leave_out(self, index: int, reason: str) -> None:
        call = self.effect.calls[index]
        message = NOT_RUN if not reason else f"{NOT_RUN}: {reason}"
        response = {"status": "not_run", "outcome": "not_started", "message": message}
        self.responses[index] = FunctionResponse(call.id, call.name, response)

    def merge_states(self) -> None:
        """Take over what the tools changed, in the order of the calls."""
        for index in sorted(self.states):
            self.context.state.merge(self.states[index].take())


def tool_turn(
    strand: "Strand", effect: CallTools, context: AgentContext
) -> Generator[Any, Any, tuple[FunctionResponse, ...]]:
    """Run tools; return a response for each call, in order."""
    turn = _Turn(strand.environment, context, effect, {}, {})
    overlap = strand.environment.run.config.tool_execution is ToolExecution.PARALLEL_SUBSCRIBE
    if overlap and len(effect.calls) > 1:
        yield from _all_at_once(strand, turn)
    else:
        yield from _one_by_one(strand, turn)
    turn.merge_states()
    return tuple(turn.responses[index] for index in range(len(effect.calls)))


def _one_by_one(strand: "Strand", turn: _Turn) -> Generator[Any, Any, None]:
    environment = strand.environment
    before: tuple[FunctionCall, str, FunctionResponse] | None = None
    for index, call in enumerate(turn.effect.calls):
        stopped = environment.run.stop_requested
        if stopped is not None:
            turn.leave_out(index, stopped)
            continue
        if before is not None:
            # With its response, which no event holds yet: a run that is resumed need not repeat the call.
            strand.owed[-1] = environment.call_finished(*before)
        _begin(strand, [call])
        try:
            outcome = Outcome((yield turn.blocking(index)))
        except CallGivenUpError as error:
            outcome = Outcome(error=error)
        said = turn.settle(index, outcome)
        strand.owed.append(environment.call_finished(call, said))
        before = (call, said, turn.responses[index])


def _all_at_once(strand: "Strand", turn: _Turn) -> Generator[Any, Any, None]:
    environment = strand.environment
    calls = turn.effect.calls
    stopped = environment.run.stop_requested
    if stopped is not None:
        for index in range(len(calls)):
            turn.leave_out(index, stopped)
        return
    _begin(strand, calls)
    lock = threading.Lock()
    open_calls = len(calls)

    def settled(index: int, outcome: Outcome) -> None:
        nonlocal open_calls
        with lock:
            said = turn.settle(index, outcome)
            open_calls -= 1
            last = open_calls == 0
        if last:
            strand.owed.append(environment.call_finished(calls[index], said))
        else:
            strand.journal(environment.call_finished(calls[index], said, turn.responses[index]))

    yield Together([turn.blocking(index) for index in range(len(calls))], settled)


def _begin(strand: "Strand", calls: Sequence[FunctionCall]) -> None:
    """Have it in the log that calls begin, before they do."""
    fresh = [call for call in calls if call.id not in strand.begun]
    if fresh:
        strand.begun.update(call.id for call in fresh)
        strand.store(None, after=[strand.environment.call_started(call) for call in fresh])


def _call_tool(
    environment: "Environment", call: FunctionCall, tool: Tool | None, scope: CancelScope, state: State
) -> FunctionResponse:
    if tool is None:
        return _failed(call, f"There is no tool named {call.name!r}.")
    run = environment.run
    context = ToolContext(
        function_call_id=call.id,
        invocation_id=run.invocation_id or "",
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        state=state,
        cancellation=scope,
        request_stop=run.request_stop,
    )
    try:
        response = tool.call(plain_copy(call.args), context)
        encode_value(response)  # a result that the log refuses is the tool's failure
        return FunctionResponse(call.id, call.name, response)
    except ToolArgumentError as error:
        return _failed(call, f"Wrong arguments: {error}")
    except Exception:
        # The text of somebody's exception may hold what a model must not see; the log has it.
        logger.exception("tool %s failed", call.name, extra=environment.extra)
        return _failed(call, "The tool failed.")


def _failed(call: FunctionCall, message: str) -> FunctionResponse:
    return FunctionResponse(call.id, call.name, {"status": "error", "message": message})
