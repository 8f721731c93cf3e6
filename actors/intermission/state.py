"""`State`: a session's state as an agent or a tool sees it, with its own changes, which nobody else sees yet.

The changes travel with an event: what is stored is the event, and only then do others see them. Of plain
assignments to one key the last committed one stands; `append` and `add` travel as operations, which are
applied in the order of their commits, so that two branches lose nothing.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from intermission.content import plain_copy

__all__ = ["APP", "TEMP", "USER", "Operation", "Scopes", "State", "StateChange", "apply_change", "own_change"]

APP = "app:"
USER = "user:"
TEMP = "temp:"
_PREFIXES = (APP, USER, TEMP)


@dataclass(frozen=True, slots=True)
class Operation:
    """A change that does not depend on what the key holds.

    Attributes:
        op: `"append"`, to a list, or `"add"`, to a number. A key that is not there is an empty list, or 0.
        key: The key.
        value: What is appended or added.
    """

    op: str
    key: str
    value: Any

    def apply(self, old: Any) -> Any:
        """Return the new value for the old one.

        Raises:
            TypeError: The old value is no list, or no number.
        """
        if self.op == "append":
            if old is not None and not isinstance(old, list):
                raise TypeError(f"state[{self.key!r}] is of type {type(old).__name__}: append needs a list")
            return [*(old or ()), plain_copy(self.value)]
        if old is not None and (isinstance(old, bool) or not isinstance(old, int | float)):
            raise TypeError(f"state[{self.key!r}] is of type {type(old).__name__}: add needs a number")
        return (old or 0) + self.value

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"op": self.op, "key": self.key, "value": plain_copy(self.value)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(data["op"], data["key"], plain_copy(data["value"]))


class StateChange(NamedTuple):
    """What has changed: keys with their new values, `None` for one that goes; operations on other keys."""

    delta: dict[str, Any]
    operations: tuple[Operation, ...]


def apply_change(
    state: dict[str, Any], delta: Mapping[str, Any], operations: tuple[Operation, ...] = ()
) -> None:
    """Change a state in place. An operation that its key's value does not allow changes nothing."""
    for key, value in delta.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    for operation in operations:
        # It was possible when it was asked for; whoever has assigned something else meanwhile has the word.
        try:
            state[operation.key] = operation.apply(state.get(operation.key))
        except TypeError:
            continue


def own_change(delta: Mapping[str, Any], operations: tuple[Operation, ...]) -> StateChange:
    """Return what of a change belongs to the session itself: to no app, user or run."""
    if not (delta or operations):
        return StateChange({}, ())
    return StateChange(
        {key: value for key, value in delta.items() if not key.startswith(_PREFIXES)},
        tuple(one for one in operations if not one.key.startswith(_PREFIXES)),
    )


class Scopes(Mapping[str, Any]):
    """The states of a session, its user and its app as one: a key's prefix says in which of them it stands.

    Args:
        session: The session's own.
        user: Its user's; the keys begin with `user:`.
        app: Its app's; the keys begin with `app:`.
    """

    __slots__ = ("_app", "_session", "_user")

    def __init__(self, session: Mapping[str, Any], user: Mapping[str, Any], app: Mapping[str, Any]) -> None:
        self._session = session
        self._user = user
        self._app = app

    def __getitem__(self, key: str) -> Any:
        if key.startswith(USER):
            return self._user[key]
        return (self._app if key.startswith(APP) else self._session)[key]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._session, *self._user, *self._app])

    def __len__(self) -> int:
        return len(self._session) + len(self._user) + len(self._app)


class State(MutableMapping[str, Any]):
    """A state with changes of one's own. What is read is a copy: change it, then assign it.

    Keys that begin with `app:` belong to all sessions of the app, `user:` to all of the user's, `temp:` to
    this run alone, and are never stored; all others belong to the session. Assigning `None` removes a key.

    Args:
        committed: Returns what is committed, now.
    """

    def __init__(self, committed: Callable[[], Mapping[str, Any]]) -> None:
        self._committed = committed
        self._delta: dict[str, Any] = {}
        self._operations: dict[str, list[Operation]] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._read(key)
        if value is None:
            raise KeyError(key)
        return plain_copy(value)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"a key of the state must be a str, not {type(key).__name__}")
        self._operations.pop(key, None)
        self._delta[key] = plain_copy(value)

    def __delitem__(self, key: str) -> None:
        if self._read(key) is None:
            raise KeyError(key)
        self[key] = None

    def __iter__(self) -> Iterator[str]:
        keys = dict.fromkeys([*self._committed(), *self._delta, *self._operations])
        return iter([key for key in keys if self._read(key) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"State({dict(self)!r})"

    def append(self, key: str, value: Any) -> None:
        """Append `value` to the list at `key`; what other branches append meanwhile is kept.

        Raises:
            TypeError: The key holds something else than a list.
        """
        self._operate(Operation("append", key, plain_copy(value)))

    def add(self, key: str, number: float) -> None:
        """Add `number` to the one at `key`; what other branches add meanwhile is kept.

        Raises:
            TypeError: The key, or the argument, is no number.
        """
        if isinstance(number, bool) or not isinstance(number, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"add takes a number, not {type(number).__name__}")
        self._operate(Operation("add", key, number))

    def merge(self, change: StateChange) -> None:
        """Take over what was changed in another view of the same state."""
        for key, value in change.delta.items():
            self[key] = value
        for operation in change.operations:
            self._operate(operation)

    @property
    def changed(self) -> bool:
        """Whether anything has changed since the last `take`."""
        return bool(self._delta or self._operations)

    def take(self) -> StateChange:
        """Return what has changed since the last time, and begin anew."""
        delta, self._delta = self._delta, {}
        operations, self._operations = self._operations, {}
        return StateChange(delta, tuple(one for of_key in operations.values() for one in of_key))

    def _operate(self, operation: Operation) -> None:
        value = operation.apply(self._read(operation.key))  # raises if it is not possible
        if operation.key in self._delta:
            self._delta[operation.key] = value
        else:
            self._operations.setdefault(operation.key, []).append(operation)

    def _read(self, key: str) -> Any:
        if key in self._delta:
            return self._delta[key]
        value = self._committed().get(key)
        for operation in self._operations.get(key, ()):
            value = operation.apply(value)
        return value
