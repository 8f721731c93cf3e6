"""`perform`: do the steps of a tool call on this thread, and, from the first awaitable on, on the loop."""

import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import copy_context
from typing import Any, TypeAlias

from intermission.errors import OverloadedError
from intermission.kernel.loop_task import close_awaitable
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.kernel.workers import Budget
from intermission.runs.async_calls import CANCEL_ERRORS
from intermission.runs.calls import CallGivenUpError
from intermission.runs.tool_hooks import Step, Steps
from intermission.tools.futures import FutureResult

__all__ = ["End", "Rest", "perform"]

End: TypeAlias = tuple[Mapping[str, Any] | None, Exception | None]
"""What steps came to on the loop: a response, or what a hook or the tool raised."""

_Submit: TypeAlias = Callable[..., None]


def perform(steps: Steps, scope: CancelScope, submit: _Submit) -> "Mapping[str, Any] | Rest":
    """Do steps until the last one, or until one has to be awaited.

    Args:
        steps: What is to be done.
        scope: The call's.
        submit: Has a worker do something: `Environment.submit`.

    Raises:
        Exception: What the steps raise.
        Cancelled: The call was given up between two steps.
    """
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = _next(steps, value, error)
        except StopIteration as stop:
            response: Mapping[str, Any] = stop.value
            return response
        scope.check()  # a step may have taken so long that the call was given up meanwhile
        value = error = None
        try:
            value = step.function()
        except (Exception, *CANCEL_ERRORS) as raised:
            if isinstance(raised, Cancelled) and scope.cancelled:
                raise
            error = raised
        if inspect.isawaitable(value):
            step.awaited = True
            return Rest(steps, value, scope, submit)


def _next(steps: Steps, value: Any, error: BaseException | None) -> Step:
    return steps.send(value) if error is None else steps.throw(error)


class Rest(Awaitable[End]):
    """What is left of a call's steps when one of them is awaited.

    No thread waits for it. Steps that may block are done by workers.
    """

    def __init__(self, steps: Steps, awaitable: Awaitable[Any], scope: CancelScope, submit: _Submit) -> None:
        self._steps = steps
        self._awaitable = awaitable
        self._scope = scope
        self._submit = submit

    def __await__(self) -> Generator[Any, Any, End]:
        return self._go_on().__await__()

    def close(self) -> bool:
        """Nobody will await it; return whether nothing of it goes on."""
        return close_awaitable(self._awaitable)

    async def _go_on(self) -> End:
        value, error = await self._outcome(self._awaitable)
        while True:
            try:
                step = _next(self._steps, value, error)
            except StopIteration as stop:
                return stop.value, None
            except Exception as raised:  # noqa: BLE001 - it is told to whoever made the call
                return None, raised
            value, error = await self._outcome(self._perform(step))

    async def _outcome(self, awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
        try:
            return await awaitable, None
        except CANCEL_ERRORS as error:
            if self._scope.cancelled:
                raise
            return None, error  # by somebody else than us, and so a failure
        except Exception as error:  # noqa: BLE001 - it is for the steps
            return None, error

    async def _perform(self, step: Step) -> Any:
        self._scope.check()
        value = step.function() if step.on_loop else await self._on_worker(step)
        if inspect.isawaitable(value):
            step.awaited = True
            value = await value
        return value

    def _on_worker(self, step: Step) -> FutureResult[Any]:
        """Have a worker do a step. A cancel does not let go of one that has begun: its end is the call's."""
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                value = step.function()
            except BaseException as error:  # noqa: BLE001 - it is raised where the step is awaited
                done.set_exception(error)
            else:
                done.set_result(value)

        def refused() -> None:
            if done.set_running_or_notify_cancel():
                done.set_exception(_no_worker(step))

        self._submit(work, refused=refused, budget=step.budget, context=copy_context())
        return FutureResult(done)


def _no_worker(step: Step) -> Exception:
    if step.budget is Budget.CALLS:
        return CallGivenUpError("overload", "no worker was free in time", begun=False)
    return OverloadedError("no worker was free in time for a hook on a tool call. Its outcome is not known.")
