"""What a `Runner` is given, checked when it is made."""

import asyncio
from collections.abc import Mapping
from typing import Any

from intermission.config import RunConfig

__all__ = ["check_config", "check_count", "check_delta", "check_loop", "check_seconds"]


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
