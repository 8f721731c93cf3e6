"""Events → the conversation that a model is asked about. Pure: no I/O, no clock.

The log is never changed, and may hold anything: calls whose run was cancelled, answers that came late, what
other agents have said. The conversation is always one that a client of any provider can make a legal
request of: each message with calls is followed by one message with exactly their responses, in the order of
the calls, and there are no other responses; ids of calls differ; nothing is empty. `asking` makes it begin
and end with the user. Two messages of one role may follow each other: who must not send that joins them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from intermission.agents.compaction import compacted
from intermission.content import Content, FunctionCall, FunctionResponse, Part, plain_copy
from intermission.events import Event, is_within
from intermission.pending import CONFIRMATION

__all__ = ["CallOutcome", "asking", "conversation", "narrate", "outcome_response"]

CallOutcome: TypeAlias = str | Mapping[str, Any]
"""What the log knows of a call that no event answers: its response, or what became of it in a word."""

_CONTEXT = Part(text="For context, what another agent did:")  # a line for each thing follows

_BEFORE = Content.user("For context, what you said before:")
_GO_ON = Content.user("Go on as instructed. If nothing is left to do, say so in short.")

_MESSAGES = {
    "not_started": "The run ended before this call began. It has had no effect.",
    "finished": "The call was done, but its response was not kept.",
    "stopped": "The call was stopped before it was done. It may or may not have had its effect.",
    "unknown": "The run ended before this call was answered. It may or may not have had its effect.",
    "pending": "The call goes on, and is not answered yet.",
}

_ASKED = "The call was not made: a person was asked to confirm it, and has not done so."


def outcome_response(outcome: CallOutcome) -> Mapping[str, Any]:
    """Return what a model is told of a call that no event answers."""
    if not isinstance(outcome, str):
        return outcome
    if outcome == "asked":
        return {"status": "pending", "outcome": "not_started", "message": _ASKED}
    status = "not_run" if outcome == "not_started" else outcome
    return {"status": status, "outcome": outcome, "message": _MESSAGES.get(outcome, _MESSAGES["unknown"])}


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
    told: Iterable[Event] = _since_newest_message(events, agent, branch) if current_turn else events
    talk = _Talk()
    said = talk.said
    for event in told:
        content = event.content
        if content is None or event.partial:
            if event.actions.compaction is not None and not current_turn:
                return conversation(compacted(events), agent, branch, outcomes=outcomes)
            continue
        if branch is not None and event.branch is not None and not is_within(branch, event.branch):
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
                    said.append(Content(_role(author, content), parts))
        else:
            talk.add(event, content, calls=author == agent)
    return talk.contents(outcomes)


class _Turn:
    """A message with calls, and the responses that are there."""

    __slots__ = ("answers", "calls", "content", "pending")

    def __init__(self, content: Content, calls: Mapping[str, FunctionCall], pending: Sequence[str]) -> None:
        self.content = content
        self.calls = calls  # as they stand in the log, by the ids that they have here
        self.pending = pending
        self.answers: dict[str, FunctionResponse] = {}

    def responses(self, outcomes: Mapping[str, CallOutcome] | None) -> Content:
        """The message that answers it."""
        answers = [
            self.answers.get(shown) or _missing(call, shown, self.pending, outcomes)
            for shown, call in self.calls.items()
        ]
        return Content("user", tuple([Part(function_response=answer) for answer in answers]))


class _Talk:
    """A conversation in the making.

    Attributes:
        said: Its messages; of those with calls the turns.
    """

    __slots__ = ("_answered", "_asked", "_open", "_told", "said")

    def __init__(self) -> None:
        self.said: list[Content | _Turn] = []
        self._asked: dict[str, tuple[_Turn, str]] = {}  # by the id in the log, with the one that is shown
        self._answered: tuple[_Turn, int, int] | None = None  # last; the messages before and after that
        self._told: dict[str, str] = {}  # calls of others, and whose they are
        self._open: dict[str, tuple[int, FunctionCall, Event]] = {}  # those that nothing answers, and where

    def add(self, event: Event, content: Content, *, calls: bool) -> None:
        """Add what the user or the agent said; only an agent's message may hold calls."""
        spoken: list[Part] = []
        asked: dict[str, FunctionCall] = {}
        ids: list[str] = []
        answered: _Turn | None = None
        before = len(self.said)
        for index, part in enumerate(content.parts):
            call, response = part.function_call, part.function_response
            if _is_question(call, response):
                continue
            if response is not None:
                found = self._asked.get(response.id)
                if found is not None and response.id:
                    answered, shown = found
                    name = answered.calls[shown].name
                    if response.id != shown or response.name != name:
                        response = FunctionResponse(shown, name, response.response)
                    answered.answers[shown] = response
                elif response.id in self._told:
                    self._open.pop(response.id, None)
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
            turn = _Turn(Content("model", tuple(spoken)), asked, event.long_running_tool_ids)
            for shown, call in asked.items():
                self._asked[call.id] = turn, shown
            self.said.append(turn)
        elif any(map(_says_something, spoken)):
            self.said.append(Content(_role(event.author, content), tuple(spoken)))
        if answered is not None:
            self._answered = answered, before, len(self.said)

    def add_others(self, event: Event, parts: Sequence[Part]) -> None:
        """Add what another agent did, as text of the user's."""
        author, told = event.author, [_CONTEXT]
        for part in parts:
            if part.thought:
                continue
            call, response = part.function_call, part.function_response
            if _is_question(call, response):
                continue
            if call is not None:
                self._told[call.id] = author
                self._open[call.id] = len(self.said), call, event
            elif response is not None:
                self._open.pop(response.id, None)
            if part.inline_data is not None:
                told.append(part)
            elif text := narrate(author, part):
                told.append(Part(text=f"\n{text}"))
        if len(told) > 1:
            self.said.append(Content("user", tuple(told)))

    def contents(self, outcomes: Mapping[str, CallOutcome] | None) -> tuple[Content, ...]:
        """Return the messages, each turn with the responses behind it."""
        said = self.said
        for place, call, event in self._open.values():
            response = _missing(call, call.id, event.long_running_tool_ids, outcomes)
            told, note = said[place], narrate(event.author, Part(function_response=response))
            assert isinstance(told, Content)
            said[place] = Content("user", (*told.parts, Part(text=f"\n{note}")))
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


def _is_question(call: FunctionCall | None, response: FunctionResponse | None) -> bool:
    """Return whether a person is asked, or answers, whether a call may be made: that is not the model's."""
    one = call or response
    return one is not None and one.name == CONFIRMATION


def _missing(
    call: FunctionCall, shown: str, pending: Sequence[str], outcomes: Mapping[str, CallOutcome] | None
) -> FunctionResponse:
    """Return what stands for the response to a call that no event answers, by the id that is shown."""
    default = "pending" if call.id in pending else "unknown" if outcomes is None else "not_started"
    outcome = default if outcomes is None else outcomes.get(call.id, default)
    return FunctionResponse(shown, call.name, outcome_response(outcome))


def _since_newest_message(events: Sequence[Event], agent: str, branch: str | None) -> Iterable[Event]:
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.author == agent or event.partial or event.content is None:
            continue
        if branch is not None and event.branch is not None and not is_within(branch, event.branch):
            continue
        if any(_begins_turn(part, event.author) for part in event.content.parts):
            return events[index:]
    return events


def _begins_turn(part: Part, author: str) -> bool:
    if part.thought:
        return False
    if _says_something(part):
        return True
    # A user who only answers a call goes on with the turn of the call.
    return author != "user" and (part.function_call is not None or part.function_response is not None)


def _says_something(part: Part) -> bool:
    """Return whether a part is more than space, and than what the model keeps for itself."""
    if part.thought:
        return False
    return part.inline_data is not None or bool(part.text and not part.text.isspace())


def _role(author: str, content: Content) -> str:
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
