"""Plugins themselves: what an app takes for one, and how they are closed."""

import asyncio
from pathlib import Path

import pytest

from hooks import app_plugged, plugin
from intermission import App, LlmAgent, Plugin, Runner
from intermission.testing import Gate, ScriptedModel
from intermission_storage import MemoryEventLog


def llm() -> LlmAgent:
    return LlmAgent("agent", ScriptedModel())


def test_a_plugin_needs_a_name_of_its_own_and_hooks_that_can_be_called() -> None:
    agent = llm()
    with pytest.raises(ValueError, match="a plugin needs a name"):
        Plugin("")
    with pytest.raises(ValueError, match="two plugins are named 'one'"):
        app_plugged(agent, Plugin("one"), Plugin("one"))
    with pytest.raises(TypeError, match="instances of Plugin"):
        App("app", agent, plugins=[Plugin])  # pyright: ignore[reportArgumentType]  # what is refused
    wrong = Plugin("one")
    setattr(wrong, "on_run_end", "no function")  # noqa: B010  # what no type checker would let through
    with pytest.raises(TypeError, match="on_run_end of plugin 'one' cannot be called"):
        app_plugged(agent, wrong)


class Closing(Plugin):
    """Counts how often it is closed."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        super().__init__(name)
        self.error, self.closed = error, 0

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


class ClosingLater(Closing):
    """The same, on the loop."""

    async def close(self) -> None:  # type: ignore[override]  # either is allowed
        await asyncio.sleep(0)
        super().close()


def test_plugins_are_closed_once_with_the_runner_all_of_them_whatever_one_raises(tmp_path: Path) -> None:
    one, two = Closing("one", ValueError("one")), ClosingLater("two", KeyError("two"))
    three, four = Closing("three"), ClosingLater("four")
    runner = Runner(app_plugged(llm(), one, two, three, four), log=tmp_path / "log")
    with pytest.raises(ExceptionGroup, match="plugins could not be closed") as raised:
        runner.close()
    assert raised.value.exceptions == (one.error, two.error)
    runner.close()
    assert [each.closed for each in (one, two, three, four)] == [1, 1, 1, 1]


def test_a_plugin_that_does_not_come_to_the_end_of_its_close_does_not_hold_the_runner() -> None:
    gate = Gate()
    slow = plugin("slow")
    slow.close = gate.wait  # type: ignore[attr-defined]  # a plugin need not have it
    runner = Runner(app_plugged(llm(), slow), log=MemoryEventLog())
    with pytest.raises(TimeoutError, match="'slow' is still closing"):
        runner.close(grace=0)
    gate.open()
