"""`Ledger`: what a session's records say of its runs and their calls, in the simplest way to read them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from intermission import Event, RunStatus
from intermission.agents.confirmations import asked_call
from intermission.pending import CONFIRMATION, confirmation_in
from intermission.sessions.records import event_of
from intermission_storage import Kind, Record

__all__ = ["Entry", "Ledger"]


@dataclass
class Entry:
    """What the log says of one run.

    Attributes:
        kind: What its message said.
        status: Its last end; `None` if it has none since it was begun last.
        begins: How often it was begun.
        tools: The tool of each call that was made, by its id.
        open: The calls that have begun and not ended.
        again: How often each call may have been made once more: it was open when the run was begun again.
        asked: The ids that answers may name, each with the call and the tool that it is about.
        answered: Those of them that have an answer.
        refused: The calls that must not be made.
        responses: The calls with a response.
    """

    kind: str = ""
    status: RunStatus | None = None
    begins: int = 0
    tools: dict[str, str] = field(default_factory=dict[str, str])
    open: set[str] = field(default_factory=set[str])
    again: Counter[str] = field(default_factory=Counter[str])
    asked: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    answered: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])
    responses: set[str] = field(default_factory=set[str])

    @property
    def waiting(self) -> list[str]:
        """The ids that wait for an answer, if the run is not over."""
        return [id for id in self.asked if id not in self.answered]


class Ledger:
    """The records of one session.

    Attributes:
        runs: Its runs, by their ids, oldest first.
        left: The runs that have no end, or were released, and behind which no new one has begun.
        events: Ids of its events, in their order.
        position: The number of its last record.
    """

    def __init__(self) -> None:
        self.runs: dict[str, Entry] = {}
        self.left: dict[str, None] = {}
        self.current: str | None = None
        self.events: list[str] = []
        self.position = 0

    def fold(self, records: Iterable[Record]) -> None:
        """Take further records in, asserting that no run writes while another one is under way."""
        for record in records:
            self.position += 1
            assert record.seq == self.position
            invocation = record.data.get("invocationId")
            if invocation is None:
                assert record.kind == Kind.SESSION_CREATED
                continue
            if record.kind == Kind.RUN_STARTED:
                self._begin(invocation)
            entry = self.runs[invocation]
            if record.kind == Kind.RUN_ENDED:
                entry.status = RunStatus(record.data["status"])
                self._over(invocation)
                if entry.status is not RunStatus.INTERRUPTED:
                    self.left.pop(invocation, None)
            elif record.kind == Kind.CANCEL_REQUESTED:
                self._over(invocation)  # it may have been before: a pause that is closed
            elif record.kind != Kind.RUN_END_DELIVERED:
                assert invocation == self.current, f"a record of {invocation} in {self.current}: {record}"
                self._write(entry, record)

    def _over(self, invocation: str) -> None:
        # Another one may be under way beside it.
        if self.current == invocation:
            self.current = None

    def _begin(self, invocation: str) -> None:
        if invocation not in self.runs:
            self.left.clear()
        self.left[invocation] = None
        entry = self.runs.setdefault(invocation, Entry())
        entry.status = None
        entry.begins += 1
        entry.again.update(entry.open)
        entry.open.clear()
        self.current = invocation

    def _write(self, entry: Entry, record: Record) -> None:
        data = record.data
        match record.kind:
            case Kind.CALL_STARTED:
                entry.open.add(data["callId"])
            case Kind.CALL_FINISHED:
                entry.open.discard(data["callId"])
                if data["outcome"] == "pending":
                    entry.asked[data["callId"]] = data["callId"], "survey"
            case Kind.ANSWER:
                assert data["callId"] not in entry.answered, "an answer is used twice"
                entry.answered.add(data["callId"])
            case Kind.EVENT:
                self._event(entry, event_of(record))
            case _:
                pass

    def _event(self, entry: Entry, event: Event) -> None:
        self.events.append(event.id)
        if event.author == "user" and event.text:
            entry.kind = event.text
        for call in event.function_calls:
            original = asked_call(call)
            if original is not None:
                entry.asked[call.id] = original.id, original.name
            else:
                assert call.id not in entry.tools, f"call {call.id} is made twice"
                entry.tools[call.id] = call.name
        for response in event.function_responses:
            if response.name == CONFIRMATION:
                if not confirmation_in(response.response).confirmed:
                    entry.refused.add(entry.asked[response.id][0])
                continue
            assert response.id not in entry.responses, (
                f"call {response.id} of {response.name} has two responses"
            )
            entry.responses.add(response.id)
            entry.open.discard(response.id)
