"""`AgentTool`: an agent that another agent's model calls like a function."""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from intermission.agents.app import App
from intermission.agents.base import BaseAgent
from intermission.agents.llm import LlmAgent
from intermission.config import OnConsumerLost, RunConfig
from intermission.models.base import ToolDeclaration
from intermission.runner import Runner
from intermission.runs.current import current
from intermission.runs.run import Run
from intermission.state import StateChange
from intermission.tools.base import ToolArgumentError, ToolContext
from intermission_storage import MemoryEventLog

__all__ = ["AgentTool"]

_REQUEST: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "request": {"type": "string", "description": "What to do, and all that is needed for it."}
    },
    "required": ["request"],
}


class AgentTool:
    """A tool whose call runs an agent, in a session of its own that is gone afterwards.

    The model calls it by the agent's name, and gives what the agent's `input_schema` says, or a text named
    `request`. The agent sees that alone, and not the conversation. What it says last is the response, as a
    value if it has an `output_schema`. It begins with the caller's state, and what it changes there, `temp:`
    keys aside, is changed by the call. A run of it that does not complete is a failure of the tool. It has
    the settings of the caller's run, does not stream, and counts its model calls and tokens by itself. When
    the call is given up, it is cancelled.

    Args:
        agent: The agent.
        skip_summarization: The response ends the caller's turn; its model is not asked to sum it up.
        include_plugins: The plugins of the caller's app see the agent's run as they see every run. The call
            has ended when they have been told of that run's end.
    """

    def __init__(
        self, agent: BaseAgent, *, skip_summarization: bool = False, include_plugins: bool = True
    ) -> None:
        self.agent = agent
        self.skip_summarization = skip_summarization
        self.include_plugins = include_plugins
        self._input = agent.input_schema if isinstance(agent, LlmAgent) else None
        parameters = _REQUEST if self._input is None else self._input.json
        self._declaration = ToolDeclaration(agent.name, agent.description, parameters)

    def __repr__(self) -> str:
        return f"AgentTool({self.agent!r})"

    @property
    def declaration(self) -> ToolDeclaration:
        """See `Tool.declaration`."""
        return self._declaration

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """See `Tool.call`.

        Raises:
            ToolArgumentError: The arguments do not fit.
            Exception: What failed the agent's run.
        """
        message = self._message(args)
        outer = current()
        config = RunConfig() if outer is None else outer.run.config
        # Clients that are bound to the caller's loop are used by the agent's tools, too.
        loop = None if outer is None else outer.run.services.loops.loop
        app = App(self.agent.name, self.agent)
        if outer is not None and self.include_plugins:
            app.plugins = outer.run.services.plugins.lent()
        runner = Runner(app, log=MemoryEventLog(), loop=loop)
        try:
            run = runner.run(
                user_id=context.user_id,
                session_id=context.session_id,
                message=message,
                config=replace(config, streaming=False, timeout=None, on_consumer_lost=OnConsumerLost.CANCEL),
                state_delta=dict(context.state) or None,
            )
            text = _text(run, context)
        finally:
            # Its run is over. Hooks that are told of that are waited for: nobody finds in this log later
            # what they have not been told.
            runner.close(threading.TIMEOUT_MAX)
        if self.skip_summarization:
            context.actions.skip_summarization = True
        value = self.agent.output(text) if isinstance(self.agent, LlmAgent) else text
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {"result": value}

    def _message(self, args: Mapping[str, Any]) -> str:
        if self._input is None:
            request = args.get("request")
            if not isinstance(request, str) or not request:
                raise ToolArgumentError("request: must be a text, and not empty")
            return request
        try:
            return json.dumps(self._input.check(dict(args)), ensure_ascii=False)
        except ValueError as error:
            raise ToolArgumentError(str(error)) from None


def _text(run: Run, context: ToolContext) -> str:
    """Return what a run says last; what it changes in the state is taken over as it is stored."""
    text = ""
    try:
        with run:
            for event in run:
                actions = event.actions
                if actions.state_delta or actions.state_operations:
                    context.state.merge(StateChange(dict(actions.state_delta), actions.state_operations))
                if event.content is not None:
                    text = event.text
        run.result().raise_for_status()
    except BaseException:
        if context.cancellation.cancelled:
            # Nobody waits for this call any more, but for the end of all that it has set in motion.
            run.wait_terminated()
            context.cancellation.check()
        raise
    return text
