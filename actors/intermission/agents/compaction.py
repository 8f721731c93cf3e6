"""Compaction: which events of a session a summary is to stand for, and what is told in their place. Pure."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from intermission.agents.confirmations import asked_call
from intermission.content import Content, Part
from intermission.events import Event, EventActions
from intermission.models.base import Model

__all__ = ["Compacted", "EventsCompactionConfig", "Summarize", "compaction_of", "is_due", "window"]

Summarize: TypeAlias = Callable[[Sequence[Event]], str | Awaitable[str | None] | None]
"""Sums events up, oldest first; plain or async. With `None` or an empty text there is no summary."""

_SUMMARY = "For context, a summary of what was said before:"


@dataclass(frozen=True, slots=True)
class EventsCompactionConfig:
    """When older events are summed up for the models, by a sliding window over the invocations of a session.

    The log keeps all events; what changes is what models are told.

    Attributes:
        interval: After how many new invocations a summary is made.
        overlap: How many invocations before these it takes in once more.
        summarizer: The model that is asked for it, or a function of the events, plain or async; by default
            the root agent's model.

    Raises:
        TypeError: A number is no `int`, or the summarizer neither a model nor a function.
        ValueError: The interval is not above zero, or the overlap negative.
    """

    interval: int
    overlap: int
    summarizer: Model | Summarize | None = None

    def __post_init__(self) -> None:
        for name, least in (("interval", 1), ("overlap", 0)):
            given: object = getattr(self, name)
            if not isinstance(given, int) or isinstance(given, bool):
                raise TypeError(f"{name} must be an int, not {given!r}")
            if given < least:
                raise ValueError(f"{name} is {given}: give {least} or more")
        summarizer: object = self.summarizer
        if summarizer is not None and not hasattr(summarizer, "generate") and not callable(summarizer):
            raise TypeError(f"summarizer must be a Model or a function of events, not {summarizer!r}")


class _Span(NamedTuple):
    """What one summary stands for: the events from one number up to another."""

    start: int
    end: int
    summary: str
    event: Event


# When, and of what.


def is_due(events: Sequence[Event], interval: int, invocation_id: str) -> bool:
    """Return whether there are enough new invocations for a summary.

    Args:
        events: The session's events, oldest first.
        interval: How many are enough.
        invocation_id: An invocation that counts though it may have no event yet.
    """
    new = {invocation_id}
    done = _summed_up(events)
    for event in reversed(events):
        if len(new) >= interval or (event.seq or 0) <= done:
            break
        if event.content is not None:
            new.add(event.invocation_id)
    return len(new) >= interval


def window(events: Sequence[Event], overlap: int) -> list[Event]:
    """Return what is to be summed up: all since the last summary, and some invocations before that."""
    said = [event for event in events if event.content is not None and event.seq is not None]
    done = _summed_up(events)
    first = next((index for index, event in enumerate(said) if (event.seq or 0) > done), len(said))
    new = {event.invocation_id for event in said[first:]}
    before = set[str]()
    for index in range(first - 1, -1, -1):
        invocation = said[index].invocation_id
        if invocation not in new and invocation not in before:
            if len(before) == overlap:
                break
            before.add(invocation)
        if before:  # that a new invocation began long ago is no reason to go back so far
            first = index
    return said[first:]


def compaction_of(events: Sequence[Event], summary: str) -> EventActions:
    """Return the actions of the event that has a summary stand for a window of events.

    What it stands for are numbers, for clocks order nothing; the times are there for ADK's clients.
    """
    return EventActions(
        compaction={
            "startSeq": events[0].seq,
            "endSeq": events[-1].seq,
            "startTimestamp": events[0].timestamp,
            "endTimestamp": events[-1].timestamp,
            "compactedContent": Content.model(summary).to_dict(),
        }
    )


def _summed_up(events: Sequence[Event]) -> int:
    """The number of the last event that a summary stands for."""
    for event in reversed(events):  # each summary ends behind the one before
        span = _span(event)
        if span is not None:
            return span.end
    return 0


# What is told.


@dataclass(slots=True)
class _Turn:
    """The calls of one message, which are told or left out together, with their responses."""

    whole: bool
    """Whether all of it is among what is summed up."""
    waiting: set[str] = field(default_factory=set[str])
    """The ids of those in it that are still to be answered from outside."""

    @property
    def told(self) -> bool:
        return not self.whole or bool(self.waiting)


class Compacted:
    """What a model is told of a session: summaries in the place of the events that they stand for.

    What says nothing is left out. A summary stands where its first event stood; one that a later one takes in
    as a whole is left out. The calls of one message and their responses are told, or summed up, together:
    they are told if only some of them are older than the cut, or a call among them still waits for an answer.

    Args:
        events: The session's events, oldest first.

    Attributes:
        told: What is told, in order.
        settled: Whether summaries stand for nothing that is still to come. None of ours does.
    """

    __slots__ = ("_asked", "_summed_up", "settled", "told")

    def __init__(self, events: Sequence[Event]) -> None:
        spans = _spans(events)
        zones = _Zones(spans)
        turns, self._asked = _turns(events, zones)
        open_turns = {name for name, turn in turns.items() if turn.told}
        self.told: list[Event] = []
        self._summed_up = set[str]()  # the ids of the calls and responses that summaries stand for
        due = 0
        for event in events:
            while due < len(spans) and (event.seq or 0) >= spans[due].start:
                self.told.append(_told(spans[due]))
                due += 1
            if event.content is None:
                continue
            if event.seq not in zones:
                self.told.append(event)
                continue
            ids = _calls_in(event)
            self._summed_up.update(ids)
            if not open_turns.isdisjoint(ids):
                self.told.append(event)
        newest = next((event.seq for event in reversed(events) if event.seq is not None), 0)
        self.settled = due == len(spans) and all(span.end <= newest for span in spans)

    def goes_on_with(self, event: Event) -> bool:
        """Return whether all stays as it is told, if it is settled, and what follows is told behind it.

        It does not with a further summary, nor with what concerns a call that is summed up: that may have to
        be told from now on, or no longer.
        """
        if event.actions.compaction is not None:
            return False
        if _only_says(event) or event.partial:
            return True
        ids = _calls_in(event)
        for call in event.function_calls:
            original = asked_call(call)
            if original is not None:
                ids.append(original.id)
        ids += [self._asked[answer.id] for answer in event.function_responses if answer.id in self._asked]
        return self._summed_up.isdisjoint(ids)


def _span(event: Event) -> _Span | None:
    given = event.actions.compaction
    if given is None:
        return None
    start, end, content = given.get("startSeq"), given.get("endSeq"), given.get("compactedContent")
    if not (isinstance(start, int) and isinstance(end, int) and content):
        return None  # it comes from elsewhere, and says nothing of numbers
    return _Span(start, end, Content.from_dict(content).text, event)


def _spans(events: Sequence[Event]) -> list[_Span]:
    """The summaries that count, in the order of what they stand for."""
    spans: list[_Span] = []
    for event in reversed([one for one in events if one.actions.compaction is not None]):
        span = _span(event)
        if span is not None and not any(one.start <= span.start and span.end <= one.end for one in spans):
            spans.append(span)
    return sorted(spans, key=lambda span: (span.start, span.end))


class _Zones:
    """Which numbers summaries stand for."""

    def __init__(self, spans: Iterable[_Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for span in spans:
            if self._ends and span.start <= self._ends[-1] + 1:
                self._ends[-1] = max(self._ends[-1], span.end)
            else:
                self._starts.append(span.start)
                self._ends.append(span.end)

    def __contains__(self, seq: int | None) -> bool:
        if seq is None:
            return False
        index = bisect_right(self._starts, seq) - 1
        return index >= 0 and seq <= self._ends[index]


def _turns(events: Sequence[Event], zones: _Zones) -> tuple[dict[str, _Turn], dict[str, str]]:
    """The turns by the ids of their calls, and the calls that questions are about, by theirs."""
    turns: dict[str, _Turn] = {}
    asked: dict[str, str] = {}
    for event in events:
        if _only_says(event) or event.partial:
            continue
        calls = event.function_calls
        if calls:
            turn = _Turn(event.seq in zones)
            for call in calls:
                turns[call.id] = turn
                original = asked_call(call)
                if original is not None:
                    asked[call.id] = original.id
                    if original.id in turns:
                        turns[original.id].waiting.add(original.id)
                if call.id in event.long_running_tool_ids:
                    turn.waiting.add(call.id)
        for response in event.function_responses:
            answered = turns.get(response.id)
            if answered is None:
                continue
            answered.waiting.discard(response.id)
            answered.whole = answered.whole and event.seq in zones
            original_id = asked.get(response.id)
            if original_id in turns:
                turns[original_id].waiting.discard(original_id)
    return turns, asked


def _only_says(event: Event) -> bool:
    """Return whether an event is text alone, as most are, or nothing."""
    content = event.content
    return content is None or (len(content.parts) == 1 and content.parts[0].text is not None)


def _calls_in(event: Event) -> list[str]:
    if _only_says(event):
        return []
    ids = [call.id for call in event.function_calls]
    return ids + [response.id for response in event.function_responses]


def _told(span: _Span) -> Event:
    """The event that tells a summary: as what a user says, for no provider lets a model speak first."""
    told: dict[str, Any] = {"content": Content("user", (Part(text=f"{_SUMMARY}\n{span.summary}"),))}
    event = span.event
    return Event(
        id=event.id, invocation_id=event.invocation_id, author="user", timestamp=event.timestamp, **told
    )
