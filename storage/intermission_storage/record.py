"""The values of a log: `Record` and its `Kind`, `Owner` and `Claim` of a stream, `IndexEntry`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

__all__ = ["Appended", "Claim", "Head", "IndexEntry", "Kind", "Owner", "Record"]


class Kind(StrEnum):
    """What a record says. A new kind is a new version of the format, with a migration."""

    SESSION_CREATED = "session_created"
    RUN_STARTED = "run_started"
    EVENT = "event"
    CALL_STARTED = "call_started"
    CALL_FINISHED = "call_finished"
    CANCEL_REQUESTED = "cancel_requested"
    RUN_ENDED = "run_ended"
    RUN_END_DELIVERED = "run_end_delivered"
    COMPACTION = "compaction"
    STATE_SET = "state_set"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a stream.

    Attributes:
        kind: What happened.
        data: Plain values: `None`, `bool`, `int`, `float`, `str`, `bytes`, lists and string-keyed dicts.
        seq: The record's number in its stream, from 1. The log gives it; it is 0 before the record is stored.
    """

    kind: Kind
    data: Mapping[str, Any]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a stream: one opened log of one process.

    Attributes:
        id: Its name in the log, never used twice.
        pid: The process.
        host: The machine.
    """

    id: str
    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (owner {self.id})"


@dataclass(frozen=True, slots=True)
class Claim:
    """A stream's claim.

    Attributes:
        token: What each append under the claim carries. Tokens of a log only rise, so a later claim of the
            stream has a higher one, also after its deletion.
        owner: Who made the claim.
        alive: Whether that owner lived when this was read.
    """

    token: int
    owner: Owner
    alive: bool


@dataclass(frozen=True, slots=True)
class Head:
    """Where a stream stands: the number of its last record, 0 for an unknown one, and its claim, if any."""

    position: int
    claim: Claim | None = None


class Appended(NamedTuple):
    """What a commit came to: the number of the stream's last record, and the claim's token, if there is one.

    `token` is `None` when nobody holds the stream after the commit, as when its last owner has died.
    """

    position: int
    token: int | None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of an index, kept with a stream and gone with it.

    Attributes:
        index: The index's name.
        key: Where it stands in the index: any texts, at most 16. An index is read by the first of them.
        value: Plain values.
        stream: The stream that it belongs to; the log fills it in.
    """

    index: str
    key: tuple[str, ...]
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stream: str = ""
