"""Language models: the protocol, and the providers that speak it.

base.py              what an agent asks of a model: `Model`, `ModelRequest`, `ModelResponse`
chat_completions.py  `ChatCompletions`, on chat_request.py (there), chat_answer.py and chat_calls.py (back)
anthropic.py         `Anthropic`, on anthropic_request.py with anthropic_schema.py (there), and
                     anthropic_answer.py with anthropic_blocks.py (back)
request_fields.py    what the requests to all providers have in common; answer_fields.py: what the answers do
gemini.py            `Gemini` and `Vertex`, on gemini_request.py (there) and gemini_answer.py (back)
ollama.py            `Ollama`, on ollama_request.py and ollama_answer.py
http_model.py        what the providers over HTTP have in common
http.py              posts JSON over `requests`
connections.py       the connections of `requests`, each in reach of the call that it serves
abort.py             ends a call from another thread: a cancel, or a time limit
limits.py            the time limits
retries.py           whether a call is tried again, and when
sse.py               streams of server-sent events
ndjson.py            streams of lines, each a JSON text
whole_text.py        text whose characters are split between pieces
plain_values.py      values that a log can store, and values that JSON can carry
failures.py          a provider's failures as `ModelError`
"""

from intermission.models.anthropic import Anthropic
from intermission.models.base import Model, ModelRequest, ModelResponse, ToolDeclaration
from intermission.models.chat_completions import ChatCompletions
from intermission.models.gemini import Gemini, Vertex
from intermission.models.ollama import Ollama

__all__ = [
    "Anthropic",
    "ChatCompletions",
    "Gemini",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "Ollama",
    "ToolDeclaration",
    "Vertex",
]
