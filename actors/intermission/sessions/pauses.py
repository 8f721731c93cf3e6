"""`Pauses`: which calls of a session wait for an answer from outside. Pure: events and records in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from intermission.agents.confirmations import asked_call, kind_of
from intermission.content import FunctionCall
from intermission.events import Event, is_within
from intermission.pending import PendingCall, PendingKind
from intermission.runs.messages import Item
from intermission.sessions.view import SessionView
from intermission_storage import Kind

__all__ = ["Pauses", "pauses_in"]


class Pauses:
    """Which calls wait for an answer.

    Attributes:
        calls: Those that do, by the ids that answers name, oldest first.
        abandoned: The ids of those that did when the agents around them ended, for another one escalated.
    """

    __slots__ = ("_may_wait", "abandoned", "calls")

    def __init__(self) -> None:
        self.calls: dict[str, PendingCall] = {}
        self.abandoned: set[str] = set()
        self._may_wait: dict[str, PendingCall] = {}

    def only(self, wanted: Callable[[PendingCall], bool]) -> "Pauses":
        """Return which of some calls wait, and may come to."""
        some = Pauses()
        some.calls = {id: call for id, call in self.calls.items() if wanted(call)}
        some._may_wait = {id: call for id, call in self._may_wait.items() if wanted(call)}
        return some

    def take_in(self, items: Iterable[Item]) -> None:
        """Take in what is stored, in its order. What was taken in before changes nothing."""
        for item in items:
            if isinstance(item, Event):
                self.see(item)
            elif item.kind == Kind.CALL_FINISHED and item.data["outcome"] == "pending":
                self.wait(item.data["callId"])

    def see(self, event: Event) -> None:
        """Take in an event."""
        if event.long_running_tool_ids:
            for place, call in enumerate(event.function_calls):
                if call.id not in event.long_running_tool_ids:
                    continue
                original = asked_call(call)
                if original is None:
                    self._may_wait[call.id] = _long_running(event, call, place)
                else:
                    self.calls[call.id] = _confirmation(event, call, original, place)
        # Where apps pause without checkpoints, the tool may have said something, and the call waits still.
        for response in event.function_responses if event.author == "user" else ():
            self.calls.pop(response.id, None)
            self._may_wait.pop(response.id, None)
        if event.actions.end_of_agent and (self.calls or self._may_wait):
            self._abandon(event)

    def _abandon(self, end: Event) -> None:
        """An agent has ended, and with it the branches that it had forked: nobody would take an answer."""
        forked = ".".join(filter(None, (end.branch, end.author)))
        for calls in (self.calls, self._may_wait):
            for call in list(calls.values()):
                if call.invocation_id == end.invocation_id and is_within(call.branch, forked):
                    del calls[call.id]
                    self.abandoned |= {call.id, call.function_call_id}

    def wait(self, call_id: str) -> None:
        """A long-running call was begun, and has no response of its own."""
        call = self._may_wait.pop(call_id, None)
        if call is not None:
            self.calls[call_id] = call


def pauses_in(view: SessionView) -> Pauses:
    """Return which calls of a session wait for an answer, those of runs that are over included."""
    pauses = Pauses()
    for event in view.events:
        pauses.see(event)
    for call_id, outcome in view.outcomes.items():
        if outcome == "pending":
            pauses.wait(call_id)
    return pauses


def _long_running(event: Event, call: FunctionCall, place: int) -> PendingCall:
    return PendingCall(
        id=call.id,
        function_call_id=call.id,
        tool=call.name,
        arguments=call.args,
        kind=PendingKind.LONG_RUNNING,
        invocation_id=event.invocation_id,
        agent=event.author,
        branch=event.branch,
        since=event.timestamp,
        place=place,
    )


def _confirmation(event: Event, call: FunctionCall, original: FunctionCall, place: int) -> PendingCall:
    asked: Mapping[str, Any] = call.args.get("toolConfirmation") or {}
    return PendingCall(
        id=call.id,
        function_call_id=original.id,
        tool=original.name,
        arguments=original.args,
        kind=kind_of(call),
        hint=asked.get("hint") or "",
        payload=asked.get("payload"),
        invocation_id=event.invocation_id,
        agent=event.author,
        branch=event.branch,
        since=event.timestamp,
        place=place,
    )
