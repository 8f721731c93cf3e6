"""`drive`: advances an agent's generator and performs the effects that it yields, one at a time."""

import inspect
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.effects import CallModel, CallTools, Effect, Emit, Generated, Steps
from intermission.content import FunctionCall, FunctionResponse, plain_copy
from intermission.errors import LlmCallsLimitExceededError, ModelError, ModelErrorKind
from intermission.events import Event
from intermission.models.base import ModelResponse
from intermission.tools.base import Tool, ToolArgumentError, ToolContext
from intermission_storage.codec import encode_value

__all__ = ["Driver"]

logger = logging.getLogger(__name__)


class Driver:
    """Drives one run's agent, on the thread that calls `drive`.

    Args:
        agent: The root agent.
        context: What the agent knows of the run.
        show: Shows an event at once.
        store: Stores an event, shows it, and returns it with its number.
    """

    def __init__(
        self,
        agent: BaseAgent,
        context: AgentContext,
        show: Callable[[Event], None],
        store: Callable[[Event], Event],
    ) -> None:
        self._agent = agent
        self._context = context
        self._show = show
        self._store = store
        self._model_calls = 0

    def drive(self) -> None:
        """Run the agent to its end.

        An `Exception` of an effect is raised at the agent's `yield`, which may handle it. `RunOver` is not:
        the generator is closed and the signal goes on to the caller.

        Raises:
            Exception: What the agent did not handle.
        """
        steps = self._steps()
        try:
            answer: Any = None
            error: Exception | None = None
            while True:
                try:
                    effect = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration:
                    return
                answer = error = None
                try:
                    answer = self._perform(effect)
                except Exception as raised:  # noqa: BLE001 - it is the agent's to handle
                    error = raised
        finally:
            steps.close()

    def _steps(self) -> Steps:
        steps = self._agent.run(self._context)
        returned: object = steps
        if not inspect.isgenerator(returned):
            raise TypeError(
                f"run() of agent {self._agent.name!r} must be a generator, that is, hold a yield; "
                f"it returned {type(returned).__name__}"
            )
        return steps

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Event():
                return self._emit(effect)
            case Emit(event):
                return self._emit(event)
            case CallModel():
                return self._call_model(effect)
            case CallTools(calls, tools):
                return tuple(self._call_tool(call, tools.get(call.name)) for call in calls)
            case _:
                raise TypeError(f"agent {self._agent.name!r} yielded {effect!r}, which is no effect")

    def _emit(self, event: Event) -> Event:
        if event.partial:
            self._show(event)
            return event
        return self._store(event)

    def _call_model(self, effect: CallModel) -> Generated:
        limit = self._context.config.max_llm_calls
        if 0 < limit <= self._model_calls:
            raise LlmCallsLimitExceededError(limit)
        self._model_calls += 1
        shown = ""
        whole: ModelResponse | None = None
        with closing(_closable(effect.model.generate(effect.request))) as responses:
            for response in responses:
                if not response.partial:
                    whole = response
                    break
                shown += response.content.text
                self._show(self._context.event(effect.author, content=response.content, partial=True))
        if whole is None or not whole.content.text.startswith(shown):
            problem = (
                "ended without a whole response" if whole is None else "gave a text other than its partials"
            )
            raise ModelError(f"model {effect.model.name} {problem}", kind=ModelErrorKind.OTHER)
        return Generated(whole, len(shown))

    def _call_tool(self, call: FunctionCall, tool: Tool | None) -> FunctionResponse:
        if tool is None:
            return _failed(call, f"There is no tool named {call.name!r}.")
        context = ToolContext(
            function_call_id=call.id,
            invocation_id=self._context.invocation_id,
            user_id=self._context.user_id,
            session_id=self._context.session_id,
        )
        try:
            response = tool.call(plain_copy(call.args), context)
            encode_value(response)  # a result that the log refuses is the tool's failure
            return FunctionResponse(call.id, call.name, response)
        except ToolArgumentError as error:
            return _failed(call, f"Wrong arguments: {error}")
        except Exception:
            # The text of somebody's exception may hold what a model must not see; the log has it.
            logger.exception(
                "tool %s failed",
                call.name,
                extra={"session": self._context.session_id, "invocation": self._context.invocation_id},
            )
            return _failed(call, "The tool failed.")


def _closable(responses: Iterator[ModelResponse]) -> Generator[ModelResponse]:
    # A model may be any iterator; a generator's `finally` must run when the whole response is there.
    yield from responses


def _failed(call: FunctionCall, message: str) -> FunctionResponse:
    return FunctionResponse(call.id, call.name, {"status": "error", "message": message})
