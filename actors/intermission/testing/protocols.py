"""The protocols that a `ModelServer` speaks. The path of a request says which."""

from intermission.testing.anthropic_wire import AnthropicWire
from intermission.testing.chat_wire import ChatWire
from intermission.testing.gemini_wire import GeminiWire
from intermission.testing.ollama_wire import OllamaWire
from intermission.testing.protocol import Wire

__all__ = ["wire_of"]

_WIRES: tuple[Wire, ...] = (ChatWire(), AnthropicWire(), GeminiWire(), OllamaWire())


def wire_of(path: str) -> Wire | None:
    """Return the protocol of a path, given without its query; `None` if there is nothing at it."""
    return next((wire for wire in _WIRES if wire.serves(path)), None)
