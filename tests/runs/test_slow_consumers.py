"""What becomes of a run whose consumer takes nothing while it goes on, and of what that consumer gets."""

import asyncio
from collections.abc import Callable

import pytest

from apps import KEY, app_of, app_with
from intermission import AgentContext, BaseAgent, Content, Event, Run, RunConfig, Runner
from intermission.agents.effects import Steps
from intermission.runs.stream import GAP, LIMIT
from intermission.testing import ScriptedModel, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

STREAMING = RunConfig(streaming=True)


def iterated(run: Run) -> list[Event]:
    """The events of a run, on this thread."""
    return list(run)


def iterated_on_a_loop(run: Run) -> list[Event]:
    """The events of a run, on an event loop."""

    async def collect() -> list[Event]:
        return [event async for event in run]

    return asyncio.run(collect())


BOTH = pytest.mark.parametrize("take", [iterated, iterated_on_a_loop])


def waiting(run: Run) -> int:
    """How many events wait for the run's consumer."""
    return len(run._lifecycle.stream._items)  # pyright: ignore[reportPrivateUsage]  # memory is no API


@BOTH
def test_beyond_the_bound_partials_give_way_to_one_mark_and_the_joined_text_is_whole(
    take: Callable[[Run], list[Event]],
) -> None:
    pieces = [f"{number} " for number in range(3 * LIMIT)]
    with Runner(app_with(ScriptedModel(text(*pieces))), log=MemoryEventLog(), config=STREAMING) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert run.answer(PATIENCE) == "".join(pieces)
        assert waiting(run) <= LIMIT + 1
        events = take(run)
    assert "".join(event.delta for event in events) == "".join(pieces)
    marks = [number for number, event in enumerate(events) if event.error_code == GAP]
    assert marks == [LIMIT]
    assert [event.text for event in events if not event.partial] == ["".join(pieces)]


class Chatty(BaseAgent):
    """Says more than can wait for a consumer, each time with a partial before it."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for number in range(LIMIT + 200):
            yield context.event(self.name, content=Content.model("a"), partial=True)
            yield context.event(self.name, content=Content.model(f"a{number}"))


@BOTH
def test_every_stored_event_comes_once_and_in_order_however_late_it_is_taken(
    take: Callable[[Run], list[Event]],
) -> None:
    with Runner(app_of(Chatty("chatty")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        result = run.result(PATIENCE)
        assert waiting(run) <= LIMIT + 1
        events = take(run)
        stored = [event for event in events if not event.partial]
        assert stored == result.events[1:]
    assert [event.text for event in stored] == [f"a{number}" for number in range(LIMIT + 200)]
    assert [event.seq for event in stored] == sorted({event.seq or 0 for event in stored})
    assert any(event.error_code == GAP for event in events)
