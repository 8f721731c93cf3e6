"""Callbacks of agents: one function or a list of them, plain or async."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

__all__ = ["Callback", "Callbacks", "OneOrMore", "as_callbacks"]

T = TypeVar("T")

OneOrMore: TypeAlias = T | Sequence[T] | None
"""What an agent is given: one, several, which are asked in their order, or none."""

Callback: TypeAlias = Callable[..., Any]
"""A function of what it is about, plain or async. `None` means that it has nothing to say."""

Callbacks: TypeAlias = OneOrMore[Callback]
"""Callbacks of whatever kind."""


def as_callbacks(name: str, given: Callbacks) -> tuple[Callback, ...]:
    """Return callbacks as a tuple.

    Raises:
        TypeError: One of them cannot be called.
    """
    if given is None:
        return ()
    several: tuple[Any, ...] = (given,)
    if not callable(given) and isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        several = tuple(given)
    for callback in several:
        if not callable(callback):
            raise TypeError(f"{name} must be a function or a list of functions, not {callback!r}")
    return several
