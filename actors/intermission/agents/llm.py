"""`LlmAgent`: asks a model, runs the tools that it calls, asks again, until it answers."""

from collections.abc import Callable, Sequence
from typing import Any

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.callbacks import Callbacks, as_callbacks
from intermission.agents.contents import conversation
from intermission.agents.effects import Steps, call_model, call_tools, emit
from intermission.content import Content, Part
from intermission.events import Usage
from intermission.models.base import Model, ModelRequest
from intermission.tools.base import Tool
from intermission.tools.function import FunctionTool

__all__ = ["LlmAgent"]


class LlmAgent(BaseAgent):
    """An agent that a language model drives.

    Args:
        name: An identifier; not `"user"`.
        model: The model to ask.
        instruction: The system instruction.
        description: What the agent is for, in a line.
        tools: Tools, or plain functions, which become `FunctionTool`s.

    Raises:
        ValueError: The name cannot be used, or two tools share one.
        TypeError: A function cannot be a tool.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        instruction: str = "",
        description: str = "",
        tools: Sequence[Tool | Callable[..., Any]] = (),
        before_agent_callback: Callbacks = None,
        after_agent_callback: Callbacks = None,
        before_model_callback: Callbacks = None,
        after_model_callback: Callbacks = None,
        on_model_error_callback: Callbacks = None,
        before_tool_callback: Callbacks = None,
        after_tool_callback: Callbacks = None,
        on_tool_error_callback: Callbacks = None,
    ) -> None:
        super().__init__(
            name,
            description=description,
            before_agent_callback=before_agent_callback,
            after_agent_callback=after_agent_callback,
        )
        self.before_model_callbacks = as_callbacks("before_model_callback", before_model_callback)
        self.after_model_callbacks = as_callbacks("after_model_callback", after_model_callback)
        self.on_model_error_callbacks = as_callbacks("on_model_error_callback", on_model_error_callback)
        self.before_tool_callbacks = as_callbacks("before_tool_callback", before_tool_callback)
        self.after_tool_callbacks = as_callbacks("after_tool_callback", after_tool_callback)
        self.on_tool_error_callbacks = as_callbacks("on_tool_error_callback", on_tool_error_callback)
        self.model = model
        self.instruction = instruction
        self.tools: dict[str, Tool] = {}
        for given in tools:
            tool = given if isinstance(given, Tool) else FunctionTool(given)
            if tool.declaration.name in self.tools:
                raise ValueError(f"agent {name!r} has two tools named {tool.declaration.name!r}")
            self.tools[tool.declaration.name] = tool

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`: ask the model, run the tools that it calls, and again until it calls none."""
        while True:
            generated = yield from call_model(self.model, self._request(context), self.name)
            answer = context.event(
                self.name,
                content=generated.response.content,
                usage=generated.response.usage or Usage(complete=False),
                error_code=generated.response.error_code,
                shown=generated.shown,
            )
            if not answer.function_calls:
                yield from emit(answer, last=True)
                return
            yield from emit(answer, starts_calls=True)
            responses = yield from call_tools(answer.function_calls, self.tools, self)
            parts = tuple(Part(function_response=response) for response in responses)
            yield from emit(context.event(self.name, content=Content("user", parts)), calls_model=True)

    def _request(self, context: AgentContext) -> ModelRequest:
        return ModelRequest(
            contents=conversation(context.events),
            instruction=self.instruction,
            tools=tuple(tool.declaration for tool in self.tools.values()),
            streaming=context.config.streaming,
        )
