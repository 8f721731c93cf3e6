"""`Holds`: sessions whose next run waits for what the run before has left behind."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from intermission.config import Residual
from intermission.kernel.timer import TimerHandle
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.sessions.messages import HoldOver

__all__ = ["Holds"]


class _Hold:
    """One session's; `alarm` ends it when the grace is over."""

    __slots__ = ("alarm", "run")

    def __init__(self, run: Lifecycle) -> None:
        self.run = run
        self.alarm: TimerHandle | None = None


class Holds:
    """The sessions of one runner that are held: by a run that has ended, with `residual="hold"`.

    They are kept here and not by the sessions' actors, which may leave memory meanwhile. No thread waits: the
    session is told by whoever ends the last of the work, or by the timer.

    Args:
        tell: Puts a message into the mailbox of a session that is active, and returns whether it is.
    """

    def __init__(self, tell: Callable[[SessionKey, object], bool]) -> None:
        self._tell = tell
        self._held: dict[SessionKey, _Hold] = {}

    def holds(self, key: SessionKey) -> bool:
        """Return whether a session is held. It is told by `HoldOver` when it no longer is."""
        return bool(self._held) and key in self._held

    @property
    def count(self) -> int:
        """How many sessions are held."""
        return len(self._held)

    def begin(self, run: Lifecycle) -> None:
        """A run is about to end: hold its session if that was asked for, and work of it is left."""
        config = run.config
        if config.residual is not Residual.HOLD or not run.work.pieces or not config.grace:
            return
        hold = self._held[run.key] = _Hold(run)
        run.work.holds = True
        end = partial(self._end, run.key, hold)
        try:
            hold.alarm = run.services.timer.call_later(min(config.grace, threading.TIMEOUT_MAX), end)
        except RuntimeError:  # the runner is closed, and there is no next run
            end()
        run.work.when_idle(end)

    def drop(self, key: SessionKey) -> None:
        """The session is deleted: what comes next under its name has nothing to wait for."""
        hold = self._held.get(key)
        if hold is not None:
            self._end(key, hold)

    def _end(self, key: SessionKey, hold: _Hold) -> None:
        if self._held.get(key) is not hold:
            return  # it is over already, or another run's
        with suppress(KeyError):  # the last of the work may end while the grace does
            del self._held[key]
        hold.run.work.holds = False
        hold.run.services.counts.released(hold.run, time.monotonic())
        if hold.alarm is not None:
            hold.alarm.cancel()
        self._tell(key, HoldOver())
