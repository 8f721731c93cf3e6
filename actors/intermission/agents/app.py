"""`App`: the root agent under the name that its sessions are kept by."""

from collections.abc import Sequence
from dataclasses import replace

from intermission.agents.base import BaseAgent, check_name
from intermission.agents.compaction import EventsCompactionConfig
from intermission.agents.llm import LlmAgent
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
        events_compaction_config: When older events are summed up for the models; by default never.

    Raises:
        ValueError: The name cannot be used, two plugins share one, or there is no model to sum events up.
        TypeError: The name is no text, the root agent no agent, or a plugin has no name, or something in the
            place of a hook.
    """

    def __init__(
        self,
        name: str,
        root_agent: BaseAgent,
        *,
        plugins: Sequence[AnyPlugin] = (),
        resumability_config: ResumabilityConfig | None = None,
        events_compaction_config: EventsCompactionConfig | None = None,
    ) -> None:
        check_name("app name", name)
        if not isinstance(root_agent, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"root agent of app {name!r} must be an agent, not {root_agent!r}")
        self.name = name
        self.root_agent = root_agent
        self.plugins = Plugins(plugins)
        self.resumability_config = resumability_config or ResumabilityConfig()
        self.events_compaction_config = _with_summarizer(events_compaction_config, root_agent)

    def __repr__(self) -> str:
        return f"App({self.name!r}, {self.root_agent!r})"


def _with_summarizer(config: EventsCompactionConfig | None, root: BaseAgent) -> EventsCompactionConfig | None:
    if config is None or config.summarizer is not None:
        return config
    if not isinstance(root, LlmAgent):
        raise ValueError(
            f"no model sums events up: root agent {root.name!r} has none. Give the EventsCompactionConfig a "
            "summarizer: a model, or a function of the events."
        )
    return replace(config, summarizer=root.model)
