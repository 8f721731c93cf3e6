"""Tools: what a model can call."""

from intermission.tools.base import Tool, ToolArgumentError, ToolContext, ToolResultError, UnknownToolError
from intermission.tools.function import FunctionTool, tool

__all__ = [
    "FunctionTool",
    "Tool",
    "ToolArgumentError",
    "ToolContext",
    "ToolResultError",
    "UnknownToolError",
    "tool",
]
