"""`Line`: one session as the contract has it, the model that the state machine is held against."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apps import APP, Key
from intermission import (
    Answer,
    NothingToResumeError,
    RecoveryLimitError,
    Run,
    RunResult,
    RunStatus,
    UnknownCallError,
)
from intermission.keys import SessionKey
from intermission_storage import EventLog, Kind, Record
from ledger import Entry, Ledger
from stage import KINDS, Flight, Stage, World

__all__ = ["LEFT", "Answers", "ById", "Line", "Recover", "Request", "Say", "Started", "Verdict"]

LEFT = frozenset({None, RunStatus.INTERRUPTED})
"""What `recover` finds, if nobody has it under way."""

OPEN = LEFT | {RunStatus.PAUSED}
"""Whose calls wait for answers."""


@dataclass(frozen=True)
class Say:
    """A new message, of this kind."""

    kind: str


@dataclass(frozen=True)
class ById:
    """To go on with this run, on purpose."""

    invocation: str


@dataclass(frozen=True)
class Answers:
    """Answers to calls of this run."""

    invocation: str
    answers: Sequence[Answer]


@dataclass(frozen=True)
class Recover:
    """To go on with this run because its process is gone."""

    invocation: str
    max_attempts: int


Request: TypeAlias = Say | ById | Answers | Recover


@dataclass(frozen=True)
class Verdict:
    """What must come of a request.

    Attributes:
        begins: Whether a run begins in the log.
        status: How it ends, if it has no chance to end otherwise.
        error: What it fails with.
    """

    begins: bool
    status: RunStatus | None = None
    error: type[Exception] | None = None


GOES_ON = Verdict(True)
COMPLETED, PAUSED = Verdict(False, RunStatus.COMPLETED), Verdict(False, RunStatus.PAUSED)
ELSEWHERE = Verdict(False, RunStatus.ELSEWHERE)


class Started(Flight):
    """A flight that was started, for a request.

    Attributes:
        run: The run; it is set before it begins.
        request: What it was started for.
        verdict: What must come of that; `None` until its turn has come.
        invocation: Its id in the log; `None` until it has begun there.
        end: How it was ended from outside, if it was.
    """

    run: Run

    def __init__(self, stage: Stage, request: Request, point: int = 0) -> None:
        super().__init__(stage, point)
        self.request = request
        self.verdict: Verdict | None = None
        self.invocation: str | None = None
        self.end: RunStatus | None = None

    @property
    def over(self) -> bool:
        """Whether its run has ended."""
        return self.run.status is not None


class Line:
    """One session, as the contract has it.

    Attributes:
        key: Its keys.
        ledger: What its records say, up to the beginning of the next run.
        flights: The runs that were started and have not ended, in their order; the first one is under way.
        status: How each run must have ended.
    """

    def __init__(self, user_id: str, session_id: str, log: EventLog) -> None:
        self.key: Key = {"user_id": user_id, "session_id": session_id}
        self.ledger = Ledger()
        self.flights: deque[Started] = deque()
        self.status: dict[str, RunStatus | None] = {}
        self._attempts: dict[str, int] = {}
        self._log = log
        self._read = 0
        self._ahead: deque[Record] = deque()

    @property
    def stream(self) -> str:
        """Its stream in the log."""
        return SessionKey(APP, **self.key).stream

    # What is in the log.

    def catch_up(self) -> bool:
        """Read on up to the beginning of the next run; return whether there is one."""
        found = self._log.read(self.stream, after=self._read)
        self._read += len(found)
        self._ahead += found
        while self._ahead and self._ahead[0].kind != Kind.RUN_STARTED:
            self.ledger.fold([self._ahead.popleft()])
        return bool(self._ahead)

    def begin(self, request: Request) -> str:
        """Read of the beginning of the run that a request has begun, and return its id."""
        assert self.catch_up(), f"no run has begun for {request}"
        begun = self._ahead.popleft()
        invocation = str(begun.data["invocationId"])
        if isinstance(request, Say):
            assert invocation not in self.status
        else:
            assert invocation == request.invocation
        died = isinstance(request, Recover) and self.status[invocation] is None
        before = self._attempts.get(invocation, 0) if isinstance(request, Recover) else 0
        self._attempts[invocation] = before + died
        self.status[invocation] = None
        self.ledger.fold([begun])
        self.catch_up()
        return invocation

    # What must be so.

    def judge(self, request: Request) -> Verdict:
        """Return what must come of a request whose turn has come."""
        if isinstance(request, Say):
            return GOES_ON
        if request.invocation not in self.status:
            unknown = UnknownCallError if isinstance(request, Answers) else NothingToResumeError
            return Verdict(False, error=unknown)
        status, entry = self.status[request.invocation], self.ledger.runs[request.invocation]
        match request:
            case ById():
                match status:
                    case RunStatus.COMPLETED | RunStatus.STOPPED:
                        return COMPLETED
                    case RunStatus.PAUSED:
                        return PAUSED
                    case _:
                        return GOES_ON
            case Recover():
                return self._recovered(request, status)
            case Answers():
                return _answered(request, status, entry)

    def _recovered(self, request: Recover, status: RunStatus | None) -> Verdict:
        if status not in LEFT or request.invocation not in self.ledger.left:
            return ELSEWHERE
        died = self._attempts[request.invocation] + (status is None)
        if died > request.max_attempts:
            return Verdict(True, RunStatus.FAILED, RecoveryLimitError)
        return GOES_ON

    @property
    def left(self) -> list[str]:
        """The runs that `recover` must find, if nobody has them under way."""
        return [invocation for invocation in self.ledger.left if self.status[invocation] in LEFT]

    @property
    def waiting(self) -> dict[str, list[str]]:
        """The ids that must wait for an answer, by their runs."""
        open_runs = (
            (id, self.ledger.runs[id].waiting) for id, status in self.status.items() if status in OPEN
        )
        return {id: waiting for id, waiting in open_runs if waiting}

    @property
    def given(self) -> list[tuple[str, str]]:
        """The ids that were answered, each with its run."""
        runs = self.ledger.runs.items()
        return [(run, id) for run, entry in runs for id in entry.asked if id in entry.answered]

    @property
    def closable(self) -> list[str]:
        """The runs that a cancel by key may end while nothing is under way; the first is meant by no id."""
        found = [id for id, status in self.status.items() if status in LEFT or id in self.waiting]
        found.reverse()
        return sorted(found, key=lambda id: self.status[id] is not None)

    def natural_end(self, invocation: str) -> RunStatus:
        """Return how a run that nobody has ended ends."""
        return RunStatus.PAUSED if self.ledger.runs[invocation].waiting else RunStatus.COMPLETED

    def conclude(
        self, request: Request, verdict: Verdict, result: RunResult, end: RunStatus | None = None
    ) -> None:
        """See that a request has come to what it must, or to the end that was made from outside."""
        self.catch_up()
        if verdict.error is not None:
            assert isinstance(result.error, verdict.error), (verdict, result)
        if not verdict.begins:
            assert result.status == (verdict.status or RunStatus.FAILED), (request, verdict, result)
            return
        invocation = result.invocation_id
        assert invocation is not None
        expected = end or verdict.status or self.natural_end(invocation)
        assert result.status == expected, (request, expected, result)
        self.status[invocation] = expected

    def check(self, world: World) -> None:
        """See that the log says what it must, and that no call had its effect too often."""
        said = {id: entry.status for id, entry in self.ledger.runs.items()}
        assert said == self.status
        for id, entry in self.ledger.runs.items():
            for call, tool in entry.tools.items():
                assert world.done[call] <= 1 + entry.again[call], f"{tool} of {id} has run too often"
            if entry.status is RunStatus.COMPLETED:
                _check_completed(entry, world)


def _answered(request: Answers, status: RunStatus | None, entry: Entry) -> Verdict:
    fresh = [answer for answer in request.answers if answer.id in entry.waiting]
    if fresh:
        return GOES_ON if status in OPEN else Verdict(False, error=UnknownCallError)
    if status in LEFT and not entry.waiting:
        return GOES_ON
    return PAUSED if status in OPEN and entry.waiting else COMPLETED


def _check_completed(entry: Entry, world: World) -> None:
    assert sorted(entry.tools.values()) == sorted(KINDS[entry.kind]), (
        entry,
        "each call is one call, whoever makes it",
    )
    assert entry.responses == set(entry.tools)
    assert not entry.open
    for call, tool in entry.tools.items():
        assert (world.done[call] == 0) == (call in entry.refused), (
            f"{tool} was made, or was not, against an answer"
        )
