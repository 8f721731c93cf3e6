"""Events → the conversation that a model is asked about. Pure: no I/O, no clock.

The log is never changed, and may hold anything: calls whose run was cancelled, answers that came late, what
other agents have said. The conversation is always one that a client of any provider can make a legal
request of: each message with calls is followed by one message with exactly their responses, in the order of
the calls, and there are no other responses; ids of calls differ; nothing is empty. `asking` makes it begin
and end with the user. Two messages of one role may follow each other: who must not send that joins them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from intermission.agents.compaction import Compacted
from intermission.agents.outcomes import CallOutcome
from intermission.agents.talk import Talk, role_of, says_something
from intermission.content import Content, Part
from intermission.events import Event, is_within

__all__ = ["Conversation", "Conversations", "asking", "conversation"]

_MOST = 32  # conversations that a run keeps; of more agents at the same time the next ones are made anew

_BEFORE = Content.user("For context, what you said before:")
_GO_ON = Content.user("Go on as instructed. If nothing is left to do, say so in short.")


def asking(contents: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return a conversation that begins and ends with the user, as most providers demand.

    It does not where a model is asked again after it has spoken last, as in a loop, or where what the user
    said was empty. Then the user says so.
    """
    if not contents:
        return (_GO_ON,)
    before = (_BEFORE,) if contents[0].role == "model" else ()
    behind = (_GO_ON,) if contents[-1].role == "model" else ()
    return before + contents + behind if before or behind else contents


def conversation(
    events: Sequence[Event],
    agent: str,
    branch: str | None = None,
    *,
    outcomes: Mapping[str, CallOutcome] | None = None,
    current_turn: bool = False,
) -> tuple[Content, ...]:
    """Return what was said, oldest first, as an agent's model is to see it.

    Left out are thoughts, what is empty or only white space, responses without their call, and what is on
    other branches. What another agent did is told as text of the user's. A response stands behind its call,
    however late it came; of several to one call the last counts. If the newest event answers an earlier call,
    what was said between the two is left out: the model goes on where it called. A call without a response is
    answered with what is known of it. A call with the id of an earlier one, which none has that the runtime
    gave, is given another. Summaries stand in the place of what they stand for.

    Args:
        events: The session's events, oldest first.
        agent: The agent's name.
        branch: Its branch.
        outcomes: What the log knows of calls that no event answers, by their ids; a call that is not among
            them never began. `None` if nothing is known of any.
        current_turn: Begin with the newest message of the user or of another agent.
    """
    return Conversation(agent, branch, current_turn=current_turn).contents(events, outcomes)


class Conversation:
    """What one agent's model is shown, kept from one request to the next: each takes in what is new alone.

    Args:
        agent: The agent's name.
        branch: Its branch.
        current_turn: Begin with the newest message of the user or of another agent.
    """

    __slots__ = ("_agent", "_branch", "_compacted", "_current_turn", "_last", "_taken", "_talk")

    def __init__(self, agent: str, branch: str | None = None, *, current_turn: bool = False) -> None:
        self._agent = agent
        self._branch = branch
        self._current_turn = current_turn
        self._begin()

    def _begin(self) -> None:
        self._talk = Talk()
        self._taken = 0
        self._last = ""  # the id of the event that was taken in last
        self._compacted: Compacted | None = None

    def contents(
        self, events: Sequence[Event], outcomes: Mapping[str, CallOutcome] | None = None
    ) -> tuple[Content, ...]:
        """Return `conversation(events, …)`.

        Args:
            events: Those of the last time, and what has come since. Where others have taken their places, it
                is made anew, which is noticed by the last of them.
            outcomes: See `conversation`.
        """
        count, taken, compacted = len(events), self._taken, self._compacted
        # One that models were asked about while it was being stored may have come behind another one.
        moved = taken and (count < taken or events[taken - 1].id != self._last)
        if moved or (compacted is not None and not compacted.settled):
            self._begin()
        if self._taken < count:
            self._take(events[:count] if self._taken == 0 else events[self._taken : count], events)
            self._taken, self._last = count, events[count - 1].id
        return self._talk.contents(outcomes)

    def _take(self, new: Sequence[Event], events: Sequence[Event]) -> None:
        """Take in events that are new; `events` are all up to them, and may be more by now."""
        if self._current_turn:
            self._add(new[self._newest_message(new) :])
            return
        if self._compacted is None:
            if self._add(new):
                return
        elif all(self._compacted.goes_on_with(event) for event in new):
            self._add(new)
            return
        self._compacted = Compacted(events[: self._taken + len(new)])
        self._talk = Talk()
        self._add(self._compacted.told)

    def _newest_message(self, events: Sequence[Event]) -> int:
        """Begin the turn anew that the newest message among events begins, if any does; return its place."""
        for index in range(len(events) - 1, -1, -1):
            event = events[index]
            if event.author == self._agent or event.partial or event.content is None:
                continue
            if self._is_elsewhere(event):
                continue
            if any(_begins_turn(part, event.author) for part in event.content.parts):
                self._talk = Talk()
                return index
        return 0

    def _is_elsewhere(self, event: Event) -> bool:
        branch = self._branch
        return branch is not None and event.branch is not None and not is_within(branch, event.branch)

    def _add(self, events: Iterable[Event]) -> bool:
        """Add what events say; stop and return `False` where one of them sums others up."""
        agent, branch, talk = self._agent, self._branch, self._talk
        said = talk.said
        for event in events:
            content = event.content
            if content is None:
                if event.actions.compaction is not None and not self._current_turn:
                    return False
                continue
            if event.partial or (branch is not None and self._is_elsewhere(event)):
                continue
            author, parts = event.author, content.parts
            if author != agent and author != "user":
                talk.add_others(event, parts)
            elif len(parts) == 1 and (text := parts[0].text) is not None and not parts[0].thought:
                role = content.role
                if text and not text.isspace():
                    if role == "user" or (role == "model" and author == agent):
                        said.append(content)  # nearly all events are this one
                    else:
                        said.append(Content(role_of(author, content), parts))
            else:
                talk.add(event, content, calls=author == agent)
        return True


class Conversations:
    """The conversations of one run, kept for the next requests.

    Args:
        events: The session's events, which grow as they are stored. Where other ones are given, nothing is
            kept.
    """

    __slots__ = ("_events", "_kept")

    def __init__(self, events: Sequence[Event] | None = None) -> None:
        self._events = events
        self._kept: OrderedDict[tuple[str, str | None, bool], Conversation] = OrderedDict()

    def contents(
        self,
        events: Sequence[Event],
        agent: str,
        branch: str | None = None,
        *,
        outcomes: Mapping[str, CallOutcome] | None = None,
        current_turn: bool = False,
    ) -> tuple[Content, ...]:
        """Return `conversation(…)` of the same arguments."""
        if events is not self._events:
            return conversation(events, agent, branch, outcomes=outcomes, current_turn=current_turn)
        key = (agent, branch, current_turn)
        # Taken out meanwhile, for nothing keeps two strands from having an agent and a branch in common.
        kept = self._kept.pop(key, None) or Conversation(agent, branch, current_turn=current_turn)
        contents = kept.contents(events, outcomes)
        self._kept[key] = kept
        if len(self._kept) > _MOST:
            with suppress(KeyError):
                self._kept.popitem(last=False)
        return contents


def _begins_turn(part: Part, author: str) -> bool:
    if part.thought:
        return False
    if says_something(part):
        return True
    # A user who only answers a call goes on with the turn of the call.
    return author != "user" and (part.function_call is not None or part.function_response is not None)
