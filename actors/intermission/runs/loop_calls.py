"""`await_on_loop`: wait, on a thread that may block, for something that runs on the loop of async tools."""

from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any

from intermission.kernel.loop_task import close_awaitable
from intermission.kernel.promise import Promise
from intermission.kernel.scope import CancelScope
from intermission.runs.services import Services

__all__ = ["await_on_loop"]


def await_on_loop(services: Services, scope: CancelScope, awaitable: Awaitable[Any], name: str) -> Any:
    """Return what comes of an awaitable, when it has really ended; a cancel of the scope cancels its task.

    Raises:
        RuntimeError: The runner is closed; nothing was awaited.
        BaseException: Whatever the awaitable raises.
    """
    reply: Promise[Any] = Promise()

    def done(value: Any, error: BaseException | None) -> None:
        if error is None:
            reply.keep(value)
        else:
            reply.fail(error)

    try:
        task = services.loops.start(awaitable, done, context=copy_context(), name=name)
    except RuntimeError:
        close_awaitable(awaitable)
        raise
    hook = scope.on_cancel_now(task.cancel)
    try:
        return reply.wait()
    finally:
        hook.remove()
