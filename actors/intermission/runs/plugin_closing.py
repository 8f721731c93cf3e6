"""`PluginClosing`: closes an app's plugins when its runner closes."""

import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any

from intermission.agents.plugins import AnyPlugin
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.loop_task import close_awaitable
from intermission.kernel.workers import Budget
from intermission.runs.closers import awaited_by_close
from intermission.runs.services import Services

__all__ = ["PluginClosing"]


class PluginClosing:
    """Calls `close()` of the plugins that have it, plain or async, once.

    Args:
        plugins: The plugins.
        services: Where it is called: workers, and the loop of async tools.
    """

    def __init__(self, plugins: Iterable[AnyPlugin], services: Services) -> None:
        closes = ((plugin.name, getattr(plugin, "close", None)) for plugin in plugins)
        self._left = [(name, close) for name, close in closes if callable(close)]
        self._services = services

    def close(self, timeout: float) -> list[Exception]:
        """Close all at once, and return what went wrong.

        Args:
            timeout: Seconds to wait for them; one that takes longer is a `TimeoutError`, and goes on.
        """
        if self._services.workers.is_foreign:
            return []  # a fork of the process has none of the threads; the plugins are the parent's
        under_way: list[tuple[str, Future[Any]]] = []
        while self._left:
            name, close = self._left.pop(0)
            reply: Future[Any] = Future()
            under_way.append((name, reply))
            refused = _failing(reply, RuntimeError(f"no worker was free to close plugin {name!r}"))
            self._services.workers.submit(
                self._call, name, close, reply, refused=refused, budget=Budget.HOOKS
            )
        wait([reply for _, reply in under_way], timeout)
        errors: list[Exception] = []
        for name, reply in under_way:
            error = reply.exception() if reply.done() else TimeoutError(f"plugin {name!r} is still closing")
            if isinstance(error, Exception):
                errors.append(error)
            elif error is not None:
                errors.append(ActorCrashError.of(f"plugin {name!r}", error))
        return errors

    def _call(self, name: str, close: Callable[[], Any], reply: "Future[Any]") -> None:
        def done(value: Any, error: BaseException | None) -> None:
            if error is None:
                reply.set_result(value)
            else:
                reply.set_exception(error)

        try:
            with awaited_by_close(self._services, self):
                answer = close()
            if not inspect.isawaitable(answer):
                done(None, None)
                return
        except BaseException as error:  # noqa: BLE001 - it is the closer's
            done(None, error)
            return
        try:
            with awaited_by_close(self._services, self):
                self._services.loops.start(answer, done, name=f"close {name}")
        except RuntimeError as error:
            close_awaitable(answer)
            done(None, error)


def _failing(reply: "Future[Any]", error: Exception) -> Callable[[], None]:
    def fail() -> None:
        with suppress(Exception):
            reply.set_exception(error)

    return fail
