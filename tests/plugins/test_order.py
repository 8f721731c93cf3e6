"""The order of everything in one run: a message, two tools, a transfer, and the other agent's answer."""

import threading
from collections.abc import Callable
from typing import Any

from apps import KEY
from hooks import BOTH_KINDS, app_plugged, of_kind, plugin
from intermission import LlmAgent, RunConfig, Runner, ToolExecution
from intermission.agents.plugins import HOOKS
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog

CALLBACKS = [
    name
    for name in HOOKS
    if name.startswith(("before_agent", "after_agent", "before_model", "after_model", "on_model"))
    or "_tool_" in name
]


class Told:
    """Notes who was called, by plugins and by callbacks."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ended = threading.Event()

    def hook(self, name: str) -> Callable[..., None]:
        def hook(*_: Any, **keywords: Any) -> None:
            agent, tool, event = (keywords.get(key) for key in ("agent", "tool", "event"))
            about = getattr(agent, "name", "") or (tool.declaration.name if tool else "")
            if event is not None:
                about = event.text or ("calls" if event.function_calls else "responses")
            self.heard.append(f"plugin {name.removesuffix('_callback')} {about}".rstrip())
            if name == "on_run_end":
                self.ended.set()

        return hook

    def callback(self, agent: str, name: str, kind: str) -> Callable[..., None]:
        return of_kind(kind, lambda *_: self.heard.append(f"{agent} {name.removesuffix('_callback')}"))

    def callbacks(self, agent: str, kind: str) -> dict[str, Any]:
        return {name: self.callback(agent, name, kind) for name in CALLBACKS}


def around(agent: str, what: str, tool: str = "") -> list[str]:
    return [f"plugin {what} {tool}".rstrip(), f"{agent} {what}"]


@BOTH_KINDS
def test_all_hooks_of_a_turn_with_a_transfer_and_two_tools_are_called_in_one_order(kind: str) -> None:
    told = Told()

    def look() -> str:
        """Look."""
        told.heard.append("look")
        return "seen"

    def fail() -> str:
        """Fail."""
        told.heard.append("fail")
        raise ValueError("no")

    both = calls(("look", {}), ("fail", {}))
    over = calls(("transfer_to_agent", {"agent_name": "expert"}))
    expert = LlmAgent("expert", ScriptedModel("7 km."), **told.callbacks("expert", kind))
    model = ScriptedModel(both, over)
    desk = LlmAgent("desk", model, tools=[look, fail], sub_agents=[expert], **told.callbacks("desk", kind))
    app = app_plugged(desk, plugin("plugin", kind, **{name: told.hook(name) for name in HOOKS}))
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
    with Runner(app, log=MemoryEventLog(), config=config) as runner:
        assert runner.run(**KEY, message="hi").answer() == "7 km."
        assert told.ended.wait(30)

    before_tool, after_tool = "before_tool", "after_tool"
    model_call = [*around("desk", "before_model"), *around("desk", "after_model"), "plugin on_event calls"]
    assert told.heard == [
        "plugin on_user_message",
        "plugin before_run",
        *["plugin before_agent desk", "desk before_agent"],
        *model_call,
        *[*around("desk", before_tool, "look"), "look", *around("desk", after_tool, "look")],
        *[*around("desk", before_tool, "fail"), "fail", *around("desk", "on_tool_error", "fail")],
        "plugin on_event responses",
        *model_call,
        *around("desk", before_tool, "transfer_to_agent"),
        *around("desk", after_tool, "transfer_to_agent"),
        "plugin on_event responses",
        *["plugin before_agent expert", "expert before_agent"],
        *[*around("expert", "before_model"), *around("expert", "after_model")],
        "plugin on_event 7 km.",
        *["plugin after_agent expert", "expert after_agent"],
        *["plugin after_agent desk", "desk after_agent"],
        "plugin after_run",
        "plugin on_run_end",
    ]
