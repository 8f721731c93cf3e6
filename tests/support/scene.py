"""`Scene`: sessions over one log, in one process after another, and what can be done with them.

After `settle` each session is at rest: nothing is under way in it, or what is under way is held at a point.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from apps import APP
from contract import LEFT, Answers, ById, Line, Recover, Request, Say, Started, Verdict
from intermission import (
    Answer,
    CancelReceipt,
    Recovered,
    Run,
    RunConfig,
    RunStatus,
    SessionClosedError,
)
from intermission.sessions.records import UNDELIVERED
from intermission_storage import EventLog, LmdbEventLog, MemoryEventLog, StaleClaimError, verify
from processes_in_one import Process
from stage import FLIGHT, KINDS, World

__all__ = ["SESSIONS", "Scene"]

SESSIONS = (("ada", "s"), ("ada", "t"), ("eve", "s"))
_MANY = 100  # attempts


class Scene:
    """Several sessions and the process that is at work on them.

    Args:
        config: The settings of all runs.
        on_disk: Whether the log is one on disk, in a directory that goes with the scene.

    Attributes:
        lines: The sessions.
        process: The process.
        world: What happens outside of it.
    """

    def __init__(self, config: RunConfig, *, on_disk: bool = False) -> None:
        self._folder = TemporaryDirectory() if on_disk else None
        self._memory = MemoryEventLog()
        self._log = self._open_log()  # whose owner has no runs, to look at
        self._config = config
        self.world = World()
        self.process = self._open()
        self._hanging: tuple[Process, list[Started]] = self.process, []  # the last one that others took over
        self.lines = [Line(user_id, session_id, self._log) for user_id, session_id in SESSIONS]
        for line in self.lines:
            self.process.runner.sessions.create(**line.key)

    def _open(self) -> Process:
        return Process(self._open_log(), self.world, self._config)

    def _open_log(self) -> EventLog:
        if self._folder is None:
            return MemoryEventLog(share=self._memory)
        return LmdbEventLog(Path(self._folder.name) / "log", sync=False)  # that is for machines that die

    @property
    def flights(self) -> list[Started]:
        """All runs that were started and have not ended."""
        return [flight for line in self.lines for flight in line.flights]

    # Starting runs.

    def start(self, line: Line, request: Request, point: int, make: Callable[[], Run]) -> None:
        """Start the run that `make` makes for a request, to be held at a point."""
        flight = Started(self.process.stage, request, point)
        before = FLIGHT.set(flight)
        try:
            flight.run = make()
        finally:
            FLIGHT.reset(before)
        flight.run.listen(self.process.stage.wake)
        flight.run.begin()
        flight.run.subscribe(self.world.show)
        line.flights.append(flight)

    def say(self, line: Line, kind: str, point: int = 0) -> None:
        """Send a message."""
        self.start(line, Say(kind), point, lambda: self.process.runner.run(**line.key, message=kind))

    def resume(self, line: Line, invocation: str, point: int = 0) -> None:
        """Go on with a run by its id."""
        runner = self.process.runner
        make = lambda: runner.resume(**line.key, invocation_id=invocation)  # noqa: E731  # it is short
        self.start(line, ById(invocation), point, make)

    def answer(
        self, line: Line, invocation: str, ids: Sequence[str], point: int = 0, *, yes: bool = True
    ) -> None:
        """Answer calls of a run."""
        entry = line.ledger.runs.get(invocation)
        asked = {} if entry is None else entry.asked
        answers = [
            Answer(id, {"found": 7} if asked.get(id, ("", "survey"))[1] == "survey" else {"confirmed": yes})
            for id in ids
        ]
        runner = self.process.runner
        request = Answers(invocation, answers)
        self.start(line, request, point, lambda: runner.resume(**line.key, answers=answers))

    def recover(
        self,
        lines: Sequence[Line],
        point: int = 0,
        attempts: int = _MANY,
        *,
        take_over: bool = False,
    ) -> None:
        """Go on with what must have been left in these sessions; see that it is found."""
        for line in lines:
            for invocation in tuple(line.left):

                def make(line: Line = line) -> Run:
                    runner = self.process.runner
                    run, *others = runner.recover(**line.key, max_attempts=attempts, take_over=take_over)
                    for other in others:
                        other.cancel()  # it is cold, and is found again when this one has begun
                    return run

                self.start(line, Recover(invocation, attempts), point, make)

    def recover_all(self, attempts: int) -> None:
        """Go on with all that was left, to the end; see that it is told of rightly."""
        found = self.left()
        before = FLIGHT.set(Started(self.process.stage, Recover("", attempts)))
        try:
            report = self.process.runner.recover_all(max_attempts=attempts)
        finally:
            FLIGHT.reset(before)
        told = {one.invocation_id: one for one in (*report.continued, *report.failed)}
        assert report.elsewhere == ()
        assert told.keys() == {invocation for line in found for invocation in line.left}
        for line in found:
            for invocation in tuple(line.left):
                line.catch_up()
                self._recovered(line, told[invocation], attempts)

    def left(self) -> list[Line]:
        """The sessions in which `recover` must find something, and in no other."""
        lines = [line for line in self.lines if line.left and not line.flights]
        runs = self.process.runner.recover()
        for run in runs:
            run.cancel()  # it is cold: nothing of it is stored
        expected = [tuple(line.key.values()) for line in lines for _ in line.left]
        assert sorted((run.user_id, run.session_id) for run in runs) == sorted(expected)
        return lines

    def _recovered(self, line: Line, one: Recovered, attempts: int) -> None:
        request = Recover(one.invocation_id, attempts)
        verdict = line.judge(request)
        assert verdict.begins
        line.begin(request)
        line.conclude(request, verdict, one.result)

    # Waiting for them.

    def settle(self) -> None:
        """Wait until each session is at rest, and see that what has ended has ended as it must."""
        for line in self.lines:
            while line.flights:
                flight = line.flights[0]
                self.process.until(partial(_at_rest, flight), "a run has ended or is held")
                self._judge(line, flight)
                if not flight.over:
                    break
                line.flights.popleft()
                self._conclude(line, flight)

    def _judge(self, line: Line, flight: Started) -> None:
        if flight.verdict is None:
            line.catch_up()
            flight.verdict = line.judge(flight.request)
            if flight.verdict.begins:
                flight.invocation = line.begin(flight.request)

    def _conclude(self, line: Line, flight: Started) -> None:
        result = flight.run.outcome
        assert result is not None
        assert flight.verdict is not None
        line.conclude(flight.request, flight.verdict, result, flight.end)

    # Ending them.

    def cancel(self, line: Line, flight: Started, *, by_key: bool = False) -> None:
        """Cancel a run that is under way or waits in line."""
        if by_key:
            receipt = self.process.runner.cancel(**line.key, reason="enough")
        else:
            receipt = flight.run.cancel("enough")
        assert receipt.accepted
        self.process.until(lambda: flight.over, "a run is cancelled")
        flight.release()
        assert flight.run.wait_terminated(30)
        if flight.verdict is None:
            line.flights.remove(flight)  # it waited in line: nothing of it is stored
            assert flight.run.status is RunStatus.CANCELLED
        else:
            flight.end = RunStatus.CANCELLED

    def cancel_at_rest(self, line: Line, which: int | None) -> None:
        """Cancel a run that nobody is at work on: one of them by its id, or the one that the key means."""
        closable = line.closable
        target = closable[0 if which is None else which % len(closable)]
        receipt = self._cancel_by_key(line, None if which is None else target)
        assert receipt.accepted
        assert receipt.durable
        line.status[target] = RunStatus.CANCELLED
        line.catch_up()

    def cancel_beside(self, line: Line) -> None:
        """Cancel a run that nobody is at work on while another one is under way, which goes on."""
        current = line.flights[0].invocation
        beside = [invocation for invocation in line.closable if invocation != current]
        if beside:
            receipt = self._cancel_by_key(line, beside[0])
            assert receipt.accepted
            assert receipt.durable
            line.status[beside[0]] = RunStatus.CANCELLED
            line.catch_up()

    def _cancel_by_key(self, line: Line, invocation: str | None) -> CancelReceipt:
        return self.process.runner.cancel(**line.key, invocation_id=invocation, reason="enough")

    def stop(self, line: Line, *, by_key: bool) -> None:
        """Stop the run that is under way; it ends with the step that it is held in."""
        flight = line.flights[0]
        assert flight.invocation is not None
        kind = line.ledger.runs[flight.invocation].kind
        last = "sender is told" if "send" in KINDS[kind] else "sender is asked"
        flight.end = None if flight.held == last else RunStatus.STOPPED
        if by_key:
            self.process.runner.stop(**line.key)
        else:
            flight.run.stop()
        flight.release()

    # One process after another.

    def kill(self) -> None:
        """Kill the process, and begin another one."""
        self.process.kill(self.flights)
        for line in self.lines:
            for flight in line.flights:
                self._bury(line, flight)
            line.flights.clear()
        self.process = self._open()

    def move_on(self, line: Line, commit: int, *, stored: bool, yes: bool) -> None:
        """Have a run of a session go on, until the process comes to a commit at which it dies."""
        for flight in tuple(line.flights)[1:]:
            self.cancel(line, flight)
        self.process.die_at(commit, stored=stored)
        if line.flights:
            line.flights[0].release()
        elif line.waiting:
            invocation, ids = next(iter(line.waiting.items()))
            self.answer(line, invocation, ids, yes=yes)
        elif line.left:
            self.recover([line])
        else:
            self.say(line, "book")
        flight = line.flights[0]
        self.process.until(lambda: self.process.dying or flight.over, "a process dies or a run ends")

    def _bury(self, line: Line, flight: Started) -> None:
        """See that what a run has left in the log is what it can have left."""
        more = line.catch_up()
        if flight.verdict is None:
            if not more:
                return
            flight.verdict = line.judge(flight.request)
            assert flight.verdict.begins
            flight.invocation = line.begin(flight.request)
        if flight.invocation is not None:
            status = line.ledger.runs[flight.invocation].status
            assert status in {
                None,
                flight.end or flight.verdict.status or line.natural_end(flight.invocation),
            }
            line.status[flight.invocation] = status

    def reopen(self) -> None:
        """Close the process, which releases its runs, and begin another one."""
        self.process.close(self.flights)
        for line in self.lines:
            for flight in line.flights:
                if flight.verdict is None:
                    flight.verdict = Verdict(False, error=SessionClosedError)
                flight.end = RunStatus.INTERRUPTED
        self.settle()
        self.process = self._open()

    def take_over(self, point: int) -> None:
        """Have another process take all runs from this one, which seems to hang, and then goes on."""
        for line in self.lines:
            for flight in tuple(line.flights)[1:]:
                self.cancel(line, flight)
        hanging, flights = self._hanging = self.process, self.flights
        for line in self.lines:
            line.flights.clear()
            line.catch_up()
        self.process = self._open()
        self.recover([line for line in self.lines if line.left], point, take_over=True)
        self.settle()
        hanging.wake_up(flights)
        for flight in flights:
            outcome = flight.run.outcome
            assert outcome is not None
            assert isinstance(outcome.error, StaleClaimError), outcome

    # What must be so.

    def check(self) -> None:
        """See that the log and the runner say what they must, and that the world is in order."""
        shown, runner = tuple(self.world.shown), self.process.runner  # what is under way shows more meanwhile
        for line in self.lines:
            assert not line.catch_up(), "a run has begun that nobody has asked for"
            line.check(self.world)
            active = runner.active(**line.key)
            assert len(active) == len(line.flights)
            running = [run.invocation_id for run in active if run.state == "running"]
            assert running == [flight.invocation for flight in line.flights if flight.verdict is not None]
            if not running:
                waiting = sorted(id for ids in line.waiting.values() for id in ids)
                assert sorted(call.id for call in runner.pending(**line.key)) == waiting
        self.left()
        assert self.world.problems == []
        stored = {id for line in self.lines for id in line.ledger.events}
        assert stored.issuperset(shown), "an event was shown and is lost"

    def finish(self) -> None:
        """Bring all runs to an end, and see that then nothing is left."""
        for line in self.lines:
            while line.flights:
                line.flights[0].release()
                self.settle()
            for invocation in tuple(line.status):
                if line.status[invocation] in LEFT:
                    self.resume(line, invocation)
                    self.settle()
                if invocation in line.waiting:
                    self.answer(line, invocation, line.waiting[invocation])
                    self.settle()
            self.say(line, "look")
            self.settle()
        self.check()
        self.reopen()  # this tells ends that a dead process has not told
        self.process.close([])
        assert self._log.index(UNDELIVERED, (APP,)) == []
        assert self.world.told == {id for line in self.lines for id in line.status}
        assert verify(self._log).problems == ()

    def leave(self) -> None:
        """Have nothing of it go on."""
        for process, flights in (self._hanging, (self.process, self.flights)):
            if not process.over:
                process.kill(flights)
        self._log.close()
        if self._folder is not None:
            self._folder.cleanup()


def _at_rest(flight: Started) -> bool:
    return flight.over or flight.held is not None
