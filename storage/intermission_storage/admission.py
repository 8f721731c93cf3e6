"""Whether a batch may be committed to a stream: the rules of claims and positions, the same for every log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from intermission_storage.errors import ConflictError, StaleClaimError
from intermission_storage.record import IndexEntry, Record

__all__ = ["HeldError", "Position", "Request", "admit", "token_after"]

OwnerT = TypeVar("OwnerT")


@dataclass(slots=True)
class Position(Generic[OwnerT]):
    """Where a stream stands: its last number, and the token and owner of its claim; token 0 means none."""

    last: int = 0
    token: int = 0
    owner: OwnerT | None = None


_NOTHING: Mapping[str, Sequence[Record]] = MappingProxyType({})  # read-only, so that all may share it


def _nothing() -> Mapping[str, Sequence[Record]]:
    return _NOTHING


@dataclass(slots=True)
class Request:
    """What a batch asks of its stream: `BatchOptions` with what stands for those that were left out.

    Not frozen, nor is `Position`: many are made, and a frozen one takes three times as long.
    """

    stream: str
    expected: int | None = None
    token: int | None = None
    claim: bool = False
    take_over: bool = False
    release: bool = False
    put: Sequence[IndexEntry] = ()
    drop: Sequence[IndexEntry] = ()
    needs: Sequence[IndexEntry] = ()
    also: Mapping[str, Sequence[Record]] = field(default_factory=_nothing)


class HeldError(Exception):
    """Somebody holds the stream; whether that counts depends on whether its owner lives."""


def admit(request: Request, position: Position[OwnerT], *, held: bool) -> None:
    """Return if the batch may be committed.

    Args:
        request: What the batch asks.
        position: Where its stream stands.
        held: Whether the stream has a claim whose owner lives.

    Raises:
        StaleClaimError: The request's claim is not the stream's. This comes before the position.
        HeldError: The stream is held, and the request is not made under its claim.
        ConflictError: The stream does not end at the expected number.
    """
    if request.token is not None:
        if request.token != position.token or not request.token:  # 0 is the token of no claim
            current = position.token or None
            raise StaleClaimError(request.stream, token=request.token, current=current)
    elif held and not request.take_over:
        raise HeldError
    if request.expected is not None and request.expected != position.last:
        raise ConflictError(request.stream, expected=request.expected, actual=position.last)


def token_after(request: Request, position: Position[OwnerT]) -> int | None:
    """Return the token to tell of an admitted batch, once it is done: that under which the stream is held.

    A batch without one was admitted because nobody holds the stream; what is left there of an owner that has
    died is nobody's claim.
    """
    if request.claim or request.token is not None:
        return position.token or None
    return None
