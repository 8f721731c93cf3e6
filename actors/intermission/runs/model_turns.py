"""What a strand does for `CallModel`, as a generator of blocking calls and of what it waits for."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.effects import CallModel, Generated
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.scope import CancelScope
from intermission.models.base import ModelResponse
from intermission.runs.ahead import Ahead
from intermission.runs.call_ids import CallIds
from intermission.runs.calls import Blocking
from intermission.runs.environment import Environment

__all__ = ["Alter", "ask_model", "closable", "model_turn"]

# Named, for what annotates an inner function is worked out each time that the function is made.
_Response: TypeAlias = ModelResponse | None

Alter: TypeAlias = Callable[[CancelScope, ModelResponse], ModelResponse]
"""Makes what is shown of a partial response; on the thread that reads the model, with the call's scope."""


def model_turn(
    environment: Environment, effect: CallModel, context: AgentContext, ahead: Ahead | None
) -> Generator[Any, Any, Generated]:
    """Ask a model; return its whole response. The ids of its calls are ours, there and in the partials.

    Args:
        environment: What the strands of the run share.
        effect: What is asked.
        context: Of the agent that asks.
        ahead: The append that the call does not wait for. Nobody hears of the response before it is durable.

    Raises:
        LlmCallsLimitExceededError: The run has had all the calls that it may.
        ModelError: The call failed, or the model contradicts what it has shown.
        StorageError: What the call did not wait for could not be stored.
    """
    try:
        environment.count_model_call()
        generated = yield from ask_model(environment, effect, context, ahead)
    except Exception:
        if ahead is not None:
            yield ahead
        raise
    if ahead is not None:
        yield ahead
    return generated


def ask_model(
    environment: Environment,
    effect: CallModel,
    context: AgentContext,
    ahead: Ahead | None,
    alter: Alter | None = None,
    ids: CallIds | None = None,
) -> Generator[Any, Any, Generated]:
    """As `model_turn`, for a call that is counted; who has given an `ahead` waits for it."""
    shown: list[str] = []
    call_ids = ids or CallIds()

    def show(scope: CancelScope, response: ModelResponse) -> None:
        shown.append(response.content.text)
        if scope.cancelled:
            return
        if alter is not None:
            response = alter(scope, response)
        partial = context.event(effect.author, content=call_ids.content(response.content), partial=True)
        if ahead is None:
            environment.run.show(partial)
        else:
            ahead.when_durable(lambda: environment.run.show(partial))

    def ask(scope: CancelScope) -> _Response:
        with closing(closable(effect.model.generate(effect.request))) as responses:
            for response in responses:
                scope.check()
                if not response.partial:
                    return response
                show(scope, response)
        return None

    opened = None if ahead is None else ahead.gives_up
    whole: ModelResponse | None = yield Blocking(ask, "model", effect.model.name, opened=opened)
    text = "".join(shown)
    if whole is None or not whole.content.text.startswith(text):
        problem = "ended without a whole response" if whole is None else "gave a text other than its partials"
        raise ModelError(f"model {effect.model.name} {problem}", kind=ModelErrorKind.OTHER)
    content = call_ids.content(whole.content)
    return Generated(whole if content is whole.content else replace(whole, content=content), len(text))


def closable(responses: Iterator[ModelResponse]) -> Generator[ModelResponse]:
    """Make a generator of what a model yields, which may be any iterator.

    A generator's `finally` must run when the whole response is there.
    """
    yield from responses
