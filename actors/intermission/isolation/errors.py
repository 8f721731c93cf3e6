"""What goes wrong with tools in processes of their own."""

from typing import Self

from intermission.errors import IntermissionError

__all__ = ["ReadOnlyContextError", "ToolProcessError", "ToolRaisedError", "UnguardedScriptError"]


class ReadOnlyContextError(IntermissionError, TypeError):
    """A tool with `isolation="process"` was to change what it can only read. Nothing was changed.

    Return the value, and let a callback after the call, or a tool with `isolation="thread"`, do the rest.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be changed by a tool with isolation='process', which has only a copy. Nothing "
            "was changed; return the value, and let a callback after the call, or a tool with "
            "isolation='thread', do the rest."
        )


class ToolProcessError(IntermissionError):
    """The process of a tool with `isolation="process"` gave no answer: it was not started, or died.

    The model is told that the tool failed, and the run goes on.

    Attributes:
        begun: Whether the tool may have had its effect.
    """

    def __init__(self, message: str, *, begun: bool) -> None:
        super().__init__(message)
        self.begun = begun

    @classmethod
    def not_begun(cls, why: str) -> Self:
        """The tool was not called."""
        return cls(f"the tool was not called in a process of its own: {why}. Nothing was begun.", begun=False)

    @classmethod
    def died(cls, tool: str, how: str) -> Self:
        """The process ended before it had answered."""
        return cls(
            f"the process of tool {tool!r} {how} before it had answered. The call may or may not have "
            "had its effect.",
            begun=True,
        )


class ToolRaisedError(IntermissionError):
    """A tool with `isolation="process"` raised. The log has the traceback; the model is told that it failed.

    Attributes:
        tool: The tool's name.
        kind: The name of what it raised, with its module unless that is `builtins`.
        message: The text of that.
        traceback: As the child would print it.
    """

    def __init__(self, tool: str, pid: int, kind: str, message: str, traceback: str) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.tool = tool
        self.kind = kind
        self.message = message
        self.traceback = traceback
        self.add_note(f"In process {pid} of tool {tool!r}:\n{traceback.rstrip()}")


class UnguardedScriptError(IntermissionError):
    """A process loads a script to find a tool in it, and the script starts a run. Nothing was begun.

    Attributes:
        script: What was loaded.
    """

    def __init__(self, script: str) -> None:
        super().__init__(
            f"{script} starts a run when it is only loaded, to find a tool in it. Nothing was begun. Put "
            "what it does when it is run under `if __name__ == '__main__':`, or move the tool into a module "
            "of its own."
        )
        self.script = script
