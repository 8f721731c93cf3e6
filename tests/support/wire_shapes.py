"""A conversation as the bodies of requests to three providers."""

from collections.abc import Sequence

from intermission import Content
from intermission.models import ModelRequest
from intermission.models.anthropic_request import anthropic_request
from intermission.models.chat_request import chat_request
from intermission.models.gemini_request import gemini_request
from intermission.testing import anthropic_history, chat_history, gemini_history

__all__ = ["problems_on_the_wire"]


def problems_on_the_wire(contents: Sequence[Content]) -> dict[str, list[str]]:
    """Return what each provider would refuse of a conversation, as it is sent there; `{}` if nothing."""
    request = ModelRequest(contents=tuple(contents))
    found = {
        "openai": chat_history.problems(chat_request("any", request, {})["messages"]),
        "anthropic": anthropic_history.problems(anthropic_request("any", request, {})),
        "gemini": gemini_history.problems(gemini_request("gemini-3-pro", request, {})),
    }
    return {provider: problems for provider, problems in found.items() if problems}
