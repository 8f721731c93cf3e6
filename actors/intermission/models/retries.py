"""`Retries`: whether a call that failed before anything of it was shown is tried again, and when."""

import random
from dataclasses import dataclass

from intermission.errors import ModelError, ModelErrorKind

__all__ = ["Retries"]

_FIRST_DELAY = 0.5  # seconds; doubled for each further retry
_LONGEST_DELAY = 8.0  # seconds
_LONGEST_ASKED = 60.0  # seconds; a service that asks for more is not waited for


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, at most.

    Raises:
        ValueError: That is negative.
    """

    most: int

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ValueError(f"max_retries must not be negative, and is {self.most}")

    def delay(self, done: int, error: ModelError) -> float | None:
        """Return the seconds to wait before the next retry; `None` if there is to be none.

        Args:
            done: How many there have been.
            error: What happened.
        """
        if done >= self.most or not _passes(error):
            return None
        if error.retry_after:  # 0 asks for no wait, and not for all retries at once
            # Never earlier than the service asks, and not all clients at the same moment.
            wait = error.retry_after + random.uniform(0.0, min(1.0, error.retry_after / 10))
            return wait if error.retry_after <= _LONGEST_ASKED else None
        backed_off: float = min(_FIRST_DELAY * 2**done, _LONGEST_DELAY)
        return backed_off * random.uniform(0.5, 1.0)


def _passes(error: ModelError) -> bool:
    """Return whether the failure may pass, and the service has not worked on an answer meanwhile."""
    if not error.retryable:
        return False
    if error.kind is ModelErrorKind.TIMEOUT:
        return error.limit == "connect_timeout" or error.status is not None
    if error.kind is ModelErrorKind.SERVICE:
        return error.status is not None
    return error.kind in {ModelErrorKind.RATE_LIMIT, ModelErrorKind.NETWORK}
