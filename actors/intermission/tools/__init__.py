"""Tools: what a model can call."""

from intermission.tools.base import Tool, ToolArgumentError, ToolContext, ToolResultError, UnknownToolError
from intermission.tools.function import FunctionTool, LongRunningFunctionTool, tool

__all__ = [
    "FunctionTool",
    "LongRunningFunctionTool",
    "Tool",
    "ToolArgumentError",
    "ToolContext",
    "ToolResultError",
    "UnknownToolError",
    "tool",
]
