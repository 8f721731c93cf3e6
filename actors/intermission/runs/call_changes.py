"""What a call has changed and asks for, as the record of its end keeps it until an event does. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from intermission.actions import Actions
from intermission.events import NO_ACTIONS, EventActions
from intermission.state import TEMP, StateChange

__all__ = ["kept_changes", "taken_up"]


def kept_changes(change: StateChange, actions: Actions) -> EventActions:
    """Return what is kept, which is nothing `temp:`; `NO_ACTIONS` if there is nothing to keep."""
    delta = {key: value for key, value in change.delta.items() if not key.startswith(TEMP)}
    operations = tuple(one for one in change.operations if not one.key.startswith(TEMP))
    kept = EventActions(state_delta=delta, state_operations=operations) if delta or operations else NO_ACTIONS
    return replace(actions).take(kept)


def taken_up(kept: Mapping[str, Any]) -> tuple[StateChange, Actions]:
    """Return what was kept, from its JSON form."""
    found = EventActions.from_dict(kept)
    actions = Actions(found.skip_summarization, found.transfer_to_agent, found.escalate, found.end_of_agent)
    return StateChange(dict(found.state_delta), found.state_operations), actions
