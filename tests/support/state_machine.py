"""`Sessions`: the state machine of hypothesis whose steps are those of a `Scene`."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from contract import Line
from intermission import RunConfig, ToolExecution
from scene import SESSIONS, Scene
from stage import KINDS, POINTS

__all__ = ["STEPS", "Sessions", "table"]

STEPS = (
    *("answer", "answer_again", "cancel", "go_on", "kill", "recover", "reopen", "resume", "run", "stop"),
    "take_over",
)
"""The names of the steps."""

T = TypeVar("T")

_QUEUE = 3  # runs of a session that may wait, with the one under way
_MODES = (ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE)
_wheres = st.integers(0, len(SESSIONS) - 1)
_kinds = st.sampled_from(sorted(KINDS))
_points = st.none() | st.sampled_from(POINTS)
_messages = st.tuples(*[st.tuples(_kinds, _points)] * len(SESSIONS))
_some = st.integers(0, 5)


class Sessions(RuleBasedStateMachine):
    """Several sessions over one log, in one process after another.

    A step is for one of them that has something to do for it, if there is one. If not, it must do nothing.

    Attributes:
        pairs: How often a step came directly behind another one, in all machines that came to their end.
        idle: How often a step had nothing to do.
    """

    pairs: ClassVar[Counter[tuple[str, str]]] = Counter()
    idle: ClassVar[Counter[str]] = Counter()

    scene: Scene | None = None

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[str] = []
        self._sound = True

    @initialize(
        on_disk=st.booleans(),
        mode=st.sampled_from(_MODES),
        messages=st.tuples(*[st.tuples(_kinds, _points)] * len(SESSIONS)),
    )
    def open(self, on_disk: bool, mode: ToolExecution, messages: Sequence[tuple[str, str | None]]) -> None:
        """Open the first process, and send a message to each session."""
        self.scene = Scene(RunConfig(tool_execution=mode), on_disk=on_disk)
        for line, (kind, point) in zip(self.scene.lines, messages, strict=True):
            self.scene.say(line, kind, point)
        self.scene.settle()

    @rule(where=_wheres, kind=_kinds, point=_points)
    def run(self, where: int, kind: str, point: str | None) -> None:
        """Send a message."""
        scene, line = self._step("run", where, lambda line: len(line.flights) < _QUEUE)
        if line is not None:
            scene.say(line, kind, point)
        scene.settle()

    @rule(where=_wheres, point=_points)
    def go_on(self, where: int, point: str | None) -> None:
        """Let a run that is held go on."""
        scene, line = self._step("go_on", where, lambda line: line.flights)
        if line is None:
            assert scene.process.runner.active() == []
        else:
            line.flights[0].release(point)
        scene.settle()

    @rule(where=_wheres, which=_some, whole=st.booleans(), yes=st.booleans(), point=_points)
    def answer(self, where: int, which: int, whole: bool, yes: bool, point: str | None) -> None:
        """Answer one call, or all of its run."""
        scene, line = self._step("answer", where, lambda line: line.waiting)
        if line is None:
            scene.answer(scene.lines[where], "none", ["call-none"])
        else:
            invocation, waiting = _nth(list(line.waiting.items()), which)
            scene.answer(line, invocation, waiting if whole else [_nth(waiting, which)], point, yes=yes)
        scene.settle()

    @rule(where=_wheres, which=_some, yes=st.booleans(), point=_points)
    def answer_again(self, where: int, which: int, yes: bool, point: str | None) -> None:
        """Give an answer that was given, perhaps the other way round."""
        scene, line = self._step("answer_again", where, lambda line: line.given)
        if line is None:
            scene.answer(scene.lines[where], "none", ["call-none"])
        else:
            invocation, id = _nth(line.given, which)
            scene.answer(line, invocation, [id], point, yes=yes)
        scene.settle()

    @rule(where=_wheres, how=_some)
    def cancel(self, where: int, how: int) -> None:
        """Cancel what is under way or waits in line; or a run that nobody is at work on."""
        scene, line = self._step("cancel", where, lambda line: line.flights or line.closable)
        if line is None:
            assert scene.process.runner.cancel(**scene.lines[where].key).nothing_running
        elif not line.flights:
            scene.cancel_at_rest(line, how or None)
        elif how == 0:
            scene.cancel_beside(line)
        else:
            scene.cancel(line, line.flights[0 if how % 2 else -1], by_key=how == 1)
        scene.settle()

    @rule(where=_wheres, by_key=st.booleans())
    def stop(self, where: int, by_key: bool) -> None:
        """Stop what is under way."""
        scene, line = self._step("stop", where, lambda line: line.flights)
        if line is None:
            scene.process.runner.stop(**scene.lines[where].key)
        else:
            scene.stop(line, by_key=by_key)
        scene.settle()

    @rule(where=_wheres, which=_some, point=_points)
    def resume(self, where: int, which: int, point: str | None) -> None:
        """Go on with a run by its id, wherever it stands."""
        scene, line = self._step("resume", where, lambda line: line.status)
        invocation = "none" if line is None else _nth(list(line.status), which)
        scene.resume(line or scene.lines[where], invocation, point)
        scene.settle()

    @rule(where=_wheres, attempts=st.sampled_from([1, 3]), how=_some, point=_points)
    def recover(self, where: int, attempts: int, how: int, point: str | None) -> None:
        """Go on with what was left, in one session or in all."""
        scene, line = self._step("recover", where, lambda line: line.left is not None and not line.flights)
        found = scene.left()
        if how == 0:
            scene.recover_all(attempts)
        else:
            scene.recover(found if how < 3 or line is None else [line], point, attempts)
        scene.settle()

    @rule(where=_wheres, commit=st.integers(0, 24), stored=st.booleans(), yes=st.booleans())
    def kill(self, where: int, commit: int, stored: bool, yes: bool) -> None:
        """Kill the process, at rest or at one of the next commits of a session, and begin another one."""
        scene, line = self._step("kill", where, lambda _: True)
        if commit and line is not None:
            scene.move_on(line, commit, stored=stored, yes=yes)
        scene.kill()

    @rule()
    def reopen(self) -> None:
        """Close the process, which releases its runs, and begin another one."""
        scene, _ = self._step("reopen", 0, lambda _: True)
        scene.reopen()

    @rule(point=_points)
    def take_over(self, point: str | None) -> None:
        """Have another process take all runs from this one, which seems to hang, and then goes on."""
        scene, _ = self._step("take_over", 0, lambda line: line.left is not None)
        scene.take_over(point)

    @invariant()
    def all_is_well(self) -> None:
        """See that the contract is kept."""
        if self.scene is not None:
            self.scene.check()
            self._sound = True

    def teardown(self) -> None:
        """Bring all runs to their ends, unless something was wrong."""
        if self.scene is None:
            return
        try:
            if self._sound:
                self.scene.finish()
                self.pairs.update(pairwise(self._steps))
        finally:
            self.scene.leave()

    def _step(self, name: str, where: int, has_work: Callable[[Line], object]) -> tuple[Scene, Line | None]:
        """Note a step; return the session that it is for, `None` if none has anything to do for it."""
        self._sound = False
        self._steps.append(name)
        assert self.scene is not None
        lines = [line for line in self.scene.lines if has_work(line)]
        if not lines:
            self.idle[name] += 1
        return self.scene, _nth(lines, where) if lines else None


def _nth(some: Sequence[T], which: int) -> T:
    return some[which % len(some)]


def table() -> str:
    """Return how often each step came directly behind each other one: a row for the first of the two."""
    rows = [["", *(str(number) for number in range(len(STEPS)))]]
    for number, first in enumerate(STEPS):
        rows.append([f"{number} {first}", *(str(Sessions.pairs[first, second]) for second in STEPS)])
    return "\n".join(row[0].ljust(16) + "".join(cell.rjust(5) for cell in row[1:]) for row in rows)
