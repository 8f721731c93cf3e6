"""The steps that sessions can be taken through, and the strategy that draws one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from contract import Line
from scene import SESSIONS, Scene
from stage import KINDS

__all__ = [
    "STEPS",
    "Answer",
    "AnswerAgain",
    "Cancel",
    "GoOn",
    "Kill",
    "Recover",
    "Reopen",
    "Resume",
    "Run",
    "Step",
    "Stop",
    "TakeOver",
    "kinds",
    "points",
    "steps",
]

T = TypeVar("T")

_QUEUE = 3  # runs of a session that may wait, with the one under way


@dataclass(frozen=True)
class Step(ABC):
    """A step: it is for one of the sessions that have something to do for it, if there is one.

    If not, it is one that must do nothing.

    Attributes:
        where: Which of them.
    """

    where: int

    def take(self, scene: Scene) -> bool:
        """Take it, and return whether there was something to do."""
        lines = [line for line in scene.lines if self.has_work(line)]
        if lines:
            self.work(scene, _nth(lines, self.where))
        else:
            self.idle(scene, scene.lines[self.where])
        scene.settle()
        return bool(lines)

    def has_work(self, line: Line) -> bool:
        """Whether a session has something to do for it."""
        return True

    @abstractmethod
    def work(self, scene: Scene, line: Line) -> None:
        """Do what it is for."""

    def idle(self, scene: Scene, line: Line) -> None:
        """Ask for what must come to nothing, if it can be asked for."""
        assert not self.has_work(line)


@dataclass(frozen=True)
class Run(Step):
    """Send a message."""

    kind: str
    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return len(line.flights) < _QUEUE

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.say(line, self.kind, self.point)


@dataclass(frozen=True)
class GoOn(Step):
    """Let a run that is held go on."""

    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.flights)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        line.flights[0].release(self.point)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        assert scene.process.runner.active() == []


@dataclass(frozen=True)
class Answer(Step):
    """Answer one call, or all of its run."""

    which: int
    whole: bool
    yes: bool
    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.waiting)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        invocation, waiting = _nth(list(line.waiting.items()), self.which)
        ids = waiting if self.whole else [_nth(waiting, self.which)]
        scene.answer(line, invocation, ids, self.point, yes=self.yes)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.answer(line, "none", ["call-none"])


@dataclass(frozen=True)
class AnswerAgain(Step):
    """Give an answer that was given, perhaps the other way round."""

    which: int
    yes: bool
    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.given)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        invocation, id = _nth(line.given, self.which)
        scene.answer(line, invocation, [id], self.point, yes=self.yes)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.answer(line, "none", ["call-none"])


@dataclass(frozen=True)
class Cancel(Step):
    """Cancel what is under way or waits in line; or a run that nobody is at work on."""

    how: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.flights or line.closable)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        if not line.flights:
            scene.cancel_at_rest(line, self.how or None)
        elif self.how == 0:
            scene.cancel_beside(line)
        else:
            scene.cancel(line, line.flights[0 if self.how % 2 else -1], by_key=self.how == 1)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        assert scene.process.runner.cancel(**line.key).nothing_running


@dataclass(frozen=True)
class Stop(Step):
    """Stop what is under way."""

    by_key: bool

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.flights)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.stop(line, by_key=self.by_key)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.process.runner.stop(**line.key)


@dataclass(frozen=True)
class Resume(Step):
    """Go on with a run by its id, wherever it stands."""

    which: int
    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.status)

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.resume(line, _nth(list(line.status), self.which), self.point)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.resume(line, "none")


@dataclass(frozen=True)
class Recover(Step):
    """Go on with what was left, in one session or in all."""

    how: int
    attempts: int
    point: int

    def has_work(self, line: Line) -> bool:
        """See `Step`."""
        return bool(line.left) and not line.flights

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        if self.how == 0:
            scene.recover_all(self.attempts)
        else:
            scene.recover(scene.left() if self.how < 3 else [line], self.point, self.attempts)

    def idle(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.recover_all(self.attempts)


@dataclass(frozen=True)
class Kill(Step):
    """Kill the process, at rest or at one of the next commits of a session, and begin another one."""

    commit: int
    stored: bool
    yes: bool

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        if self.commit:
            scene.move_on(line, self.commit, stored=self.stored, yes=self.yes)
        scene.kill()


@dataclass(frozen=True)
class Reopen(Step):
    """Close the process, which releases its runs, and begin another one."""

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.reopen()


@dataclass(frozen=True)
class TakeOver(Step):
    """Have another process take all runs from this one, which seems to hang, and then goes on."""

    point: int

    def work(self, scene: Scene, line: Line) -> None:
        """See `Step`."""
        scene.take_over(self.point)


STEPS: tuple[type[Step], ...] = (
    *(Run, GoOn, Answer, AnswerAgain, Cancel, Stop, Resume, Recover, Kill, Reopen, TakeOver),
)
"""What a step can be."""

_where = st.integers(0, len(SESSIONS) - 1)
_some = st.integers(0, 5)
_bool = st.booleans()
kinds = st.sampled_from(sorted(KINDS))
points = st.integers(0, 9)

steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Run, _where, kinds, points),
    st.builds(GoOn, _where, points),
    st.builds(Answer, _where, _some, _bool, _bool, points),
    st.builds(AnswerAgain, _where, _some, _bool, points),
    st.builds(Cancel, _where, _some),
    st.builds(Stop, _where, _bool),
    st.builds(Resume, _where, _some, points),
    st.builds(Recover, _where, _some, st.sampled_from([1, 3]), points),
    st.builds(Kill, _where, st.integers(0, 24), _bool, _bool),
    st.builds(Reopen, _where),
    st.builds(TakeOver, _where, points),
)
"""Any step, each as often as any other."""


def _nth(some: Sequence[T], which: int) -> T:
    return some[which % len(some)]
