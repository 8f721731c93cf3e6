"""`Steered`: a manual clock whose moves a timer follows at once."""

from collections.abc import Callable

from intermission.testing import ManualClock

__all__ = ["Steered"]


class Steered(ManualClock):
    """A `ManualClock` and `SteeredClock`: when `advance` returns, what became due has run."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks: dict[object, Callable[[], object]] = {}

    def on_advance(self, hook: Callable[[], object]) -> Callable[[], object]:
        """See `SteeredClock.on_advance`."""
        key = object()
        self._hooks[key] = hook
        return lambda: self._hooks.pop(key, None)

    def advance(self, seconds: float) -> None:
        """See `ManualClock.advance`."""
        super().advance(seconds)
        for hook in list(self._hooks.values()):
            hook()
