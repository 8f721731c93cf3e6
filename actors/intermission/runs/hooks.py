"""Plugins' hooks and agents' callbacks around a run and its agents, as steps that a strand performs."""

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.callbacks import Callback
from intermission.agents.effects import Emit, Runnable
from intermission.agents.plugins import Plugins
from intermission.content import Content
from intermission.errors import HookResultError
from intermission.events import Event
from intermission.kernel.scope import CancelScope
from intermission.runs.async_calls import Later, raised_or
from intermission.runs.calls import Blocking
from intermission.runs.compacting import compaction_steps
from intermission.runs.environment import Environment
from intermission.runs.line import Pause

__all__ = [
    "Body",
    "HookCall",
    "Opening",
    "after_run",
    "agent_steps",
    "call_hook",
    "first_answer",
    "has_agent_hooks",
    "has_run_steps",
    "hook_calls",
    "hook_name",
    "run_steps",
    "shown_of",
    "stopped_steps",
]

HookCall: TypeAlias = tuple[str, Callable[[], Any]]
"""The name of a hook, and the hook with its arguments."""

_Steps: TypeAlias = Generator[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Opening:
    """An effect of the runtime's own: store the run's user event, which nobody is shown."""

    event: Event


@dataclass(frozen=True, slots=True)
class Body:
    """An effect of the runtime's own: run an agent around which hooks were called.

    Attributes:
        agent: The agent.
        bare: Whether its own hooks are not to be called: that has been done.
        tail: Whether nothing comes after it; it takes the place of who yields this.
    """

    agent: Runnable
    bare: bool
    tail: bool


def hook_name(function: Callable[..., Any]) -> str:
    """Return what to call a hook in messages to people."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def hook_calls(
    plugins: Plugins,
    hook: str,
    keywords: Mapping[str, Any],
    callbacks: Sequence[Callback] = (),
    *positional: Any,
) -> Iterator[HookCall]:
    """Yield whom to ask, in order: the plugins, by keywords, then the callbacks, by position."""
    for method in plugins.hooks(hook):
        yield hook_name(method), partial(method, **keywords)
    for callback in callbacks:
        yield hook_name(callback), partial(callback, *positional)


def call_hook(name: str, function: Callable[[], Any]) -> Blocking:
    """Return the call of a hook; one that is async goes on as a task, and holds no thread."""

    def call(_: CancelScope) -> Any:
        answer = function()
        return Later(answer, raised_or) if inspect.isawaitable(answer) else answer

    return Blocking(call, "callback", name)


def first_answer(
    calls: Iterable[HookCall], wanted: type, allowed: Callable[[Any], bool] | None = None
) -> Generator[Any, Any, Any]:
    """Ask one after another until one has something to say, and return that; `None` if nobody has.

    Args:
        calls: Whom to ask.
        wanted: What may be said.
        allowed: Which of these may; all by default. Those that may not are empty.

    Raises:
        HookResultError: It is no `wanted`.
        Exception: Whatever a hook raises.
    """
    for name, function in calls:
        answer = yield call_hook(name, function)
        if answer is None:
            continue
        if not isinstance(answer, wanted) or (allowed is not None and not allowed(answer)):
            kind = f"an instance of {wanted.__name__}" + ("" if allowed is None else " that is not empty")
            raise HookResultError(name, answer, kind)
        return answer
    return None


def shown_of(shown: str, text: str) -> int:
    """Return how many characters of a text partials have shown, though hooks may have changed either.

    What is shown cannot be taken back. Where the text goes another way than what was shown, it is shown from
    there on: no character of it twice, and none that is not in it.
    """
    if text.startswith(shown):
        return len(shown)
    pairs = enumerate(zip(shown, text, strict=False))
    return next((index for index, (one, other) in pairs if one != other), len(text))


# Around an agent.


def _callbacks(agent: Runnable, name: str) -> tuple[Callback, ...]:
    return getattr(agent, name, ())


def has_agent_hooks(plugins: Plugins, agent: Runnable) -> bool:
    """Return whether anything is to be called before or after an agent."""
    return bool(
        _callbacks(agent, "before_agent_callbacks")
        or _callbacks(agent, "after_agent_callbacks")
        or plugins.hooks("before_agent_callback")
        or plugins.hooks("after_agent_callback")
    )


def agent_steps(environment: Environment, agent: Runnable, context: AgentContext) -> _Steps:
    """Run an agent between its hooks."""
    keywords = {"agent": agent, "callback_context": context}

    def calls(when: str) -> list[HookCall]:
        callbacks = _callbacks(agent, f"{when}_agent_callbacks")
        return list(hook_calls(environment.plugins, f"{when}_agent_callback", keywords, callbacks, context))

    answer = yield from first_answer(calls("before"), Content)
    if answer is not None:
        yield Emit(context.event(agent.name, content=answer), last=True)
        return
    after = calls("after")
    if not after and not _has_changes(context):
        yield Body(agent, bare=True, tail=True)
        return
    yield Body(agent, bare=True, tail=False)
    answer = yield from first_answer(after, Content)
    if answer is not None or _has_changes(context):
        yield Emit(context.event(agent.name, content=answer), last=True)


def _has_changes(context: AgentContext) -> bool:
    # What no event of the agent carries needs one of its own.
    return context.state.changed or context.actions.asked


# Around a run.


def has_run_steps(environment: Environment) -> bool:
    """Return whether anything is to be done around the root agent."""
    plugins = environment.plugins
    return bool(
        environment.compaction is not None
        or plugins.hooks("on_user_message_callback")
        or plugins.hooks("before_run_callback")
        or plugins.hooks("after_run_callback")
    )


def run_steps(environment: Environment, agent: Runnable, context: AgentContext) -> _Steps:
    """Run the root agent between the hooks of the run, and then sum older events up if that is due."""
    plugins = environment.plugins
    keywords = {"invocation_context": context}
    if plugins.hooks("on_user_message_callback") and environment.run.message.parts:
        yield from _open(environment, context)
    answer = yield from first_answer(hook_calls(plugins, "before_run_callback", keywords), Content)
    tail = environment.compaction is None and not plugins.hooks("after_run_callback")
    if answer is None:
        yield Body(agent, bare=False, tail=tail)
    else:
        waits = environment.run.plan is not None and bool(environment.run.plan.open)
        yield Emit(context.event("model", content=answer), last=tail and not waits)
        if waits:
            yield Pause()  # the agents that ask have not been asked
    yield from after_run(environment, agent.name, context)
    yield from compaction_steps(environment, context)


def stopped_steps(environment: Environment, name: str, context: AgentContext, root: AgentContext) -> _Steps:
    """Say in an event that the run was stopped, and call the hooks that come after a run."""
    reason = environment.run.stop_requested or None
    yield Emit(context.event(name, error_code="stopped", error_message=reason, turn_complete=True))
    yield from after_run(environment, name, root)


def _open(environment: Environment, context: AgentContext) -> _Steps:
    run = environment.run
    for key, value in run.stored_delta.items():
        context.state[key] = value  # it is seen by the hooks, and travels with the event
    message = run.message
    keywords = {"invocation_context": context, "user_message": message}
    hooks = hook_calls(environment.plugins, "on_user_message_callback", keywords)
    answer = yield from first_answer(hooks, Content, lambda content: bool(content.parts))
    if answer is not None:
        message = answer
    plan = run.plan
    if answer is not None and environment.pauses:  # the answers to calls stay what they are
        answers = [part for part in run.message.parts if part.function_response is not None]
        spoken = [part for part in answer.parts if part.function_response is None]
        message = Content("user", (*answers, *spoken)) if answers else answer
    branch = None if plan is None else plan.branch
    yield Opening(environment.with_changes(context.event("user", content=message, branch=branch), context))


def after_run(environment: Environment, name: str, context: AgentContext) -> _Steps:
    """Call the hooks that come after a run."""
    hooks = hook_calls(environment.plugins, "after_run_callback", {"invocation_context": context})
    called = False
    for hook, function in hooks:
        called = True
        yield call_hook(hook, function)
    if called and _has_changes(context):
        yield Emit(context.event(name))
