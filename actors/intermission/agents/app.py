"""`App`: the root agent under the name that its sessions are kept by."""

from collections.abc import Sequence

from intermission.agents.base import BaseAgent, check_name
from intermission.plugins.base import Plugin
from intermission.plugins.chain import Plugins

__all__ = ["App"]


class App:
    """What a `Runner` runs.

    Args:
        name: The app's name, part of every session's key: an identifier; not `"user"`.
        root_agent: The agent that gets the messages.
        plugins: What looks at every run, in this order.

    Raises:
        ValueError: The name cannot be used, or two plugins share one.
    """

    def __init__(self, name: str, root_agent: BaseAgent, *, plugins: Sequence[Plugin] = ()) -> None:
        check_name("app name", name)
        self.name = name
        self.root_agent = root_agent
        self.plugins = Plugins(plugins)
