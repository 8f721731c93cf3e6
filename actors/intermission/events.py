"""What happened in a session: frozen events, in the JSON that ADK's clients use."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self, cast

from intermission.content import Content, FunctionCall, FunctionResponse, plain_copy
from intermission.ids import random_hex
from intermission.state import Operation

__all__ = ["NO_ACTIONS", "Event", "EventActions", "OpenEvent", "Usage", "is_within", "new_event_id"]


def new_event_id() -> str:
    """Return an id for an event that no other event has."""
    return random_hex()


def is_within(branch: str | None, outer: str | None) -> bool:
    """Return whether a branch is another one, or one that forked off it; all are within `None`."""
    return outer is None or branch == outer or (branch is not None and branch.startswith(f"{outer}."))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model reported.

    `complete` is false when some call's tokens are not known, so that the sums are lower bounds.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    complete: bool = True

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.complete and other.complete,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        data: dict[str, Any] = {
            "promptTokenCount": self.input_tokens,
            "candidatesTokenCount": self.output_tokens,
            "totalTokenCount": self.total_tokens,
        }
        return data if self.complete else data | {"complete": False}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(
            data.get("promptTokenCount", 0),
            data.get("candidatesTokenCount", 0),
            data.get("totalTokenCount", 0),
            data.get("complete", True),
        )


_NOTHING: Mapping[str, Any] = MappingProxyType({})  # read-only, so that all may share it


def _no_mapping() -> Mapping[str, Any]:
    return _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class EventActions:
    """What an event does beside saying something.

    Attributes:
        skip_summarization: The response ends the turn; no model sums it up.
        state_delta: Changes of the session's state; `None` removes a key.
        state_operations: Changes of other keys, applied in the order of their commits.
        artifact_delta: Artifact name to its new version.
        deleted_artifact_ids: Names of artifacts that were deleted.
        transfer_to_agent: Name of the agent that goes on.
        escalate: The enclosing loop ends.
        requested_auth_configs: Call id to the authentication that it asks for.
        requested_tool_confirmations: Call id to the confirmation that it asks for.
        end_of_agent: The author has finished its part of the invocation.
        agent_state: The author's checkpoint.
        compaction: A summary that stands for older events.
    """

    skip_summarization: bool = False
    state_delta: Mapping[str, Any] = field(default_factory=_no_mapping)
    state_operations: tuple[Operation, ...] = ()
    artifact_delta: Mapping[str, int] = field(default_factory=_no_mapping)
    deleted_artifact_ids: tuple[str, ...] = ()
    transfer_to_agent: str | None = None
    escalate: bool = False
    requested_auth_configs: Mapping[str, Any] = field(default_factory=_no_mapping)
    requested_tool_confirmations: Mapping[str, Any] = field(default_factory=_no_mapping)
    end_of_agent: bool = False
    agent_state: Mapping[str, Any] | None = None
    compaction: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; what is not set is left out, but for the maps that ADK's clients expect."""
        if self is NO_ACTIONS:
            return {name: {} for name in _EXPECTED}
        data: dict[str, Any] = {
            "stateDelta": plain_copy(self.state_delta),
            "artifactDelta": plain_copy(self.artifact_delta),
            "requestedAuthConfigs": plain_copy(self.requested_auth_configs),
            "requestedToolConfirmations": plain_copy(self.requested_tool_confirmations),
        }
        optional: dict[str, Any] = {
            "stateOperations": [operation.to_dict() for operation in self.state_operations],
            "skipSummarization": self.skip_summarization,
            "deletedArtifactIds": list(self.deleted_artifact_ids),
            "transferToAgent": self.transfer_to_agent,
            "escalate": self.escalate,
            "endOfAgent": self.end_of_agent,
        }
        data |= {name: value for name, value in optional.items() if value}
        # An empty checkpoint is a checkpoint, so these are left out only when there is none.
        if self.agent_state is not None:
            data["agentState"] = plain_copy(self.agent_state)
        if self.compaction is not None:
            data["compaction"] = plain_copy(self.compaction)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form; `endInvocation` is read as the `endOfAgent` that it is an alias of."""
        if not any(data.values()) and data.get("agentState") is None and data.get("compaction") is None:
            return NO_ACTIONS  # type: ignore[return-value]  # checked just before, or made one
        return cls(
            skip_summarization=bool(data.get("skipSummarization")),
            state_delta=plain_copy(data.get("stateDelta") or {}),
            state_operations=tuple(map(Operation.from_dict, data.get("stateOperations") or ())),
            artifact_delta=plain_copy(data.get("artifactDelta") or {}),
            deleted_artifact_ids=tuple(data.get("deletedArtifactIds") or ()),
            transfer_to_agent=data.get("transferToAgent"),
            escalate=bool(data.get("escalate")),
            requested_auth_configs=plain_copy(data.get("requestedAuthConfigs") or {}),
            requested_tool_confirmations=plain_copy(data.get("requestedToolConfirmations") or {}),
            end_of_agent=bool(data.get("endOfAgent") or data.get("endInvocation")),
            agent_state=plain_copy(data.get("agentState")),
            compaction=plain_copy(data.get("compaction")),
        )


NO_ACTIONS = EventActions()
"""The actions of an event that has none; most have none, so they share it."""

_EXPECTED = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a session.

    Attributes:
        id: Unique.
        invocation_id: The run that it belongs to.
        author: `"user"`, or the name of the agent.
        timestamp: Seconds since the epoch. Clocks order nothing: `seq` does.
        content: What was said.
        partial: A piece of a message in the making: shown, never stored.
        actions: What the event does beside saying something.
        long_running_tool_ids: Ids of calls in it that are answered later.
        branch: Names of the parallel branches that it belongs to, joined by dots.
        usage: Tokens of the model call that made it.
        error_code: Short name of an error, if the event reports one.
        error_message: The error's text.
        interrupted: A live model stream was interrupted.
        turn_complete: A live model's turn is complete.
        seq: The number of its record in the session: rising, with holes. `None` before it is stored,
            and for partials.
        shown: How many characters of its text partials have shown before. Not stored, not in the JSON,
            not compared.
    """

    id: str = field(default_factory=new_event_id)
    invocation_id: str
    author: str
    timestamp: float
    content: Content | None = None
    partial: bool = False
    actions: EventActions = NO_ACTIONS
    long_running_tool_ids: tuple[str, ...] = ()
    branch: str | None = None
    usage: Usage | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool = False
    turn_complete: bool | None = None
    seq: int | None = None
    shown: int = field(default=0, repr=False, compare=False)

    @property
    def text(self) -> str:
        """Its text parts joined, thoughts left out; `""` if there is none."""
        return "" if self.content is None else self.content.text

    @property
    def delta(self) -> str:
        """What is new to show: a partial's text; of any other event only what no partial has shown."""
        return self.text[self.shown :]

    @property
    def function_calls(self) -> tuple[FunctionCall, ...]:
        """The calls in it, in order."""
        return () if self.content is None else self.content.function_calls

    @property
    def function_responses(self) -> tuple[FunctionResponse, ...]:
        """The responses in it, in order."""
        return () if self.content is None else self.content.function_responses

    @property
    def is_final(self) -> bool:
        """Whether it ends its author's turn: an answer, a long-running call, or a response not summed up."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        return not (self.partial or self.function_calls or self.function_responses or self.is_checkpoint)

    @property
    def is_checkpoint(self) -> bool:
        """Whether it only records progress: no content, but tokens, a state, an end, or a summary."""
        if self.content is not None:
            return False
        actions = self.actions
        noted = (self.usage, actions.agent_state, actions.compaction)
        return actions.end_of_agent or any(one is not None for one in noted)

    @property
    def is_plain(self) -> bool:
        """Whether it holds nothing that could be changed in place: text only, and no actions."""
        if self.actions is not NO_ACTIONS:
            return False
        for part in () if self.content is None else self.content.parts:
            if part.function_call is not None or part.function_response is not None:
                return False
        return True

    def stored_as(self, seq: int) -> Self:
        """Return the event with the number of its record; its values are shared."""
        if type(self) is not Event:
            return replace(self, seq=seq)
        event = OpenEvent(
            self.id,
            self.invocation_id,
            self.author,
            self.timestamp,
            content=self.content,
            partial=self.partial,
            actions=self.actions,
            long_running_tool_ids=self.long_running_tool_ids,
            branch=self.branch,
            usage=self.usage,
            error_code=self.error_code,
            error_message=self.error_message,
            interrupted=self.interrupted,
            turn_complete=self.turn_complete,
            seq=seq,
            shown=self.shown,
        )
        return event.freeze()  # type: ignore[return-value]  # checked just before, or made one

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in camelCase; what is not set is left out."""
        data: dict[str, Any] = {
            "id": self.id,
            "invocationId": self.invocation_id,
            "author": self.author,
            "timestamp": self.timestamp,
            "actions": self.actions.to_dict(),
        }
        optional: dict[str, Any] = {
            "content": None if self.content is None else self.content.to_dict(),
            "partial": self.partial or None,
            "longRunningToolIds": list(self.long_running_tool_ids) or None,
            "branch": self.branch,
            "usageMetadata": None if self.usage is None else self.usage.to_dict(),
            "errorCode": self.error_code,
            "errorMessage": self.error_message,
            "interrupted": self.interrupted or None,
            "turnComplete": self.turn_complete,
            "seq": self.seq,
        }
        return data | {name: value for name, value in optional.items() if value is not None}

    def to_json(self) -> str:
        """Return `to_dict` as a line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form. Unknown names are left aside."""
        event = _read(data, data.get("seq"))
        return (
            cast(Self, event)
            if cls is Event
            else cls(**{one.name: getattr(event, one.name) for one in fields(event)})
        )

    @staticmethod
    def stored(data: Mapping[str, Any], seq: int, shown: int = 0) -> "Event":
        """Read the JSON form of a record, which has its number beside it."""
        return _read(data, seq, shown)


def _read(data: Mapping[str, Any], seq: int | None, shown: int = 0) -> Event:
    get = data.get
    content, usage, actions = get("content"), get("usageMetadata"), get("actions")
    return OpenEvent(
        data["id"],
        data["invocationId"],
        data["author"],
        data["timestamp"],
        content=None if content is None else Content.from_dict(content),
        partial=bool(get("partial")),
        actions=NO_ACTIONS if not actions else EventActions.from_dict(actions),
        long_running_tool_ids=tuple(get("longRunningToolIds") or ()),
        branch=get("branch"),
        usage=None if usage is None else Usage.from_dict(usage),
        error_code=get("errorCode"),
        error_message=get("errorMessage"),
        interrupted=bool(get("interrupted")),
        turn_complete=get("turnComplete"),
        seq=seq,
        shown=shown,
    ).freeze()


class OpenEvent:
    """An event in the making. To fill and freeze it takes a sixth of the time that making an `Event` does."""

    __slots__ = (
        "actions",
        "author",
        "branch",
        "content",
        "error_code",
        "error_message",
        "id",
        "interrupted",
        "invocation_id",
        "long_running_tool_ids",
        "partial",
        "seq",
        "shown",
        "timestamp",
        "turn_complete",
        "usage",
    )

    def __init__(
        self,
        id: str,
        invocation_id: str,
        author: str,
        timestamp: float,
        *,
        content: Content | None = None,
        partial: bool = False,
        actions: EventActions = NO_ACTIONS,
        long_running_tool_ids: tuple[str, ...] = (),
        branch: str | None = None,
        usage: Usage | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
        interrupted: bool = False,
        turn_complete: bool | None = None,
        seq: int | None = None,
        shown: int = 0,
    ) -> None:
        self.id = id
        self.invocation_id = invocation_id
        self.author = author
        self.timestamp = timestamp
        self.content = content
        self.partial = partial
        self.actions = actions
        self.long_running_tool_ids = long_running_tool_ids
        self.branch = branch
        self.usage = usage
        self.error_code = error_code
        self.error_message = error_message
        self.interrupted = interrupted
        self.turn_complete = turn_complete
        self.seq = seq
        self.shown = shown

    def freeze(self) -> Event:
        """Make it the event that it is from now on, and return it."""
        # An object may change its class for one with the same slots.
        self.__class__ = Event  # type: ignore[assignment]  # as said
        return self  # type: ignore[return-value]  # checked just before, or made one
