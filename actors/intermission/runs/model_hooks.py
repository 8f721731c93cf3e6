"""Plugins' hooks and agents' callbacks around a model call."""

import inspect
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.callbacks import Callback
from intermission.agents.effects import CallModel, Generated, Runnable
from intermission.agents.plugins import Plugins
from intermission.errors import HookResultError, UnrequestedCancelError
from intermission.kernel.scope import CancelScope
from intermission.models.base import ModelRequest, ModelResponse
from intermission.runs.ahead import Ahead
from intermission.runs.async_calls import CANCEL_ERRORS
from intermission.runs.call_ids import CallIds
from intermission.runs.environment import Environment
from intermission.runs.hooks import (
    HookCall,
    call_hook,
    first_answer,
    hook_calls,
    hook_name,
    shown_of,
)
from intermission.runs.loop_calls import await_on_loop
from intermission.runs.model_turns import ask_model, model_turn

__all__ = ["has_model_hooks", "model_steps"]


def has_model_hooks(plugins: Plugins, agent: Runnable) -> bool:
    """Return whether anything is to be called around an agent's model calls."""
    return bool(
        getattr(agent, "before_model_callbacks", ())
        or getattr(agent, "after_model_callbacks", ())
        or getattr(agent, "on_model_error_callbacks", ())
        or plugins.hooks("before_model_callback")
        or plugins.hooks("after_model_callback")
        or plugins.hooks("on_model_error_callback")
    )


def model_steps(
    environment: Environment, effect: CallModel, agent: Runnable, context: AgentContext, ahead: Ahead | None
) -> Generator[Any, Any, Generated]:
    """Ask a model; see `model_turn`. `ahead` is `None` where there are hooks."""
    if has_model_hooks(environment.plugins, agent):
        return _HookedTurn(environment, effect, agent, context).steps()
    return model_turn(environment, effect, context, ahead)


class _HookedTurn:
    """One model call and its hooks.

    The hooks see whole responses one after another, like every hook. A partial's are called where the model
    is read, before it is shown: the thread that reads waits for them, as it waits for the model.
    """

    def __init__(
        self, environment: Environment, effect: CallModel, agent: Runnable, context: AgentContext
    ) -> None:
        self._environment = environment
        self._effect = effect
        self._agent = agent
        self._context = context
        self._request = effect.request
        self._ids = CallIds()
        self._shown = ""  # as the hooks have left it
        self._hook_error: Exception | None = None

    def steps(self) -> Generator[Any, Any, Generated]:
        """Ask the model between the hooks."""
        self._environment.count_model_call()
        for name, function in self._before():
            answer: Any = yield call_hook(name, function)
            if isinstance(answer, ModelResponse):
                return Generated(self._whole(answer), 0)
            if isinstance(answer, ModelRequest):
                self._request = answer  # the next one is asked about it
            elif answer is not None:
                raise HookResultError(name, answer, "an instance of ModelResponse or ModelRequest")
        try:
            effect = replace(self._effect, request=self._request)
            generated = yield from ask_model(
                self._environment, effect, self._context, None, alter=self._alter_partial, ids=self._ids
            )
            response = generated.response
        except Exception as error:
            if error is self._hook_error:
                raise
            answer = yield from first_answer(self._on_error(error), ModelResponse)
            if answer is None:
                raise
            response = answer
        answer = yield from first_answer(self._after(response), ModelResponse)
        if answer is not None:
            response = answer
        return Generated(self._whole(response), shown_of(self._shown, response.content.text))

    def _whole(self, response: ModelResponse) -> ModelResponse:
        return replace(response, content=self._ids.content(response.content), partial=False)

    def _alter_partial(self, scope: CancelScope, response: ModelResponse) -> ModelResponse:
        try:
            altered = self._ask_here(scope, response)
        except Exception as error:
            self._hook_error = error  # it fails the run, and is no error of the model
            raise
        self._shown += altered.content.text
        return altered

    def _ask_here(self, scope: CancelScope, response: ModelResponse) -> ModelResponse:
        for name, function in self._after(response):
            try:
                answer = function()
                if inspect.isawaitable(answer):
                    answer = await_on_loop(self._environment.services, scope, answer, name)
            except CANCEL_ERRORS as error:
                if scope.cancelled:
                    raise
                raise UnrequestedCancelError(f"the hook {name}", error) from error
            if answer is None:
                continue
            if not isinstance(answer, ModelResponse):
                raise HookResultError(name, answer, "an instance of ModelResponse")
            return replace(answer, partial=True)
        return response

    def _before(self) -> Iterator[HookCall]:
        for method in self._environment.plugins.hooks("before_model_callback"):
            keywords = {"callback_context": self._context, "llm_request": self._request}
            yield hook_name(method), partial(method, **keywords)
        for callback in self._callbacks("before_model_callbacks"):
            yield hook_name(callback), partial(callback, self._context, self._request)

    def _after(self, response: ModelResponse) -> Iterator[HookCall]:
        return hook_calls(
            self._environment.plugins,
            "after_model_callback",
            {"callback_context": self._context, "llm_response": response},
            self._callbacks("after_model_callbacks"),
            self._context,
            response,
        )

    def _on_error(self, error: Exception) -> Iterator[HookCall]:
        return hook_calls(
            self._environment.plugins,
            "on_model_error_callback",
            {"callback_context": self._context, "llm_request": self._request, "error": error},
            self._callbacks("on_model_error_callbacks"),
            self._context,
            self._request,
            error,
        )

    def _callbacks(self, name: str) -> Sequence[Callback]:
        return getattr(self._agent, name, ())
