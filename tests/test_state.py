"""A state's view of its own changes, and how changes are applied."""

import pytest

from intermission.state import Operation, Scopes, State, StateChange, apply_change, own_change


def test_changes_are_seen_at_once_by_their_maker_and_by_nobody_else() -> None:
    committed = {"kept": 1, "gone": 2, "list": [1]}
    state, other = State(lambda: committed), State(lambda: committed)
    state["new"] = 3
    del state["gone"]
    state.append("list", 2)
    state.add("count", 2)

    assert dict(state) == {"kept": 1, "new": 3, "list": [1, 2], "count": 2}
    assert dict(other) == committed == {"kept": 1, "gone": 2, "list": [1]}


def test_taking_the_changes_begins_anew() -> None:
    state = State(dict)
    state["a"] = 1
    state.append("b", 2)
    change = state.take()

    assert change == StateChange({"a": 1}, (Operation("append", "b", 2),))
    assert state.take() == StateChange({}, ())


def test_an_assignment_overrides_operations_before_it_and_takes_in_those_after_it() -> None:
    state = State(dict)
    state.append("a", 1)
    state["a"] = [5]
    state.append("a", 6)

    assert state.take() == StateChange({"a": [5, 6]}, ())


def test_what_is_read_is_a_copy() -> None:
    committed = {"a": [1]}
    state = State(lambda: committed)
    state["a"].append(2)
    assert committed == {"a": [1]}
    assert state["a"] == [1]


def test_operations_of_two_branches_lose_nothing_and_the_last_assignment_stands() -> None:
    state: dict[str, object] = {}
    apply_change(state, {"x": 1}, (Operation("append", "list", "a"), Operation("add", "n", 1)))
    apply_change(state, {"x": 2}, (Operation("append", "list", "b"), Operation("add", "n", 2)))
    assert state == {"x": 2, "list": ["a", "b"], "n": 3}


def test_none_removes_a_key_and_an_operation_that_is_not_possible_any_more_changes_nothing() -> None:
    state: dict[str, object] = {"a": 1, "b": "text"}
    apply_change(state, {"a": None}, (Operation("append", "b", 1), Operation("add", "c", 1)))
    assert state == {"b": "text", "c": 1}


@pytest.mark.parametrize("number", ["1", True, None])
def test_only_numbers_are_added(number: float) -> None:
    with pytest.raises(TypeError, match="add takes a number"):
        State(dict).add("a", number)


def test_an_operation_that_the_value_does_not_allow_is_refused_at_once() -> None:
    state = State(lambda: {"text": "x", "flag": True})
    with pytest.raises(TypeError, match="append needs a list"):
        state.append("text", 1)
    with pytest.raises(TypeError, match="add needs a number"):
        state.add("flag", 1)
    assert state.take() == StateChange({}, ())


def test_a_session_keeps_of_a_change_what_belongs_to_nobody_else() -> None:
    delta = {"a": 1, "app:a": 2, "user:a": 3, "temp:a": 4}
    operations = tuple(Operation("add", key, 1) for key in ("b", "app:b", "user:b", "temp:b"))
    assert own_change(delta, operations) == StateChange({"a": 1}, (Operation("add", "b", 1),))


def test_a_keys_prefix_says_where_it_stands() -> None:
    scopes = Scopes({"a": 1, "c": 4}, {"user:a": 2}, {"app:a": 3})
    assert dict(scopes) == {"a": 1, "c": 4, "user:a": 2, "app:a": 3}
    assert len(scopes) == 4
    assert (scopes.get("user:a"), scopes.get("app:a"), scopes.get("user:b")) == (2, 3, None)
