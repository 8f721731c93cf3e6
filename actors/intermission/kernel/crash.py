"""`ActorCrashError` stands for a `BaseException` of an actor; `text_of` puts exceptions into words."""

__all__ = ["ActorCrashError", "text_of"]


class ActorCrashError(Exception):
    """Stands for a `BaseException` that left an actor's handler; `__cause__` is that exception."""

    @classmethod
    def of(cls, where: str, error: BaseException) -> "ActorCrashError":
        """Return the error that stands for one raised by `where`."""
        crash = cls(f"{where} raised {text_of(error)}")
        crash.__cause__ = error
        return crash


def text_of(error: BaseException) -> str:
    """Return an exception's type and text, for a log or a record, even if it cannot tell its text itself."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - somebody's __str__ must not decide whether a run ends
        return f"{type(error).__name__} (its text cannot be read)"
    # It can be of any size, and hold half a surrogate pair.
    return f"{type(error).__name__}: {text[:2000]}".encode("utf-8", "replace").decode()
