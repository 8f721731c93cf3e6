"""`continuation`: where a new run goes on that answers a call of an older one, without checkpoints. Pure."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from intermission.agents.base import BaseAgent
from intermission.agents.confirmations import asked_call
from intermission.agents.progress import SUB_AGENT, Checkpoint
from intermission.agents.workflows import LoopAgent, ParallelAgent, SequentialAgent
from intermission.events import Event

__all__ = ["Continuation", "continuation"]

_Places: TypeAlias = dict[tuple[str | None, str], Checkpoint]


class Continuation(NamedTuple):
    """Where a run goes on.

    Attributes:
        agent: The agent that it begins with.
        branch: The branch of that.
        places: How far the agents below had come, by branch and name.
        waiting: The ids of the calls that still wait for an answer there.
    """

    agent: BaseAgent
    branch: str | None
    places: _Places
    waiting: frozenset[str]


class _Step(NamedTuple):
    """One agent on the way to the one that called, and what stands for the way in its checkpoint."""

    agent: BaseAgent
    branch: str | None
    saved: Checkpoint


def continuation(
    root: BaseAgent, events: Sequence[Event], answered: Sequence[str], waiting: Collection[str]
) -> Continuation | None:
    """Return where a message goes on that answers calls; `None` if it answers none of an agent of the tree.

    The run begins with the topmost sequence around the agent that called, or with that agent. Each workflow
    on the way goes on with the sub-agent that the call came from. Of agents at the same time those go on
    whose calls wait; the others have ended.

    Args:
        root: The app's root agent.
        events: The session's events before the message.
        answered: The ids of the calls that it answers.
        waiting: Those of all that wait for an answer.
    """
    ways = {id: way for id in (*waiting, *answered) if (way := list(_way(root, events, id)))}
    main = next((ways[id] for id in reversed(answered) if id in ways), None)
    if main is None:
        return None
    sequences = [step for step in main if isinstance(step.agent, SequentialAgent)]
    top = sequences[-1] if sequences else main[0]
    inside = {id: below for id, way in ways.items() if (below := _below(way, top))}
    places: _Places = {}
    for steps in (*inside.values(), _below(main, top)):  # the last one stands
        places |= {(step.branch, step.agent.name): step.saved for step in steps}
    waits = frozenset(
        id
        for id, steps in inside.items()
        if id not in answered and all(places[step.branch, step.agent.name] == step.saved for step in steps)
    )
    for steps in inside.values():
        for agent, branch, _ in steps:
            for one in agent.sub_agents if isinstance(agent, ParallelAgent) else ():
                name = ".".join(filter(None, (branch, agent.name, one.name)))
                places.setdefault((name, one.name), Checkpoint(ended=True))
    return Continuation(top.agent, top.branch, places, waits)


def _below(way: Sequence[_Step], top: _Step) -> Sequence[_Step]:
    """Return a way as far as to an agent; nothing, if it does not come by that."""
    found = [index for index, step in enumerate(way) if step[:2] == top[:2]]
    return way[: found[0] + 1] if found else ()


def _way(root: BaseAgent, events: Sequence[Event], call_id: str) -> Iterator[_Step]:
    """Yield the agents from the one that made a call up to the root, or to where the branches do not fit."""
    for event in reversed(events):
        call = next((call for call in event.function_calls if call.id == call_id), None)
        asked = None if call is None else asked_call(call)
        if asked is not None:
            call_id = asked.id  # calls of one turn have one way, whatever they wait for, and since when
        elif call is not None:
            break
    else:
        return
    agent, branch, below = root.find_agent(event.author), event.branch, ""
    while agent is not None:
        if isinstance(agent, SequentialAgent | LoopAgent) and below:
            yield _Step(agent, branch, Checkpoint({SUB_AGENT: below}))
        elif isinstance(agent, SequentialAgent | LoopAgent | ParallelAgent):
            yield _Step(agent, branch, Checkpoint())
        else:
            yield _Step(agent, branch, Checkpoint(until=event.seq))
        above, below = (None if agent is root else agent.parent), agent.name
        if isinstance(above, ParallelAgent):
            outer, _, names = (branch or "").rpartition(f"{above.name}.{agent.name}")
            if names or (outer and not outer.endswith(".")) or branch is None:
                return
            branch = outer.removesuffix(".") or None
        agent = above
