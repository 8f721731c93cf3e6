"""`LlmAgent`: asks a model, runs the tools that it calls, asks again, until it answers."""

import logging
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from intermission.agents.base import AgentContext, BaseAgent, check_list
from intermission.agents.callback_types import (
    AfterAgentCallback,
    AfterModelCallback,
    AfterToolCallback,
    BeforeAgentCallback,
    BeforeModelCallback,
    BeforeToolCallback,
    OnModelErrorCallback,
    OnToolErrorCallback,
)
from intermission.agents.callbacks import OneOrMore, as_callbacks
from intermission.agents.contents import asking
from intermission.agents.effects import Effect, Escalate, RunAgent, Steps, call_model, call_tools, emit
from intermission.agents.instructions import Instruction, is_fixed, write
from intermission.agents.schemas import Schema, SchemaSource
from intermission.agents.transfer import Place, TransferringAgent, has_answered
from intermission.agents.turns import begun_turn, is_answered
from intermission.content import Content, FunctionCall, FunctionResponse, Part
from intermission.events import Event, EventActions, Usage
from intermission.models.base import Model, ModelRequest
from intermission.tools.base import Tool, is_long_running
from intermission.tools.function import FunctionTool

__all__ = ["LlmAgent"]

logger = logging.getLogger(__name__)

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what each service takes


class LlmAgent(TransferringAgent):
    """An agent that a language model drives.

    Args:
        name: An identifier; not `"user"`.
        model: The model to ask, or its name for `Model.from_name`, such as `"openai/gpt-4o-mini"`.
        instruction: The system instruction. In a text, `{key}` stands for a key of the session's state and
            `{key?}` for one that may be missing. A function of the `AgentContext` writes it anew for each
            model call; its text is taken as it is.
        global_instruction: What the root of a tree says to the models of all its agents, before their own.
        description: What the agent is for, in a line; agents that may hand over to it are told.
        tools: Tools, or plain functions, which become `FunctionTool`s.
        sub_agents: The agents below it, which its model may hand over to.
        input_schema: What `AgentTool` takes for this agent; a text by default. A type or a JSON schema.
        output_key: The key of the state that its final answer is kept under.
        output_schema: What its answer must look like, a type or a JSON schema: the model is told, and what is
            kept under `output_key` is the value, not the text. An answer that does not fit is kept as text.
        include_contents: `"default"`: the model sees the whole conversation. `"none"`: only what the user, or
            another agent, has said last, and what came of that.
        disallow_transfer_to_parent: Its model may not hand over to its parent, and the next message goes to
            its parent again.
        disallow_transfer_to_peers: Its model may not hand over to its parent's other sub-agents.
        generate_config: Settings of its model calls, such as `{"temperature": 0}`, as the service names them.

    Raises:
        ValueError: The name, or that of a tool, cannot be used, two tools or two sub-agents share one, a
            sub-agent has a parent already, or `include_contents` is neither.
        TypeError: A function cannot be a tool, something has no JSON schema, or an argument is of another
            type than it must be.
        ModelError: No provider is known for the name of the model.
    """

    def __init__(
        self,
        name: str,
        model: Model | str,
        *,
        instruction: Instruction = "",
        global_instruction: Instruction = "",
        description: str = "",
        tools: Sequence[Tool | Callable[..., Any]] = (),
        sub_agents: Sequence[BaseAgent] = (),
        input_schema: SchemaSource | None = None,
        output_key: str | None = None,
        output_schema: SchemaSource | None = None,
        include_contents: str = "default",
        disallow_transfer_to_parent: bool = False,
        disallow_transfer_to_peers: bool = False,
        generate_config: Mapping[str, Any] | None = None,
        before_agent_callback: OneOrMore[BeforeAgentCallback] = None,
        after_agent_callback: OneOrMore[AfterAgentCallback] = None,
        before_model_callback: OneOrMore[BeforeModelCallback] = None,
        after_model_callback: OneOrMore[AfterModelCallback] = None,
        on_model_error_callback: OneOrMore[OnModelErrorCallback] = None,
        before_tool_callback: OneOrMore[BeforeToolCallback] = None,
        after_tool_callback: OneOrMore[AfterToolCallback] = None,
        on_tool_error_callback: OneOrMore[OnToolErrorCallback] = None,
    ) -> None:
        if include_contents not in {"default", "none"}:
            raise ValueError(f"include_contents is {include_contents!r}: give 'default' or 'none'")
        for what, text in (("instruction", instruction), ("global_instruction", global_instruction)):
            if not isinstance(text, str) and not callable(text):
                raise TypeError(f"{what} of agent {name!r} must be a text or a function, not {text!r}")
        if not isinstance(output_key, str | None):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"output_key of agent {name!r} must be a text, not {output_key!r}")
        self.model = _model(name, model)
        self.instruction = instruction
        self.global_instruction = global_instruction
        self.tools = _by_name(name, tools)
        self.input_schema = _schema(input_schema, f"input_schema of agent {name!r}")
        self.output_key = output_key
        self.output_schema = _schema(output_schema, f"output_schema of agent {name!r}")
        self.include_contents = include_contents
        self.disallow_transfer_to_parent = disallow_transfer_to_parent
        self.disallow_transfer_to_peers = disallow_transfer_to_peers
        # The same for all runs, so nobody who is shown it may change it.
        self.generate_config: Mapping[str, Any] = MappingProxyType(dict(generate_config or {}))
        self.before_model_callbacks = as_callbacks("before_model_callback", before_model_callback)
        self.after_model_callbacks = as_callbacks("after_model_callback", after_model_callback)
        self.on_model_error_callbacks = as_callbacks("on_model_error_callback", on_model_error_callback)
        self.before_tool_callbacks = as_callbacks("before_tool_callback", before_tool_callback)
        self.after_tool_callbacks = as_callbacks("after_tool_callback", after_tool_callback)
        self.on_tool_error_callbacks = as_callbacks("on_tool_error_callback", on_tool_error_callback)
        super().__init__(
            name,
            description=description,
            sub_agents=sub_agents,  # last: they are not to have a parent that could not be made
            before_agent_callback=before_agent_callback,
            after_agent_callback=after_agent_callback,
        )

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`: ask the model, run the tools that it calls, and again until it calls none.

        It also ends when a response ends the turn, or has handed over to an agent that ends it. Where it had
        begun before, it goes on where it was.
        """
        if context.pauses and context.agent_name != self.name:
            yield RunAgent(self, part=True)  # somebody yields from this one, which has its own checkpoints
            return
        place = self.place_in(context)
        tools = self.tools if place.tool is None else {place.tool.declaration.name: place.tool, **self.tools}
        written = isinstance(self._global_instruction(place), str) and isinstance(self.instruction, str)
        begun = context.saved is not None or is_answered(context)
        if begun and (yield from self._go_on(context, place, tools)):
            return
        while True:
            request = yield from self._request(context, place, tools)
            generated = yield from call_model(self.model, request, self.name)
            content, error_code = generated.response.content, generated.response.error_code
            usage = generated.response.usage or Usage(complete=False)
            if error_code is None and not any(_says_something(part) for part in content.parts):
                logger.warning("model %s answered agent %s with nothing", self.model.name, self.name)
                yield from emit(context.event(self.name, usage=usage), last=True)  # its tokens count
                return
            answer = context.event(
                self.name,
                content=content,
                usage=usage,
                error_code=error_code,
                shown=generated.shown,
                long_running_tool_ids=_long_running(content.function_calls, tools),
            )
            if not answer.function_calls:
                key = self.output_key
                yield from emit(answer if key is None else self._with_output(answer, key), last=True)
                return
            yield from emit(answer, starts_calls=True)
            responses = yield from call_tools(answer.function_calls, tools, self)
            if not responses or (yield from self._respond(responses, context, place, written)):
                return
            if len(responses) < len(answer.function_calls):
                return  # the others are answered from outside

    def _respond(
        self, responses: Sequence[FunctionResponse], context: AgentContext, place: Place, written: bool
    ) -> Generator[Effect, Any, bool]:
        """Have the responses to a turn's calls stored; return whether the agent has nothing more to do."""
        parts = tuple(Part(function_response=response) for response in responses)
        event = context.event(self.name, content=Content("user", parts))
        if not context.actions.asked:
            yield from emit(event, calls_model=written)
            return False
        last = context.actions.transfer_to_agent is None
        actions = (yield from emit(event, last=last)).actions
        if actions.transfer_to_agent is None:
            return True  # all else that a tool can ask for is an end
        yield RunAgent(self.target(actions.transfer_to_agent, place))
        return has_answered(context)

    def _go_on(
        self, context: AgentContext, place: Place, tools: Mapping[str, Tool]
    ) -> Generator[Effect, Any, bool]:
        """Do what is left of the turn that was begun; return whether the agent has nothing more to do."""
        turn = begun_turn(context, self.name)
        if turn.calls:
            responses = yield from call_tools(turn.calls, tools, self, again=True)
            if responses:
                asked = context.actions.asked
                over = yield from self._respond(responses, context, place, False)
                if over or asked:
                    return over
            turn = begun_turn(context, self.name)  # what the others had asked for before these were answered
        if turn.transfer is not None:
            yield RunAgent(self.target(turn.transfer, place))
            return has_answered(context)
        if turn.escalates:
            yield Escalate()
        return turn.over

    def _request(
        self, context: AgentContext, place: Place, tools: Mapping[str, Tool]
    ) -> Generator[Effect, Any, ModelRequest]:
        instruction = self.instruction
        if place.instruction or self.global_instruction or not is_fixed(instruction):
            texts = list[str]()
            for each in (self._global_instruction(place), instruction):
                if each:
                    texts.append((yield from write(each, self.name, context)))
            instruction = "\n\n".join(filter(None, (*texts, place.instruction)))
        assert isinstance(instruction, str)
        return ModelRequest(
            contents=asking(
                context.conversations.contents(
                    context.events,
                    self.name,
                    context.branch,
                    outcomes=context.outcomes,
                    current_turn=self.include_contents == "none",
                )
            ),
            instruction=instruction,
            tools=tuple(tool.declaration for tool in tools.values()),
            streaming=context.config.streaming,
            output_schema=None if self.output_schema is None else self.output_schema.json,
            generate_config=self.generate_config,
        )

    def _global_instruction(self, place: Place) -> Instruction:
        return place.root.global_instruction if isinstance(place.root, LlmAgent) else ""

    def output(self, text: str) -> Any:
        """Return the value of an answer: what the `output_schema` makes of its text, or the text itself."""
        if self.output_schema is None:
            return text
        try:
            return self.output_schema.read(text)
        except ValueError as error:
            logger.warning(
                "an answer of agent %s does not fit its output_schema, and is kept as text: %s",
                self.name,
                error,
            )
            return text

    def _with_output(self, answer: Event, key: str) -> Event:
        """Return an answer with what is kept of it in the state."""
        if not answer.text:
            return answer
        return replace(answer, actions=EventActions(state_delta={key: self.output(answer.text)}))


def _model(agent: str, given: Model | str) -> Model:
    if isinstance(given, str):
        return Model.from_name(given)
    if isinstance(given, type) or not hasattr(given, "generate"):
        raise TypeError(
            f"agent {agent!r} needs a Model, such as ChatCompletions(…), or its name, not {given!r}"
        )
    return given


def _by_name(agent: str, tools: Sequence[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    check_list(f"tools of agent {agent!r}", tools)
    for given in tools:
        if isinstance(given, BaseAgent):
            raise TypeError(f"agent {agent!r} has agent {given.name!r} among its tools: write AgentTool(…)")
        tool = given if isinstance(given, Tool) else FunctionTool(given)
        name = tool.declaration.name
        if not _TOOL_NAME.fullmatch(name):
            raise ValueError(
                f"agent {agent!r} has a tool named {name!r}, which services refuse; name it with letters, "
                "digits, underscores and hyphens, 64 at most"
            )
        if name in named:
            raise ValueError(f"agent {agent!r} has two tools named {name!r}")
        named[name] = tool
    return named


def _schema(source: SchemaSource | None, what: str) -> Schema | None:
    return None if source is None else Schema(source, what)


def _long_running(calls: Sequence[FunctionCall], tools: Mapping[str, Tool]) -> tuple[str, ...]:
    return tuple(call.id for call in calls if is_long_running(tools.get(call.name)))


def _says_something(part: Part) -> bool:
    return bool(part.text) or part.function_call is not None or part.inline_data is not None
