"""`Failures`: what a provider refuses, breaks or reports, as a `ModelError` that never shows its key."""

import json
import logging
import math
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeVar, cast
from urllib.parse import quote

from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.scope import Cancelled
from intermission.models.whole_text import whole_text

__all__ = ["Failures", "kind_of_status", "seconds_to_wait"]

logger = logging.getLogger(__name__)

_EXCERPT_LENGTH = 500  # characters
_SHORTEST_SECRET = 8  # characters
_MOST_TOKENS = 512  # of those that came later, the newest; each call at the same time may have its own

_AWAITED = {
    "connect_timeout": "no connection",
    "first_token_timeout": "no beginning of an answer",
    "gap_timeout": "no more of an answer",
    "total_timeout": "no whole answer",
    "stream_total_timeout": "no whole answer",
    "error_body": "no reason for a refusal",
}

StepT = TypeVar("StepT")

_KINDS = {
    400: ModelErrorKind.VALIDATION,
    401: ModelErrorKind.AUTHENTICATION,
    403: ModelErrorKind.AUTHENTICATION,
    404: ModelErrorKind.VALIDATION,
    408: ModelErrorKind.TIMEOUT,
    413: ModelErrorKind.VALIDATION,
    422: ModelErrorKind.VALIDATION,
    429: ModelErrorKind.RATE_LIMIT,
    504: ModelErrorKind.TIMEOUT,
}


# What OpenAI, Anthropic and Google say in an error object that comes in place of the rest of an answer.
_KINDS_BY_WORD = {
    word: kind
    for kind, words in {
        ModelErrorKind.AUTHENTICATION: (
            "authentication_error",
            "permission_error",
            "billing_error",
            "invalid_api_key",
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
        ),
        ModelErrorKind.RATE_LIMIT: (
            "rate_limit_error",
            "rate_limit_exceeded",
            "insufficient_quota",
            "RESOURCE_EXHAUSTED",
        ),
        ModelErrorKind.VALIDATION: (
            "invalid_request_error",
            "not_found_error",
            "request_too_large",
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "NOT_FOUND",
        ),
        ModelErrorKind.TIMEOUT: ("timeout_error", "DEADLINE_EXCEEDED"),
    }.items()
    for word in words
}


def kind_of_status(status: int) -> ModelErrorKind:
    """Return what an HTTP status other than success means."""
    if status in _KINDS:
        return _KINDS[status]
    if status >= 500:
        return ModelErrorKind.SERVICE
    # Redirects are not followed: a POST would lose its body, or take its key to another host.
    return ModelErrorKind.CONFIGURATION if 300 <= status < 400 else ModelErrorKind.OTHER


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, by number or by date; `None` if unclear."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        from email.utils import parsedate_to_datetime  # here: most answers have no date, and `email` is large

        try:
            date = parsedate_to_datetime(retry_after)
        except (ValueError, OverflowError):  # the latter for a year of twenty digits
            return None
        # A date that states no zone comes back without one; HTTP dates are in GMT.
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


class Failures:
    """Makes the errors of one provider.

    Args:
        secrets: The key and its like, which no message shows even if the service repeats it; `""` is none.
    """

    def __init__(self, *secrets: str) -> None:
        self._secrets = secrets
        self._tokens: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._spelled: tuple[tuple[str, ...], list[str]] = (self._tokens, _spellings_of(secrets))

    def hide_also(self, token: str) -> None:
        """Hide a secret, too, that was not known from the beginning. The newest few are remembered."""
        if token in self._tokens:
            return
        with self._lock:
            if token not in self._tokens:
                self._tokens = (*self._tokens, token)[-_MOST_TOKENS:]

    @property
    def _spellings(self) -> list[str]:
        """What is to be hidden; spelled out when a message needs it, which no call that succeeds does."""
        tokens, spellings = self._spelled
        if tokens is not self._tokens:
            tokens = self._tokens
            spellings = _spellings_of((*self._secrets, *tokens))
            self._spelled = tokens, spellings
        return spellings

    def failed(
        self,
        kind: ModelErrorKind,
        what: str,
        detail: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
        limit: str | None = None,
    ) -> ModelError:
        """Return an error that says `what` happened and shows the beginning of `detail`."""
        # Hidden before it is cut, or the cut could leave half a key behind.
        shown = " ".join(self.hide(detail).split())
        if len(shown) > _EXCERPT_LENGTH:
            shown = f"{shown[:_EXCERPT_LENGTH]}…"
        message = f"{self.hide(what)}: {shown}" if shown else self.hide(what)
        return ModelError(whole_text(message), kind=kind, status=status, retry_after=retry_after, limit=limit)

    def refused(self, url: str, status: int, said: str, retry_after: str | None) -> ModelError:
        """Return an error for an answer without success.

        Args:
            url: Who was asked.
            status: Its HTTP status.
            said: Its body, or what else says why.
            retry_after: Its header of that name.
        """
        reported: Mapping[str, Any] = {}
        with suppress(ValueError, RecursionError):  # a page, or JSON that was cut off
            reported = _fields(_fields(_first(json.loads(said))).get("error"))
        what, wait = f"{url} answered {status}", seconds_to_wait(retry_after)
        return self._explained(reported, kind_of_status(status), what, said, status=status, retry_after=wait)

    def _explained(
        self,
        reported: Mapping[str, Any],
        kind: ModelErrorKind,
        what: str,
        detail: str,
        *,
        status: int | None,
        retry_after: float | None = None,
    ) -> ModelError:
        """Return an error, with what the details of an error object add to it."""
        details = _Details.of(reported)
        wait = details.retry_after if retry_after is None else retry_after
        error = self.failed(details.kind or kind, what, detail, status=status, retry_after=wait)
        if details.is_spent:
            error.retryable = False
        return error

    def timed_out(self, url: str, limit: str, seconds: float) -> ModelError:
        """Return an error for a limit of `Limits` that has passed."""
        what = f"{_AWAITED[limit]} from {url} within {limit}={seconds:g} s"
        return self.failed(ModelErrorKind.TIMEOUT, what, limit=limit)

    def malformed(self, what: str, text: str) -> ModelError:
        """Return an error for an answer that breaks its protocol, with the beginning of the offending text.

        All of the text goes to the log, at DEBUG: it may hold what the model said.
        """
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %s", self.hide(what), self.hide(text))
        return self.failed(ModelErrorKind.SERVICE, what, text)

    def reported(self, error: object) -> ModelError:
        """Return an error for an error object that came in place of an answer, or of the rest of one."""
        fields = _fields(error)
        message = fields.get("message", error)
        detail = message if isinstance(message, str) else json.dumps(error)
        what = "the service reported an error inside its answer"
        return self._explained(fields, _kind_of(fields), what, detail, status=_status_of(fields))

    def reported_in(self, answer: object) -> ModelError | None:
        """Return the error that a JSON answer is, or that it holds; `None` if there is none."""
        fields = _fields(_first(answer))
        if fields.get("error"):  # an empty one, or `false`, reports nothing
            return self.reported(fields["error"])
        # The answer itself is the error: vLLM's form, and that of events which are named so.
        is_error = fields.get("object") == "error" or ("message" in fields and "choices" not in fields)
        return self.reported(fields) if is_error else None

    def hide(self, text: str) -> str:
        """Return `text` with `[key]` in place of each secret."""
        for spelling in self._spellings:
            text = text.replace(spelling, "[key]")
        return text

    def guarded(self, steps: Generator[StepT]) -> Generator[StepT]:
        """Yield what `steps` yields; whatever goes wrong in it is a `ModelError` that leads to no secret.

        What the consumer throws in passes as it is. `steps` is closed with this generator.

        Raises:
            ModelError: As `steps` raised it; one of kind service for any other exception, which is its cause.
        """
        with closing(steps):
            while True:
                try:
                    step = self._next(steps)
                except StopIteration:
                    return
                except ModelError as error:
                    # Here and not where it was raised: `from None` would leave the context to be found.
                    if self._shows_secret(error.__cause__):
                        error.__cause__ = None
                    if self._shows_secret(error.__context__):
                        error.__context__ = None
                    raise
                yield step

    def _next(self, steps: Generator[StepT]) -> StepT:
        try:
            return next(steps)
        except (ModelError, StopIteration):
            raise
        except Cancelled as cancelled:
            cancelled.__context__ = None  # what an abort does to a connection explains nothing
            raise
        except Exception as error:
            raise self.malformed("the answer cannot be read", repr(error)) from error

    def _shows_secret(self, error: BaseException | None) -> bool:
        texts = (text for link in _chain(error) for text in (str(link), repr(link), repr(vars(link))))
        spellings = self._spellings
        return any(spelling in text for text in texts for spelling in spellings)


class _Details(NamedTuple):
    """What Google's error objects say beyond their status: `google.rpc.Status.details`.

    Attributes:
        kind: What went wrong, where the status says too little.
        retry_after: Seconds that the service asks to wait.
        is_spent: Whether a quota of a whole day is used up. No wait that is asked for is as long.
    """

    kind: ModelErrorKind | None = None
    retry_after: float | None = None
    is_spent: bool = False

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> Self:
        """Read an error object; one of another provider's has no such details."""
        kind, wait, is_spent = None, None, False
        details: object = error.get("details")
        for value in cast("list[object]", details) if isinstance(details, list) else ():
            detail = _fields(value)
            if detail.get("reason") == "API_KEY_INVALID":  # comes with status 400
                kind = ModelErrorKind.AUTHENTICATION
            delay: object = detail.get("retryDelay")
            if isinstance(delay, str):
                wait = seconds_to_wait(delay.removesuffix("s"))
            is_spent = is_spent or "PerDay" in json.dumps(detail.get("violations"))
        return cls(kind, wait, is_spent)


def _status_of(error: Mapping[str, Any]) -> int | None:
    """Return the status that a service would have sent, had it noticed before its answer began."""
    code: object = error.get("code")
    if isinstance(code, int) and code >= 400:  # those of success mean nothing
        return code
    return 529 if error.get("type") == "overloaded_error" else None


def _kind_of(error: Mapping[str, Any]) -> ModelErrorKind:
    """Return the kind of an error object, by the status or the word in it."""
    status = _status_of(error)
    if status is not None:
        return kind_of_status(status)
    words = [word for name in ("code", "type", "status") if isinstance(word := error.get(name), str)]
    return next((_KINDS_BY_WORD[word] for word in words if word in _KINDS_BY_WORD), ModelErrorKind.SERVICE)


def _first(answer: object) -> object:
    """Return an answer, of a list of answers the first: so Google reports errors of streams."""
    if not isinstance(answer, list):
        return answer
    answers = cast("list[object]", answer)
    return answers[0] if answers else None


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _spellings_of(secrets: Iterable[str]) -> list[str]:
    # Shorter ones are placeholders for servers without keys; hiding an "x" would garble every message.
    real = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    spellings = {spelling for secret in real for spelling in _spellings(secret)}
    return sorted(spellings, key=len, reverse=True)  # one can be the beginning of another


def _spellings(secret: str) -> set[str]:
    """Return how a secret looks in a text, in one quoted by Python or JSON, and in an address."""
    quoted = {repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    # The last are the characters that requests leaves as they are.
    return {secret, *quoted, *(quote(secret, safe=safe) for safe in ("", "/", "!#$%&'()*+,/:;=?@[]~"))}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all that it leads to."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [link.__cause__, link.__context__]
