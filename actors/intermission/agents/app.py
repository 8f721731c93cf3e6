"""`App`: the root agent under the name that its sessions are kept by."""

from collections.abc import Sequence

from intermission.agents.base import BaseAgent, check_name
from intermission.agents.plugins import AnyPlugin, Plugins
from intermission.config import ResumabilityConfig

__all__ = ["App"]


class App:
    """What a `Runner` runs.

    Args:
        name: The app's name, part of every session's key: an identifier; not `"user"`.
        root_agent: The agent that gets the messages.
        plugins: What looks at every run, in this order; see `intermission.Plugin`.
        resumability_config: Whether its runs can be gone on with; by default they cannot.

    Raises:
        ValueError: The name cannot be used, or two plugins share one.
        TypeError: A plugin has no name, or something in the place of a hook.
    """

    def __init__(
        self,
        name: str,
        root_agent: BaseAgent,
        *,
        plugins: Sequence[AnyPlugin] = (),
        resumability_config: ResumabilityConfig | None = None,
    ) -> None:
        check_name("app name", name)
        self.name = name
        self.root_agent = root_agent
        self.plugins = Plugins(plugins)
        self.resumability_config = resumability_config or ResumabilityConfig()

    def __repr__(self) -> str:
        return f"App({self.name!r}, {self.root_agent!r})"
