"""`Sessions`: the state machine of hypothesis that takes a `Scene` through steps."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from intermission import RunConfig, ToolExecution
from scene import SESSIONS, Scene
from steps import STEPS, Step, kinds, points, steps

__all__ = ["Sessions", "table"]

_modes = st.sampled_from([ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE])
_messages = st.tuples(*[st.tuples(kinds, points)] * len(SESSIONS))


class Sessions(RuleBasedStateMachine):
    """Several sessions over one log, in one process after another.

    There is one rule, for all steps: of several, hypothesis would leave some out of each example, and pairs
    of steps would be rare.

    Attributes:
        pairs: How often a step came directly behind another one, in all machines that came to their end.
        taken: How often each step was taken.
        idle: How often it had nothing to do.
    """

    pairs: ClassVar[Counter[tuple[str, str]]] = Counter()
    taken: ClassVar[Counter[str]] = Counter()
    idle: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self._scene: Scene | None = None
        self._steps: list[str] = []
        self._sound = False

    @initialize(on_disk=st.booleans(), mode=_modes, messages=_messages)
    def open(self, on_disk: bool, mode: ToolExecution, messages: Sequence[tuple[str, int]]) -> None:
        """Open the first process, and send a message to each session."""
        self._scene = scene = Scene(RunConfig(tool_execution=mode), on_disk=on_disk)
        for line, (kind, point) in zip(scene.lines, messages, strict=True):
            scene.say(line, kind, point)
        scene.settle()

    @rule(step=steps)
    def take(self, step: Step) -> None:
        """Take a step."""
        assert self._scene is not None
        self._sound = False
        name = type(step).__name__
        self._steps.append(name)
        self.taken[name] += 1
        self.idle[name] += not step.take(self._scene)

    @invariant()
    def all_is_well(self) -> None:
        """See that the contract is kept."""
        if self._scene is not None:
            self._scene.check()
            self._sound = True

    def teardown(self) -> None:
        """Bring all runs to their ends, unless something was wrong."""
        if self._scene is None:
            return
        try:
            if self._sound:
                self._scene.finish()
                self.pairs.update(pairwise(self._steps))
        finally:
            self._scene.leave()


def table() -> str:
    """Return how often each step came directly behind each other one: a row for the first of the two.

    The last two columns say how often it was taken, and for how many of these there was something to do.
    """
    names = [step.__name__ for step in STEPS]
    rows = [["", *(str(number) for number in range(len(names))), "taken", "at work"]]
    for number, first in enumerate(names):
        counts = [Sessions.pairs[first, second] for second in names]
        taken = Sessions.taken[first]
        rows.append([f"{number} {first}", *map(str, [*counts, taken, taken - Sessions.idle[first]])])
    return "\n".join(row[0].ljust(16) + "".join(cell.rjust(8) for cell in row[1:]) for row in rows)
