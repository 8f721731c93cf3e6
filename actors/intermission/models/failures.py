"""`Failures`: what a provider refuses, breaks or reports, as a `ModelError` that never shows its key."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from intermission.errors import ModelError, ModelErrorKind

__all__ = ["Failures", "kind_of_status", "seconds_to_wait"]

_EXCERPT_LENGTH = 500  # characters
_SHORTEST_SECRET = 8  # characters

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
        try:
            date = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        # A date that states no zone comes back without one; HTTP dates are in GMT.
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


class Failures:
    """Makes the errors of one provider.

    Args:
        secret: The key, which no message shows even if the service repeats it; `""` for none.
    """

    def __init__(self, secret: str = "") -> None:
        # Shorter ones are placeholders for servers without keys; hiding an "x" would garble every message.
        self._secret = secret if len(secret) >= _SHORTEST_SECRET else ""

    def failed(
        self,
        kind: ModelErrorKind,
        what: str,
        detail: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> ModelError:
        """Return an error that says `what` happened and shows the beginning of `detail`."""
        # Hidden before it is cut, or the cut could leave half a key behind.
        shown = " ".join(self._hide(detail).split())
        if len(shown) > _EXCERPT_LENGTH:
            shown = f"{shown[:_EXCERPT_LENGTH]}…"
        message = f"{self._hide(what)}: {shown}" if shown else self._hide(what)
        return ModelError(message, kind=kind, status=status, retry_after=retry_after)

    def malformed(self, what: str, text: str) -> ModelError:
        """Return an error for an answer that breaks its protocol, with the offending text."""
        return self.failed(ModelErrorKind.SERVICE, what, text)

    def reported(self, error: object) -> ModelError:
        """Return an error for an error object that came in place of an answer, or of the rest of one."""
        fields = _fields(error)
        message, code = fields.get("message", error), fields.get("code")
        detail = message if isinstance(message, str) else json.dumps(error)
        # Some servers put the status that they would have sent here; the kinds of success mean nothing.
        kind = kind_of_status(code) if isinstance(code, int) and code >= 400 else ModelErrorKind.SERVICE
        return self.failed(kind, "the service reported an error inside its answer", detail)

    def _hide(self, text: str) -> str:
        return text.replace(self._secret, "[key]") if self._secret else text


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
