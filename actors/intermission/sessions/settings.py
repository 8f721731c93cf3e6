"""What a `Runner` is given, checked when it is made."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from intermission.config import RunConfig
from intermission_storage import EventLog

__all__ = ["check_config", "check_count", "check_delta", "check_log", "check_loop", "check_seconds"]

Log: TypeAlias = str | os.PathLike[str] | EventLog


def check_count(name: str, given: object, least: int) -> None:
    """Refuse what is no `int`, or less than `least`.

    Raises:
        TypeError, ValueError: See there.
    """
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} must be an int, not {type(given).__name__}")
    if given < least:
        raise ValueError(f"{name} is {given}: give {least} or more")


def check_seconds(name: str, given: object) -> None:
    """Refuse what is no number of seconds.

    Raises:
        TypeError, ValueError: See there.
    """
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise TypeError(f"{name} must be a number of seconds, not {type(given).__name__}")
    if not given >= 0:
        raise ValueError(f"{name} is {given}: give seconds, at least 0")


def check_config(given: object) -> None:
    """Refuse what is neither `None` nor a `RunConfig`.

    Raises:
        TypeError: See there.
    """
    if given is not None and not isinstance(given, RunConfig):
        raise TypeError(f"config must be a RunConfig, not {type(given).__name__}")


def check_log(given: Log | None) -> Log:
    """Return what is a path or an event log, and refuse what is neither.

    Raises:
        TypeError: See there.
    """
    if given is None:
        raise TypeError(
            "Runner needs a log: log='sessions.lmdb' keeps the sessions on disk, "
            "log=MemoryEventLog() (from intermission_storage) only as long as the process lives"
        )
    if not isinstance(given, str | os.PathLike) and not callable(getattr(given, "submit", None)):
        raise TypeError(f"log must be a path or an EventLog, not {type(given).__name__}")
    return given


def check_loop(given: object) -> None:
    """Refuse what is neither `None` nor an event loop.

    Raises:
        TypeError: See there.
    """
    if given is not None and not isinstance(given, asyncio.AbstractEventLoop):
        raise TypeError(f"loop must be an event loop, not {type(given).__name__}")


def check_delta(given: Mapping[Any, Any] | None) -> None:
    """Refuse a change of the state with a key that is no `str`.

    Raises:
        TypeError: See there.
    """
    for key in given or ():
        if not isinstance(key, str):
            raise TypeError(f"a key of state_delta must be a str, not {type(key).__name__}")
