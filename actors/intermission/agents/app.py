"""`App`: the root agent under the name that its sessions are kept by."""

from intermission.agents.base import BaseAgent, check_name

__all__ = ["App"]


class App:
    """What a `Runner` runs.

    Args:
        name: The app's name, part of every session's key: an identifier; not `"user"`.
        root_agent: The agent that gets the messages.

    Raises:
        ValueError: The name cannot be used.
    """

    def __init__(self, name: str, root_agent: BaseAgent) -> None:
        check_name("app name", name)
        self.name = name
        self.root_agent = root_agent
