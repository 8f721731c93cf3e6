"""Events → the conversation that a model is asked about. Pure: no I/O, no clock.

The log is never changed, and may hold anything: calls whose run was cancelled, answers that came late, what
other agents have said. The conversation is always one that providers take: each message with calls is
followed by one message with exactly their responses, and there are no others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from intermission.content import Content, FunctionCall, FunctionResponse, Part, plain_copy
from intermission.events import Event, is_within

__all__ = ["CallOutcome", "conversation", "outcome_response"]

CallOutcome: TypeAlias = str | Mapping[str, Any]
"""What the log knows of a call that no event answers: its response, or what became of it in a word."""

_CONTEXT = Part(text="For context, what another agent did:")  # a line for each thing follows

_MESSAGES = {
    "not_started": "The run ended before this call began. It has had no effect.",
    "finished": "The call was done, but its response was not kept.",
    "stopped": "The call was stopped before it was done. It may or may not have had its effect.",
    "unknown": "The run ended before this call was answered. It may or may not have had its effect.",
    "pending": "The call goes on, and is not answered yet.",
}


def outcome_response(outcome: CallOutcome) -> Mapping[str, Any]:
    """Return what a model is told of a call that no event answers."""
    if not isinstance(outcome, str):
        return outcome
    status = "not_run" if outcome == "not_started" else outcome
    return {"status": status, "outcome": outcome, "message": _MESSAGES.get(outcome, _MESSAGES["unknown"])}


def conversation(
    events: Sequence[Event],
    agent: str,
    branch: str | None = None,
    *,
    outcomes: Mapping[str, CallOutcome] | None = None,
    current_turn: bool = False,
) -> tuple[Content, ...]:
    """Return what was said, oldest first, as an agent's model is to see it.

    Left out are thoughts, what is empty, responses without their call, and what is on other branches. What
    another agent did is told as text of the user's. A response stands behind its call, however late it came;
    of several to one call the last counts. If the newest event answers an earlier call, what was said between
    the two is left out: the model goes on where it called. A call without a response is answered with what is
    known of it.

    Args:
        events: The session's events, oldest first.
        agent: The agent's name.
        branch: Its branch.
        outcomes: What the log knows of calls that no event answers, by their ids; a call that is not among
            them never began. `None` if nothing is known of any.
        current_turn: Begin with the newest message of the user or of another agent.
    """
    told: Iterable[Event] = _since_newest_message(events, agent, branch) if current_turn else events
    talk = _Talk()
    said = talk.said
    for event in told:
        content = event.content
        if content is None or event.partial:
            continue
        if branch is not None and event.branch is not None and not is_within(branch, event.branch):
            continue
        author, parts = event.author, content.parts
        if author != agent and author != "user":
            talk.add_others(author, parts)
        elif len(parts) == 1 and parts[0].text is not None and not parts[0].thought:
            if parts[0].text:
                said.append(content)  # nearly all events are this one
        else:
            talk.add(event, content, calls=author == agent)
    return talk.contents(outcomes)


class _Turn:
    """A message with calls, and the responses that are there."""

    __slots__ = ("answers", "calls", "content", "pending")

    def __init__(self, content: Content, calls: Sequence[FunctionCall], pending: Sequence[str]) -> None:
        self.content = content
        self.calls = calls
        self.pending = pending
        self.answers: dict[str, FunctionResponse] = {}

    def responses(self, outcomes: Mapping[str, CallOutcome] | None) -> Content:
        """The message that answers it."""
        answers = [self.answers.get(call.id) or self._missing(call, outcomes) for call in self.calls]
        return Content("user", tuple([Part(function_response=answer) for answer in answers]))

    def _missing(self, call: FunctionCall, outcomes: Mapping[str, CallOutcome] | None) -> FunctionResponse:
        if call.id in self.pending:
            outcome: CallOutcome = "pending"
        else:
            outcome = "unknown" if outcomes is None else outcomes.get(call.id, "not_started")
        return FunctionResponse(call.id, call.name, outcome_response(outcome))


class _Talk:
    """A conversation in the making.

    Attributes:
        said: Its messages; of those with calls the turns.
    """

    __slots__ = ("_answered", "_asked", "_told", "said")

    def __init__(self) -> None:
        self.said: list[Content | _Turn] = []
        self._asked: dict[str, _Turn] = {}
        self._answered: tuple[_Turn, int, int] | None = None  # last; the messages before and after that
        self._told: dict[str, str] = {}  # calls of others, and whose they are

    def add(self, event: Event, content: Content, *, calls: bool) -> None:
        """Add what the user or the agent said; only an agent's message may hold calls."""
        spoken: list[Part] = []
        asked: list[FunctionCall] = []
        answered: _Turn | None = None
        before = len(self.said)
        for index, part in enumerate(content.parts):
            call, response = part.function_call, part.function_response
            if response is not None:
                turn = self._asked.get(response.id)
                if turn is not None:
                    turn.answers[response.id] = response
                    answered = turn
                elif response.id in self._told:
                    spoken.append(Part(text=f"{_narrate(self._told[response.id], part)}\n"))
            elif call is not None:
                if not call.id:
                    call = FunctionCall(f"{event.id}-{index}", call.name, call.args)
                    part = Part(function_call=call)
                if calls and not any(call.id == other.id for other in asked):
                    asked.append(call)
                    spoken.append(part)
            elif (part.text or part.inline_data is not None) and not part.thought:
                spoken.append(part)
        if asked:
            turn = _Turn(Content("model", tuple(spoken)), asked, event.long_running_tool_ids)
            for call in asked:
                self._asked[call.id] = turn
            self.said.append(turn)
        elif spoken:
            self.said.append(Content(content.role, tuple(spoken)))
        if answered is not None:
            self._answered = answered, before, len(self.said)

    def add_others(self, author: str, parts: Sequence[Part]) -> None:
        """Add what another agent did, as text of the user's."""
        told = [_CONTEXT]
        for part in parts:
            if part.thought:
                continue
            if part.function_call is not None:
                self._told[part.function_call.id] = author
            if part.inline_data is not None:
                told.append(part)
            elif text := _narrate(author, part):
                told.append(Part(text=f"\n{text}"))
        if len(told) > 1:
            self.said.append(Content("user", tuple(told)))

    def contents(self, outcomes: Mapping[str, CallOutcome] | None) -> tuple[Content, ...]:
        """Return the messages, each turn with the responses behind it."""
        said = self.said
        if self._answered is not None:
            turn, before, after = self._answered
            if after == len(said) and said[before - 1] is not turn:  # nothing was said since
                said = [*said[: said.index(turn) + 1], *said[before:]]
        if not self._asked:
            return cast("tuple[Content, ...]", tuple(said))
        contents: list[Content] = []
        for one in said:
            if isinstance(one, _Turn):
                contents += (one.content, one.responses(outcomes))
            else:
                contents.append(one)
        return tuple(contents)


def _since_newest_message(events: Sequence[Event], agent: str, branch: str | None) -> Iterable[Event]:
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.author == agent or event.partial or event.content is None:
            continue
        if branch is not None and event.branch is not None and not is_within(branch, event.branch):
            continue
        # Who only answers a call goes on with the turn of the call.
        if event.author != "user" or any(part.function_response is None for part in event.content.parts):
            return events[index:]
    return events


def _narrate(author: str, part: Part) -> str:
    if part.function_call is not None:
        return f"{author} called {part.function_call.name} with {_json(part.function_call.args)}"
    if part.function_response is not None:
        answer = part.function_response
        return f"{answer.name} answered {author} with {_json(answer.response)}"
    return f"{author} said: {part.text}" if part.text else ""


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(plain_copy(value), ensure_ascii=False, default=str)
