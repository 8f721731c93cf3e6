"""Tools: what a model can call."""

from intermission.tools.base import Tool, ToolArgumentError, ToolContext
from intermission.tools.function import FunctionTool

__all__ = ["FunctionTool", "Tool", "ToolArgumentError", "ToolContext"]
