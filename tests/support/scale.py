"""How much a check does: few rounds in the default check, many with `pytest --long`.

`tests/conftest.py` chooses once, before any test module is imported, so `rounds` also works in decorators.
"""

__all__ = ["choose", "is_long", "rounds"]

_long = False


def choose(*, long: bool) -> None:
    """Set the scale of this test run."""
    global _long
    _long = long


def is_long() -> bool:
    """Return whether this is the long check."""
    return _long


def rounds(default: int, long: int) -> int:
    """Return how many rounds, kills, threads or examples a test does."""
    return long if _long else default
