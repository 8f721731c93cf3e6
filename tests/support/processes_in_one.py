"""`Process`: what one process is to a log: a runner with a stage, which can be closed, killed, or hang."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from contract import Started
from intermission import RunConfig, Runner, RunStatus
from intermission.testing import FaultyLog
from intermission_storage import EventLog, Kind, LogClosedError, Record
from stage import PATIENCE, Stage, World

__all__ = ["Process"]


class Process:
    """A process that has a log open.

    Args:
        log: The log, as this process has opened it for itself: it is its owner's.
        world: What it has its effects on.
        config: The settings of its runs.

    Attributes:
        stage: Where its runs stand.
        runner: Its runner.
    """

    def __init__(self, log: EventLog, world: World, config: RunConfig) -> None:
        self.stage = Stage(world)
        self._log = FaultyLog(log)
        self.runner = Runner(self.stage.app, log=self._log, config=config)
        self._dying = False
        self._over = False

    @property
    def over(self) -> bool:
        """Whether it was closed or killed."""
        return self._over

    @property
    def dying(self) -> bool:
        """Whether it has come to the commit at which it dies."""
        return self._dying

    def close(self, flights: Sequence[Started]) -> None:
        """End it as a deploy does: its runs are released, and what they still do has no place in the log."""
        self.runner.close(grace=0)
        self._leave(flights)

    def die_at(self, commit: int, *, stored: bool) -> None:
        """Have it die at a commit, counted from 1 from now on: right before it, or right after."""
        left = commit

        def here(stream: str, records: Sequence[Record]) -> bool:
            nonlocal left
            left -= 1
            if left:
                return False
            self._dying = True
            self.stage.wake()
            return True

        self._log.stop_at(here, stored=stored)

    def kill(self, flights: Sequence[Started]) -> None:
        """Kill it. What its threads do from then on reaches nobody."""
        if not self._dying:
            self._log.stop_at(1)
            with suppress(LogClosedError):
                self._log.append("no session", [Record(Kind.EVENT, {})])
        self._log.wait_until_stopped(PATIENCE)
        self.stage.dead = True
        self._log.close()
        self._leave(flights)
        self.runner.close(grace=0)

    def wake_up(self, flights: Sequence[Started]) -> None:
        """Have it go on, after another one has taken its runs, and see that it can do nothing to them."""
        self._release(flights)
        for flight in flights:
            assert flight.run.result(PATIENCE).status is RunStatus.FAILED
        self.runner.close(grace=0)
        self._leave(flights)

    def until(self, happens: Callable[[], bool], what: str) -> None:
        """Wait until something is so that flights bring about."""
        self.stage.wait_for(happens, what)

    def _release(self, flights: Sequence[Started]) -> None:
        self.stage.open = True
        for flight in flights:
            flight.release()

    def _leave(self, flights: Sequence[Started]) -> None:
        self._over = True
        self._release(flights)
        for flight in flights:
            assert flight.run.wait_terminated(PATIENCE), "something of a closed process has not returned"
        self._log.close()
