"""`OllamaAnswer`: puts an answer of Ollama's `/api/chat` together, streamed or whole."""

from typing import Any

from intermission.content import Content, Part
from intermission.events import Usage
from intermission.models.answer_fields import Fields, Said, token_count, usage_of
from intermission.models.base import ModelResponse
from intermission.models.chat_calls import ChatCalls
from intermission.models.failures import Failures
from intermission.models.http_model import News
from intermission.models.whole_text import whole_text

__all__ = ["OllamaAnswer"]


class OllamaAnswer:
    """One answer, fed with JSON texts: each line of a stream, or the one body of a whole answer.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._fields = Fields(failures, "the service sent what is no answer of Ollama's")
        self._begun = False
        self._done = False
        self._thoughts = Said(thought=True)
        self._texts = Said(thought=False)
        self._calls = ChatCalls(failures)
        self._usage: Usage | None = None
        self._reason: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there was a message."""
        return self._begun

    @property
    def is_complete(self) -> bool:
        """Whether the service has said that it is done."""
        return self._done

    @property
    def is_over(self) -> bool:
        """The same: nothing belongs to an answer behind that."""
        return self._done

    def add(self, source: str) -> News:
        """Take in a line; return what is new in it. The first half of a character waits for the next line.

        Raises:
            ModelError: It is not a line of an answer, or it reports an error.
        """
        fields = self._fields.read(source)
        if fields.get("error"):
            raise self._failures.reported(fields["error"])
        if fields.get("done") is True:
            self._done = True
            reason: object = fields.get("done_reason")
            self._reason = whole_text(reason) if isinstance(reason, str) and reason else None
            self._usage = _usage(fields)
        if fields.get("message") is None:
            return News()
        self._begun = True
        return self._add_message(self._fields.mapping(fields["message"]))

    def end(self) -> tuple[Part, ...]:
        """Take in that no line follows; return the parts that this adds, for a half of a character."""
        return self._thoughts.end() + self._texts.end()

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelError: There is no answer, or the arguments of a call are not a JSON object.
        """
        if not self._begun:
            raise self._failures.malformed("the answer holds no message", self._fields.source)
        self.end()
        calls = tuple(Part(function_call=call) for call in self._calls.whole())
        reason = "tool_calls" if calls and self._reason == "stop" else self._reason
        return ModelResponse(
            content=Content("model", self._thoughts.whole + self._texts.whole + calls),
            usage=self._usage,
            finish_reason=reason,
        )

    def _add_message(self, message: dict[str, Any]) -> News:
        thought, text = self._fields.text(message.get("thinking")), self._fields.text(message.get("content"))
        calls = self._fields.items(message.get("tool_calls") or None)
        for call in calls:
            if not self._calls.add(self._whole_call(call)):
                raise self._fields.malformed()
        parts = self._thoughts.add(thought) + self._texts.add(text)
        if calls:
            parts += tuple(Part(function_call=call) for call in self._calls.news())
        return News(parts, bool(text or thought or calls))

    def _whole_call(self, call: object) -> dict[str, Any]:
        """Return a call without its index and its id: each is whole, and some servers give all the same."""
        return {
            name: value for name, value in self._fields.mapping(call).items() if name not in {"id", "index"}
        }


def _usage(fields: dict[str, Any]) -> Usage | None:
    """Return what a last line says of the tokens; without its prompt's, which a server can leave out."""
    return usage_of(token_count(fields.get("prompt_eval_count")), token_count(fields.get("eval_count")))
