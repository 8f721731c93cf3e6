"""Summing a session's older events up at the end of a run, as steps that a strand performs."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.compaction import compaction_of, window
from intermission.agents.summaries import summary_request
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Event, Usage
from intermission.kernel.scope import CancelScope
from intermission.models.base import Model, ModelResponse
from intermission.runs.async_calls import function_call
from intermission.runs.calls import Blocking
from intermission.runs.environment import Environment
from intermission.runs.line import Owe
from intermission.runs.model_turns import closable

__all__ = ["compaction_steps"]

logger = logging.getLogger(__name__)

_Summary: TypeAlias = tuple[str | None, Usage | None]


def compaction_steps(environment: Environment, context: AgentContext) -> Generator[Any, Any, None]:
    """Sum older events up, if that is due: the summary is stored with the end of the run.

    A summarizer that fails fails no run. Nothing is lost by it: it is asked again after the next run.
    """
    config = environment.compaction
    if config is None or environment.run.stop_requested is not None:
        return
    events = window(environment.events, config.overlap)
    try:
        summary, usage = yield from _summary(config.summarizer, events)
    except Exception:
        logger.exception("events could not be summed up; the next run tries again", extra=environment.extra)
        return
    if summary:
        actions = compaction_of(events, summary)
        yield Owe(context.event("user", actions=actions, usage=usage))
    else:
        logger.warning("the summary of events is empty; the next run tries again", extra=environment.extra)


def _summary(summarizer: Any, events: Sequence[Event]) -> Generator[Any, Any, _Summary]:
    if hasattr(summarizer, "generate"):
        ask = _asking(summarizer, events)
        response: ModelResponse | None = yield Blocking(ask, "model", summarizer.name)
        if response is None or response.error_code is not None:
            why = "ended without a whole response" if response is None else f"ended: {response.error_code}"
            raise ModelError(f"model {summarizer.name} {why}", kind=ModelErrorKind.OTHER)
        return response.content.text, response.usage or Usage(complete=False)
    name = getattr(summarizer, "__qualname__", type(summarizer).__name__)
    summary: object = yield Blocking(function_call(summarizer, (tuple(events),)), "call", name)
    if summary is not None and not isinstance(summary, str):
        raise TypeError(f"summarizer {name} returned {type(summary).__name__}; it must return a str or None")
    return summary, None


def _asking(model: Model, events: Sequence[Event]) -> Callable[[CancelScope], ModelResponse | None]:
    request = summary_request(events)

    def ask(scope: CancelScope) -> Any:
        with closing(closable(model.generate(request))) as responses:
            for response in responses:
                scope.check()
                if not response.partial:
                    return response
        return None

    return ask
