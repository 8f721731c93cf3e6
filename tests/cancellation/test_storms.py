"""Very many cancels at once, beside sessions that go on."""

import threading
from functools import partial

from apps import Key, app_with, records
from intermission import Runner, RunStatus, ToolContext
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from races import at_once
from scale import rounds

STORM = rounds(200, 1000)
OTHERS, CANCELLERS = 20, 8


def key(number: int) -> Key:
    """A session."""
    return {"user_id": "u", "session_id": str(number)}


def test_a_storm_of_cancels_leaves_nothing_and_keeps_no_other_session_from_going_on() -> None:
    begun, answers, storm_is_over = Gate(), list[str](), threading.Event()
    begun.open()

    async def awaits(tool_context: ToolContext) -> None:
        begun.wait()
        await tool_context.cancellation.asleep(3600)

    def sleeps(tool_context: ToolContext) -> None:
        begun.wait()
        tool_context.cancellation.sleep(3600)

    waits = [calls(("awaits", {})), calls(("sleeps", {}))]
    model, log = ScriptedModel(*waits * (STORM // 2), default="ok"), MemoryEventLog()
    with Runner(app_with(model, awaits, sleeps), log=log) as runner:
        runs = [runner.run(**key(number), message="hi").start() for number in range(STORM)]
        begun.arrived(STORM)

        def goes_on(number: int) -> None:
            while True:
                last = storm_is_over.is_set()  # looked at first: one run more begins after the storm
                answers.append(runner.run(**key(STORM + number), message="hi").answer(PATIENCE))
                if last:
                    return

        def cancel(number: int) -> None:
            for run in runs[number::CANCELLERS]:
                assert run.cancel("a storm").accepted
            for run in runs[number::CANCELLERS]:
                assert run.wait_terminated(PATIENCE)

        def storm() -> None:
            at_once(*[partial(cancel, number) for number in range(CANCELLERS)])
            storm_is_over.set()

        at_once(storm, *[partial(goes_on, number) for number in range(OTHERS)])
        assert {run.result(PATIENCE).status for run in runs} == {RunStatus.CANCELLED}
        assert set(answers) == {"ok"}
        assert runner.residual() == []
    for number in range(STORM):
        ends: list[str] = [one.kind for one in records(log, **key(number))]
        assert (ends.count("cancel_requested"), ends.count("run_ended")) == (1, 1)
