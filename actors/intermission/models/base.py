"""`Model`: what an agent asks of a language model, and the values that go to it and come back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from intermission.content import Content
from intermission.events import Usage

__all__ = ["Model", "ModelRequest", "ModelResponse", "ToolDeclaration"]


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What a model is told of a tool.

    Attributes:
        name: The name that it calls the tool by.
        description: What the tool does.
        parameters: JSON schema of the arguments, an object.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model.

    Attributes:
        contents: The conversation, oldest first.
        instruction: The system instruction, `""` for none.
        tools: The tools that the model may call.
        streaming: Whether partial responses are wanted.
        output_schema: JSON schema that the answer's text must meet, `None` for free text.
        generate_config: Further settings of this request, such as `{"temperature": 0}`, as the service names
            them.
    """

    contents: tuple[Content, ...]
    instruction: str = ""
    tools: tuple[ToolDeclaration, ...] = ()
    streaming: bool = False
    output_schema: Mapping[str, Any] | None = None
    generate_config: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A piece of a model's answer, or all of it.

    Attributes:
        content: What the model said. A partial holds only what is new; the last response holds everything.
        partial: Whether more follows.
        usage: The call's tokens, with the last response; `None` if the model did not say.
    """

    content: Content
    partial: bool = False
    usage: Usage | None = field(default=None)


class Model(Protocol):
    """A language model. Write your own by giving a class these two members."""

    @property
    def name(self) -> str:
        """The model's name, for messages to people."""
        ...

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """Ask the model; called on a thread that may block, never two calls of one run at a time.

        Yields partial responses if the request asks for them, then exactly one that is not partial. The
        texts of the partials, joined, are the text of the last response. Call ids in it are the
        runtime's to give: what the provider calls them stays inside the model.

        Raises:
            ModelError: The call failed. Nothing of it is kept.
        """
        ...
