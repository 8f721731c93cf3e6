"""`Plugins`: an app's plugins, and who of them has a hook."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["HOOKS", "AnyPlugin", "Plugins", "unused"]

HOOKS = (
    "on_user_message_callback",
    "before_run_callback",
    "on_event_callback",
    "after_run_callback",
    "on_run_error_callback",
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "on_model_error_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
    "on_run_end",
    "on_residual_end",
)
"""The names of all hooks."""

_F = TypeVar("_F", bound=Callable[..., Any])
_UNUSED: set[Callable[..., Any]] = set()


def unused(function: _F) -> _F:
    """Mark a method as one that does nothing: nobody calls it before it is overridden."""
    _UNUSED.add(function)
    return function


class AnyPlugin(Protocol):
    """What an app takes for a plugin. Hooks are looked for by their names; `intermission.Plugin` has all."""

    @property
    def name(self) -> str:
        """What tells it from the app's other plugins."""
        ...


class Plugins:
    """The plugins of an app, in their order.

    Args:
        plugins: The plugins.

    Attributes:
        to_close: Those that are closed with the runner.

    Raises:
        TypeError: One has no name, or something in the place of a hook that cannot be called.
        ValueError: Two have one name.
    """

    def __init__(self, plugins: Sequence[AnyPlugin] = ()) -> None:
        names: set[str] = set()
        for plugin in plugins:
            name: object = getattr(plugin, "name", None)
            if not isinstance(name, str) or isinstance(plugin, type):
                raise TypeError(f"plugins must be instances of Plugin, not {plugin!r}")
            if name in names:
                raise ValueError(f"two plugins are named {name!r}; each needs a name of its own")
            names.add(name)
        self._plugins = tuple(plugins)
        self.to_close = self._plugins
        # Only what is defined by somebody: an app pays for no hook that it does not have.
        self._hooks = {name: tuple(self._defined(name)) for name in HOOKS}

    def lent(self) -> "Plugins":
        """Return the same plugins for another runner, which does not close them."""
        lent = Plugins(self._plugins)
        lent.to_close = ()
        return lent

    def hooks(self, name: str) -> tuple[Callable[..., Any], ...]:
        """Return the plugins' own methods of that name, in the order of the plugins."""
        return self._hooks[name]

    def _defined(self, name: str) -> Iterator[Callable[..., Any]]:
        for plugin in self._plugins:
            method: Any = getattr(plugin, name, None)
            if method is None or getattr(method, "__func__", None) in _UNUSED:
                continue
            if not callable(method):
                raise TypeError(f"{name} of plugin {plugin.name!r} cannot be called: {method!r}")
            yield method
