"""`ProcessFunction`: a module-level function that is called in a child process, by plain values."""

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from intermission.isolation.children import call_alone
from intermission.isolation.errors import ToolProcessError, ToolRaisedError
from intermission.isolation.setting import main_script, refuse_while_loading
from intermission.isolation.tool_process import Reply, ToolProcess
from intermission.kernel.scope import Cancelled
from intermission.tools.base import ToolArgumentError, ToolContext, ToolResultError
from intermission_storage import EncodingError
from intermission_storage.codec import encode_value

__all__ = ["ProcessFunction"]

_ALONE = 5.0  # seconds of grace for a call of no run
_MAIN = {"__main__", "__mp_main__"}  # the second is its name where it was loaded to find something in it


class ProcessFunction:
    """A function, as another process finds it.

    Args:
        func: The function.
        tool: The tool's name, for messages.

    Raises:
        TypeError: Another process would not find it by the names of its module and its own, or it is async.
    """

    def __init__(self, func: Callable[..., Any], tool: str) -> None:
        self._module, self._name = _address(func, tool)
        self._func = func
        self._tool = tool

    def call(
        self,
        given: Mapping[str, Any],
        checked: Mapping[str, Any],
        context: ToolContext,
        context_name: str | None,
    ) -> dict[str, Any]:
        """Call the function in a child, and return its response.

        Args:
            given: The arguments as the model gave them.
            checked: As the function takes them; if these are plain values they are passed on, and what was
                given otherwise, to be checked once more in the child.
            context: The call's.
            context_name: The parameter that gets it, if one does.

        Raises:
            ToolArgumentError: See `Tool.call`; or something in the arguments is no plain value.
            ToolResultError: See `Tool.call`.
            ToolRaisedError: The function raised.
            ToolProcessError: There is no answer of the child; or the function's module, which was still being
                loaded when the tool was built, has another one under its name.
            Cancelled: The call was given up, and the child has ended.
        """
        refuse_while_loading()
        if _is_another(self._func):
            raise ToolProcessError.not_begun(_another(self._func))
        args, check = _plain(checked, given)
        request = {
            "module": self._module,
            "name": self._name,
            "args": args,
            "check": check,
            "context": None if context_name is None else _known(context),
            "context_name": context_name,
        }
        scope, owner = context.cancellation, context.owner
        if owner is None:
            reply, process = call_alone(request, scope, _ALONE)
        else:
            reply, process = owner.children.call(request, scope, owner, context.function_call_id)
        if reply is None:
            scope.check()
            raise ToolProcessError.died(self._tool, process.end_as_text)
        return self._value(reply, process)

    def _value(self, reply: Reply, process: ToolProcess) -> dict[str, Any]:
        *said, _ = reply.values
        match reply.kind:
            case "value":
                response: dict[str, Any] = said[0]
                return response
            case "arguments":
                raise ToolArgumentError(*said)
            case "result":
                raise ToolResultError(*said)
            case "cancelled":
                raise Cancelled(*said)
            case "raised":
                raise ToolRaisedError(self._tool, process.pid, *said)
            case _:
                raise ToolProcessError.not_begun(*said)


def _plain(checked: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    args = dict(checked)
    try:
        encode_value(args)
        return args, False
    except EncodingError:
        args = dict(given)
    try:
        encode_value(args)
    except EncodingError as error:
        where = error.path.replace("data", "arguments", 1)
        raise ToolArgumentError(f"what is at {where} cannot be passed to another process") from error
    return args, True


def _known(context: ToolContext) -> dict[str, Any]:
    state = dict(context.state)
    try:
        encode_value(state)
    except EncodingError as error:
        where = error.path.replace("data", "state", 1)
        raise ToolProcessError.not_begun(f"what is at {where} cannot be passed to another process") from error
    return {
        "function_call_id": context.function_call_id,
        "invocation_id": context.invocation_id,
        "user_id": context.user_id,
        "session_id": context.session_id,
        "state": state,
        "confirmation": None if context.confirmation is None else context.confirmation.to_dict(),
    }


def _address(func: Any, tool: str) -> tuple[str, str]:
    """Return the names of a function's module and its own.

    Raises:
        TypeError: See `ProcessFunction`.
    """
    problem = _problem(func)
    if problem is not None:
        raise TypeError(f"tool {tool!r} cannot have isolation='process': {problem}")
    return "__main__" if func.__module__ in _MAIN else func.__module__, func.__name__


def _problem(func: Any) -> str | None:
    if inspect.iscoroutinefunction(func):
        return (
            "it is async, and its child has no loop; give a plain function, which may call asyncio.run(...), "
            "or isolation='thread'"
        )
    if not isinstance(func, types.FunctionType):
        return (
            f"it is an instance of {type(func).__name__}; give a function that is defined at the top level "
            "of a module, so that the child finds it there"
        )
    if func.__name__ == "<lambda>" or func.__qualname__ != func.__name__:
        return (
            f"{func.__qualname__} is not defined at the top level of a module, where its child could find "
            "it; move it there, and pass what it needs as arguments"
        )
    if func.__module__ in _MAIN and main_script() == ("", ""):
        return (
            "what is typed at a prompt or in a notebook, or given by -c or standard input, is in no file "
            "that its child could load; put the function into a module"
        )
    return _unless_found(func)


def _unless_found(func: types.FunctionType) -> str | None:
    module: Any = sys.modules.get(func.__module__)
    if module is None:
        return f"there is no module {func.__module__!r}"
    found = getattr(module, func.__name__, None)
    here = getattr(found, "func", found)
    # A decorator comes before the name; then the module is on its way.
    spec = getattr(module, "__spec__", None)
    is_on_its_way = func.__module__ in _MAIN or getattr(spec, "_initializing", False)
    if found is None:
        if is_on_its_way:
            return None
        return f"module {func.__module__!r} has no {func.__name__!r}, so its child would not find it"
    if getattr(here, "__qualname__", None) != func.__qualname__ or here.__module__ != func.__module__:
        return _another(func)
    return _another(func) if _is_another(func) and not is_on_its_way else None


def _is_another(func: Callable[..., Any]) -> bool:
    """Return whether a child would find what a function wraps, or what wraps it, in its place.

    They have the same names, as `functools.wraps` gives them. If neither wraps the other, the module was
    loaded again.
    """
    found = getattr(sys.modules.get(func.__module__), func.__name__, None)
    here = getattr(found, "func", found)
    return here is not func and (_wraps(func, here) or _wraps(here, func))


def _wraps(outer: Any, inner: object) -> bool:
    while (outer := getattr(outer, "__wrapped__", None)) is not None:
        if outer is inner:
            return True
    return False


def _another(func: Callable[..., Any]) -> str:
    return (
        f"{func.__name__!r} of module {func.__module__!r} is something else, which its child would find "
        "instead; give the function a name of its own"
    )
