"""`SessionKey`: which session. App, user and session id together, never one of them alone."""

import functools
from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["SessionKey"]


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The name of one session. Equal session ids of two users are two sessions.

    Raises:
        TypeError: A part is not a `str`.
        ValueError: A part is empty.
    """

    app: str
    user_id: str
    session_id: str

    def __post_init__(self) -> None:
        for name in ("app", "user_id", "session_id"):
            value: object = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a str, not {type(value).__name__}")
            if not value:
                raise ValueError(f"{name} must not be empty")
            object.__setattr__(self, name, str(value))  # an enum's member, say, is stored as plain text

    @property
    def stream(self) -> str:
        """The name of the session's stream in the log; no two keys share one, whatever their characters."""
        return _stream(self.app, self.user_id, self.session_id)

    @property
    def user_stream(self) -> str:
        """The name of the stream of what belongs to the user, in all sessions of the app."""
        return _stream(self.app, self.user_id)

    @property
    def app_stream(self) -> str:
        """The name of the stream of what belongs to the app."""
        return _stream(self.app)


@functools.lru_cache(maxsize=65536)
def _stream(*parts: str) -> str:
    return "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)
