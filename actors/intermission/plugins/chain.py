"""`Plugins`: an app's plugins, and who of them has a hook."""

from collections.abc import Callable, Sequence
from typing import Any

from intermission.plugins.base import Plugin

__all__ = ["Plugins"]


class Plugins:
    """The plugins of an app, in their order.

    Args:
        plugins: The plugins.

    Raises:
        TypeError: One of them is none.
        ValueError: Two have one name.
    """

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        names: set[str] = set()
        for plugin in plugins:
            if not isinstance(plugin, Plugin):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
                raise TypeError(f"plugins must be instances of Plugin, not {plugin!r}")
            if plugin.name in names:
                raise ValueError(f"two plugins are named {plugin.name!r}; each needs a name of its own")
            names.add(plugin.name)
        self._plugins = tuple(plugins)
        self._hooks: dict[str, tuple[Callable[..., Any], ...]] = {}
        for name in Plugin.hooks():
            mine = getattr(Plugin, name)
            # Not who inherits the one that does nothing: an app pays only for hooks that it has.
            self._hooks[name] = tuple(
                getattr(plugin, name)
                for plugin in self._plugins
                if getattr(getattr(plugin, name), "__func__", None) is not mine
            )

    def hooks(self, name: str) -> tuple[Callable[..., Any], ...]:
        """Return the plugins' own methods of that name, in the order of the plugins."""
        return self._hooks[name]
