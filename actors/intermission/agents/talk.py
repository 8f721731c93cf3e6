"""`Talk`: a conversation in the making, to which what is said is added. Pure: no I/O, no clock."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from intermission.agents.outcomes import CallOutcome, outcome_response
from intermission.content import Content, FunctionCall, FunctionResponse, Part, plain_copy
from intermission.events import Event
from intermission.pending import CONFIRMATION

__all__ = ["Talk", "narrate", "role_of", "says_something"]

_CONTEXT = Part(text="For context, what another agent did:")  # a line for each thing follows
_UNWRITTEN = Content("user", ())


class _Late:
    """A message that says what is known of calls, and so may change until all of them are answered.

    Attributes:
        place: Where it stands.
        open: The calls that nothing answers, by the ids that they have here.
        changed: Whether what it says is other than before, whatever is known of those.
    """

    __slots__ = ("_known", "_pending", "changed", "open", "place")

    def __init__(self, place: int, calls: Mapping[str, FunctionCall], pending: Sequence[str]) -> None:
        self.place = place
        self.open = dict(calls)
        self.changed = True
        self._pending = pending
        self._known: list[CallOutcome] = []

    def content(self, outcomes: Mapping[str, CallOutcome] | None) -> Content | None:
        """Return the message; `None` if it says the same as when it was last asked for."""
        if not self.open:
            return self._written({})
        pending = self._pending
        known: list[CallOutcome] = []
        for call in self.open.values():
            default = "pending" if call.id in pending else "unknown" if outcomes is None else "not_started"
            known.append(default if outcomes is None else outcomes.get(call.id, default))
        if not self.changed and all(map(is_, known, self._known)):
            return None
        self.changed = False
        self._known = known
        return self._written(
            {
                shown: FunctionResponse(shown, call.name, outcome_response(outcome))
                for (shown, call), outcome in zip(self.open.items(), known, strict=True)
            }
        )

    def _written(self, missing: Mapping[str, FunctionResponse]) -> Content:
        """Return the message; `missing` is what stands for the responses to the open calls, by their ids."""
        raise NotImplementedError


class _Responses(_Late):
    """The responses to the calls of one message, which stand behind that."""

    __slots__ = ("_answers", "calls")

    def __init__(self, place: int, calls: Mapping[str, FunctionCall], pending: Sequence[str]) -> None:
        super().__init__(place, calls, pending)
        self.calls = calls  # as they stand in the log, by the ids that they have here
        self._answers: dict[str, FunctionResponse] = {}

    def answer(self, shown: str, response: FunctionResponse) -> None:
        """Take a response over, in the place of what stood there before."""
        name = self.calls[shown].name
        if response.id != shown or response.name != name:
            response = FunctionResponse(shown, name, response.response)
        self._answers[shown] = response
        self.open.pop(shown, None)
        self.changed = True

    def _written(self, missing: Mapping[str, FunctionResponse]) -> Content:
        answers = self._answers
        return Content(
            "user",
            tuple([Part(function_response=answers.get(shown) or missing[shown]) for shown in self.calls]),
        )


class _Report(_Late):
    """What another agent did."""

    __slots__ = ("_author", "_parts")

    def __init__(
        self, place: int, calls: Mapping[str, FunctionCall], event: Event, parts: Sequence[Part]
    ) -> None:
        super().__init__(place, calls, event.long_running_tool_ids)
        self._author = event.author
        self._parts = parts

    def answered(self, call_id: str) -> None:
        """One of its calls has been answered, which is told elsewhere."""
        del self.open[call_id]
        self.changed = True

    def _written(self, missing: Mapping[str, FunctionResponse]) -> Content:
        notes = [narrate(self._author, Part(function_response=response)) for response in missing.values()]
        return Content("user", (*self._parts, *[Part(text=f"\n{note}") for note in notes]))


class Talk:
    """A conversation in the making.

    Attributes:
        said: Its messages.
    """

    __slots__ = ("_answered", "_asked", "_late", "_open", "_told", "said")

    def __init__(self) -> None:
        self.said: list[Content] = []
        self._late: dict[int, _Late] = {}  # the messages among them that are still to be written, by place
        self._asked: dict[str, tuple[_Responses, str]] = {}  # by the id in the log, with the one shown
        self._answered: tuple[_Responses, int, int] | None = None  # last; the messages before and after that
        self._told: dict[str, str] = {}  # calls of others, and whose they are
        self._open: dict[str, _Report] = {}  # those that nothing answers, and where they are told

    def add(self, event: Event, content: Content, *, calls: bool) -> None:
        """Add what the user or the agent said; only an agent's message may hold calls."""
        spoken: list[Part] = []
        asked: dict[str, FunctionCall] = {}
        ids: list[str] = []
        answered: _Responses | None = None
        before = len(self.said)
        for index, part in enumerate(content.parts):
            call, response = part.function_call, part.function_response
            if _is_question(call, response):
                continue
            if response is not None:
                found = self._asked.get(response.id)
                if found is not None and response.id:
                    answered, shown = found
                    answered.answer(shown, response)
                    self._late[answered.place] = answered
                elif response.id in self._told:
                    self._answer_of_others(response.id)
                    spoken.append(Part(text=f"{narrate(self._told[response.id], part)}\n"))
            elif call is not None:
                shown = call.id
                if not calls or (shown and shown in ids):
                    continue
                ids.append(shown)
                if not shown or shown in self._asked:
                    shown = f"{event.id}-{index}"
                    part = replace(part, function_call=FunctionCall(shown, call.name, call.args))
                asked[shown] = call
                spoken.append(part)
            elif part.thought_signature is not None or (
                (part.text or part.inline_data is not None) and not part.thought
            ):
                spoken.append(part)
        if asked:
            responses = _Responses(before + 1, asked, event.long_running_tool_ids)
            for shown, call in asked.items():
                self._asked[call.id] = responses, shown
            self._late[before + 1] = responses
            self.said += (Content("model", tuple(spoken)), _UNWRITTEN)
        elif any(map(says_something, spoken)):
            self.said.append(Content(role_of(event.author, content), tuple(spoken)))
        if answered is not None:
            self._answered = answered, before, len(self.said)

    def add_others(self, event: Event, parts: Sequence[Part]) -> None:
        """Add what another agent did, as text of the user's."""
        author, told = event.author, [_CONTEXT]
        opened: dict[str, FunctionCall] = {}
        for part in parts:
            if part.thought:
                continue
            call, response = part.function_call, part.function_response
            if _is_question(call, response):
                continue
            if call is not None:
                self._told[call.id] = author
                self._answer_of_others(call.id)  # one of that id can no longer be
                opened[call.id] = call
            elif response is not None and opened.pop(response.id, None) is None:
                self._answer_of_others(response.id)
            if part.inline_data is not None:
                told.append(part)
            elif text := narrate(author, part):
                told.append(Part(text=f"\n{text}"))
        if opened:
            place = len(self.said)
            report = self._late[place] = _Report(place, opened, event, told)
            self._open.update(dict.fromkeys(opened, report))
            self.said.append(_UNWRITTEN)
        elif len(told) > 1:
            self.said.append(Content("user", tuple(told)))

    def _answer_of_others(self, call_id: str) -> None:
        report = self._open.pop(call_id, None)
        if report is not None:
            report.answered(call_id)

    def contents(self, outcomes: Mapping[str, CallOutcome] | None) -> tuple[Content, ...]:
        """Return the messages, each with calls followed by the responses."""
        said = self.said
        if self._late:
            for place, late in list(self._late.items()):
                content = late.content(outcomes)
                if content is not None:
                    said[place] = content
                if not late.open:
                    del self._late[place]
        if self._answered is not None:
            responses, before, after = self._answered
            if after == len(said) and before > responses.place + 1:  # nothing was said since
                return (*said[: responses.place + 1], *said[before:])
        return tuple(said)


def _is_question(call: FunctionCall | None, response: FunctionResponse | None) -> bool:
    """Return whether a person is asked, or answers, whether a call may be made: that is not the model's."""
    one = call or response
    return one is not None and one.name == CONFIRMATION


def says_something(part: Part) -> bool:
    """Return whether a part is more than space, and than what the model keeps for itself."""
    if part.thought:
        return False
    return part.inline_data is not None or bool(part.text and not part.text.isspace())


def role_of(author: str, content: Content) -> str:
    """Return who says a text; agents of one's own and users may have given any role."""
    return "user" if author == "user" or content.role == "user" else "model"


def narrate(author: str, part: Part) -> str:
    """Return what a part says, as a sentence about its author; `""` for what is neither text nor a call."""
    if part.function_call is not None:
        return f"{author} called {part.function_call.name} with {_json(part.function_call.args)}"
    if part.function_response is not None:
        answer = part.function_response
        return f"{answer.name} answered {author} with {_json(answer.response)}"
    return f"{author} said: {part.text}" if part.text else ""


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(plain_copy(value), ensure_ascii=False, default=str)
