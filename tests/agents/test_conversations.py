"""The conversations that a run keeps are those that are made anew, whatever comes, at whatever moment."""

import random
from collections import Counter
from typing import Any

from intermission import Content, Event, FunctionCall, FunctionResponse, Part
from intermission.agents.compaction import compaction_of
from intermission.agents.confirmations import question
from intermission.agents.contents import Conversations, conversation
from intermission.content import Blob
from intermission.events import EventActions
from intermission.pending import CONFIRMATION, PendingKind
from intermission.runs.ahead import Ahead, EventsAhead, Preview
from play import answering, calling, said
from scale import rounds

ROUNDS = rounds(100, 10_000)
LENGTH = 30
AGENTS = ("a", "b")
BRANCHES = (None, None, "p", "p.a", "p.ab")
IDS = ("1", "2", "3", "")
OUTCOMES: tuple[Any, ...] = (
    "unknown",
    "stopped",
    "not_started",
    "finished",
    "asked",
    {"seen": 1},
    {"seen": 2},
)
KINDS = ("text", "nothing", "parts", "calls", "answers", "question", "decision", "summary", "checkpoint")


class Session:
    """A session in which anything happens, and the conversations that a run keeps of it.

    Attributes:
        met: How often there was what.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._stored: list[Event] = []
        self._events = EventsAhead(self._stored)
        self._kept = Conversations(self._events)
        self._outcomes: dict[str, Any] = {}
        self._called: dict[str, FunctionCall] = {}
        self._questions: list[str] = []
        self.met: Counter[str] = Counter()

    def step(self) -> None:
        """Something happens, and models may be asked before and behind it."""
        event = self._event()
        if self._chance.random() < 0.2:
            self._ask_ahead(event)
        self._store(event)
        if self._chance.random() < 0.3:
            self._outcomes[self._chance.choice(IDS)] = self._chance.choice(OUTCOMES)
        if self._chance.random() < 0.7:
            self._ask("stored")

    def _store(self, event: Event) -> None:
        self._stored.append(event.stored_as(len(self._stored) + 1))

    def _ask_ahead(self, event: Event) -> None:
        """A model is asked while the event is being stored, which may come behind another one."""
        with Ahead(Preview(self._stored, event), {}, lambda: None).seen():
            self._ask("on its way")
        if self._chance.random() < 0.4:
            self.met["overtaken"] += 1
            self._store(self._event())

    def _ask(self, when: str) -> None:
        outcomes = self._chance.choice([None, self._outcomes])
        for agent in AGENTS:
            branch, current_turn = self._chance.choice(BRANCHES), self._chance.random() < 0.3
            given: Any = {"outcomes": outcomes, "current_turn": current_turn}
            contents = self._kept.contents(self._events, agent, branch, **given)
            assert contents == conversation(tuple(self._events), agent, branch, **given)
            self.met[when] += 1

    def _event(self) -> Event:
        kind = self._chance.choice(KINDS)
        self.met[kind] += 1
        author = self._chance.choice(["user", "a", "a", "b"])
        fields = {"branch": self._chance.choice(BRANCHES), "invocation_id": self._chance.choice("ef")}
        match kind:
            case "text":
                return said("hi", author, **fields)
            case "nothing":
                return said(self._chance.choice(["", " \n"]), author, **fields)
            case "parts":
                return said(Content(self._chance.choice(["user", "model"]), self._parts()), author, **fields)
            case "calls":
                return self._calls(author, fields)
            case "answers":
                return self._answers(author, fields)
            case "question":
                return self._question(author, fields)
            case "decision" if self._questions:
                told = FunctionResponse(
                    self._chance.choice(self._questions), CONFIRMATION, {"confirmed": True}
                )
                return said(Content("user", (Part(function_response=told),)), "user", **fields)
            case "summary" if self._stored:
                return said(None, "user", actions=self._summary())
            case _:
                return said(None, author, actions=EventActions(end_of_agent=True), **fields)

    def _ids(self) -> list[str]:
        return self._chance.sample(IDS, self._chance.choice([1, 1, 2, 3]))

    def _parts(self) -> tuple[Part, ...]:
        call = FunctionCall(self._chance.choice(IDS), "look", {"at": "home"})
        self._called[call.id] = call
        some = [
            Part(text="hm", thought=True),
            Part(text="well"),
            Part(text="hm", thought=True, thought_signature=b"s"),
            Part(text=""),
            Part(inline_data=Blob("image/png", b"")),
            Part(function_call=call),
            Part(function_response=FunctionResponse(self._chance.choice(IDS), "other", {"seen": "it"})),
        ]
        return tuple(self._chance.sample(some, self._chance.randrange(4)))

    def _calls(self, author: str, fields: dict[str, Any]) -> Event:
        waiting = tuple(self._chance.sample(IDS, self._chance.choice([0, 0, 1])))
        event = calling(*self._ids(), author=author, long_running_tool_ids=waiting, **fields)
        self.met["waits"] += not set(waiting).isdisjoint(call.id for call in event.function_calls)
        for call in event.function_calls:
            self.met["called again"] += call.id in self._called
            self._called[call.id] = call
        return event

    def _answers(self, author: str, fields: dict[str, Any]) -> Event:
        event = answering(*self._ids(), author=author, said_back=self._chance.choice("xyz"), **fields)
        before = self._stored[-1].function_calls if self._stored else ()
        for answer in event.function_responses:
            self.met["late"] += answer.id in self._called and answer.id not in {one.id for one in before}
            self._outcomes.pop(answer.id, None)
        return event

    def _question(self, author: str, fields: dict[str, Any]) -> Event:
        if not self._called:
            return said("hi", author, **fields)
        call = self._called[self._chance.choice(list(self._called))]
        kind = self._chance.choice(list(PendingKind))
        content = question([(call, {}, kind)])
        ids = tuple(one.id for one in content.function_calls)
        self._questions += ids
        return said(content, author, long_running_tool_ids=ids, **fields)

    def _summary(self) -> EventActions:
        if self._chance.random() < 0.2:
            self.met["foreign summary"] += 1
            return EventActions(compaction={"startTimestamp": 0.0})
        last = len(self._stored) + self._chance.choice([0, 0, 0, 4])
        self.met["summary of what is to come"] += last > len(self._stored)
        start = self._chance.randint(1, last)
        window = [said("", seq=start), said("", seq=self._chance.randint(start, last))]
        return compaction_of(window, "sum")


def test_a_conversation_that_is_kept_is_the_one_that_is_made_anew_whatever_happens_meanwhile() -> None:
    met: Counter[str] = Counter()
    for seed in range(ROUNDS):
        session = Session(random.Random(seed))
        try:
            for _ in range(LENGTH):
                session.step()
        except AssertionError as error:
            error.add_note(f"in the session of seed {seed}")
            raise
        met += session.met

    also = ("stored", "on its way", "overtaken", "waits", "called again", "late", "foreign summary")
    assert {one for one in (*KINDS, *also, "summary of what is to come") if met[one] < ROUNDS / 10} == set()


def test_a_call_that_is_summed_up_is_no_longer_told_when_the_question_about_it_is_answered() -> None:
    call = FunctionCall("1", "look", {})
    asks = said(question([(call, {}, PendingKind.CONFIRMATION)]))
    (asked,) = asks.function_calls
    window = [said("", seq=1), said("", seq=2)]
    summary = said(None, "user", actions=compaction_of(window, "sum"))
    before = [said("hi", "user"), calling("1"), asks, summary]
    events = [event.stored_as(seq) for seq, event in enumerate(before, 1)]
    kept = Conversations(events)
    assert any(one.function_calls for one in kept.contents(events, "a"))

    decision = Part(function_response=FunctionResponse(asked.id, CONFIRMATION, {"confirmed": False}))
    events.append(said(Content("user", (decision,)), "user", seq=5))

    assert not any(one.function_calls for one in kept.contents(events, "a"))
