"""Plugins and callbacks of a test's own functions, plain or async."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apps import APP
from intermission import App, BaseAgent, Plugin

__all__ = ["BOTH_KINDS", "app_plugged", "doing", "of_kind", "plugin"]

BOTH_KINDS = pytest.mark.parametrize("kind", ["plain", "async"])
"""Runs a test with hooks of each kind."""


def of_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, or an async one that does the same after a turn of the loop."""
    if kind == "plain":
        return function

    async def later(*args: Any, **keywords: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **keywords)

    return later


def doing(function: Callable[[], Any]) -> Callable[..., Any]:
    """Return a hook that does this, whatever it is given."""

    def hook(*_: Any, **__: Any) -> Any:
        return function()

    return hook


def plugin(name: str = "plugin", kind: str = "plain", /, **hooks: Callable[..., Any]) -> Plugin:
    """Return a plugin with these functions as its hooks."""
    made = Plugin(name)
    for hook, function in hooks.items():
        setattr(made, hook, of_kind(kind, function))
    return made


def app_plugged(agent: BaseAgent, *plugins: Plugin) -> App:
    """An app of this agent with plugins."""
    return App(APP, agent, plugins=plugins)
