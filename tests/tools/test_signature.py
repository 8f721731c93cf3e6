"""What can be a tool's function, and which of its parameters are the model's to give."""

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest

from intermission import FunctionTool, ToolContext
from intermission.tools.futures import FutureResult
from turns import context


def by_name(x: int, tool_context: Any) -> Any:
    return tool_context.function_call_id


def by_name_of_a_class_that_is_not_imported(x: int, tool_context: Any) -> Any:
    return tool_context.function_call_id


by_name_of_a_class_that_is_not_imported.__annotations__["tool_context"] = "Nowhere"


def by_annotation(x: int, where: ToolContext) -> str:
    return where.function_call_id


def by_text(x: int, where: "ToolContext") -> str:
    return where.function_call_id


def by_union(x: int, where: ToolContext | None = None) -> str:
    assert where is not None
    return where.function_call_id


def by_optional(x: int, where: "Optional[ToolContext]") -> str:  # noqa: UP045 - the older way to write it
    assert where is not None
    return where.function_call_id


def by_annotated(x: int, where: Annotated[ToolContext, "the call's"]) -> str:
    return where.function_call_id


CONTEXTS: list[Callable[..., Any]] = [
    by_name,
    by_name_of_a_class_that_is_not_imported,
    by_annotation,
    by_text,
    by_union,
    by_optional,
    by_annotated,
]


def test_a_function_that_takes_the_context_twice_is_refused() -> None:
    def twice(where: ToolContext, tool_context: ToolContext) -> None: ...

    with pytest.raises(TypeError, match="'where' and 'tool_context' both take the call's context"):
        FunctionTool(twice)


def test_what_has_no_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="tool 'dict': no signature found"):
        FunctionTool(dict)


@pytest.mark.parametrize("function", CONTEXTS, ids=lambda function: function.__name__)
def test_the_context_is_found_and_not_shown_to_the_model(function: Callable[..., Any]) -> None:
    tool = FunctionTool(function)

    assert list(tool.declaration.parameters["properties"]) == ["x"]
    assert tool.call({"x": 1}, context()) == {"result": "c1"}


def test_a_return_annotation_that_cannot_be_resolved_does_not_matter() -> None:
    def look(x: int) -> None: ...

    look.__annotations__["return"] = "Nowhere"
    assert list(FunctionTool(look).declaration.parameters["properties"]) == ["x"]


class Scales:
    """Weigh things."""

    def weigh(self, item: str) -> str:
        """Weigh it."""
        return item

    async def weigh_later(self, item: str) -> str:
        """Weigh it later."""
        return item

    @staticmethod
    def weigh_anywhere(item: str) -> str:
        """Weigh it anywhere."""
        return item

    @classmethod
    async def weigh_all(cls, item: str) -> str:
        """Weigh all."""
        return item

    def __call__(self, item: str) -> str:
        return item


class LaterScales:
    async def __call__(self, item: str) -> str:
        """Weigh things later."""
        return item


def in_unit(unit: str, item: str) -> str:
    """Weigh in a unit."""
    return item + unit


async def in_unit_later(unit: str, item: str) -> str:
    """Weigh in a unit later."""
    return item + unit


def settled(result: Any) -> Any:
    """What a tool answers, in the end."""

    async def wait() -> Any:
        return await result

    return asyncio.run(wait()) if inspect.isawaitable(result) else result


@pytest.mark.parametrize(
    ("function", "description", "is_async"),
    [
        (Scales().weigh, "Weigh it.", False),
        (Scales().weigh_later, "Weigh it later.", True),
        (Scales.weigh_anywhere, "Weigh it anywhere.", False),
        (Scales.weigh_all, "Weigh all.", True),
        (Scales(), "Weigh things.", False),
        (LaterScales(), "Weigh things later.", True),
        (functools.partial(in_unit, ""), "Weigh in a unit.", False),
        (functools.partial(in_unit_later, unit=""), "Weigh in a unit later.", True),
        (functools.partial(Scales().weigh_later), "Weigh it later.", True),
        (functools.partial(functools.partial(in_unit, unit="")), "Weigh in a unit.", False),
    ],
)
def test_methods_partials_and_objects_can_be_tools(
    function: Callable[..., Any], description: str, is_async: bool
) -> None:
    tool = FunctionTool(function, name="weigh")

    assert tool.declaration.description == description
    assert tool.is_async is is_async
    assert tool.declaration.parameters == {
        "type": "object",
        "properties": {"item": {"type": "string"}},
        "required": ["item"],
    }
    assert settled(tool.call({"item": "box"}, context())) == {"result": "box"}


def test_what_a_partial_has_bound_is_not_the_models_to_give() -> None:
    tool = FunctionTool(functools.partial(in_unit, unit=" kg"), name="weigh")

    with pytest.raises(Exception, match="unit: Extra inputs are not permitted"):
        tool.call({"item": "box", "unit": " lb"}, context())
    assert tool.call({"item": "box"}, context()) == {"result": "box kg"}


def test_a_wrapped_function_has_the_signature_of_what_it_wraps() -> None:
    @functools.wraps(by_annotation)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return by_annotation(*args, **kwargs)

    tool = FunctionTool(wrapped)

    assert list(tool.declaration.parameters["properties"]) == ["x"]
    assert tool.call({"x": 1}, context()) == {"result": "c1"}


def test_coroutines_tasks_and_futures_that_a_function_returns_are_waited_for() -> None:
    async def value() -> int:
        return 3

    def coroutine() -> Any:
        return value()

    def task() -> Any:
        return asyncio.ensure_future(value())

    async def later_task() -> Any:
        return asyncio.ensure_future(value())

    def future() -> Any:
        done: concurrent.futures.Future[int] = concurrent.futures.Future()
        done.set_result(3)
        return done

    async def later_future() -> Any:
        return future()

    async def answer(function: Callable[..., Any]) -> Any:
        result: Any = FunctionTool(function).call({}, context())
        return await result

    for function in (coroutine, task, later_task, future, later_future):
        assert asyncio.run(answer(function)) == {"result": 3}


def test_what_is_not_awaited_is_ended_where_it_can_be() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> tuple[bool, bool, bool]:
        made: list[Any] = []

        def task() -> Any:
            made.append(asyncio.ensure_future(forever()))
            return made[0]

        answer: Any = FunctionTool(task).call({}, context())
        ended = answer.close()
        await asyncio.wait(made)
        return ended, made[0].cancelled(), answer.close()

    assert asyncio.run(main()) == (False, True, True)


def test_a_future_that_runs_says_that_it_goes_on() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    answer: Any = FunctionTool(lambda: future, name="f").call({}, context())

    assert answer.close() is False
    future.set_result(1)
    assert FutureResult(future).close()
