"""Waiting for a run: on a thread, inside another run's call, and on an event loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

from intermission.errors import SessionClosedError
from intermission.kernel.dispatcher import blocking_here
from intermission.kernel.waits import ReentrantRunError
from intermission.kernel.workers import Budget
from intermission.runs.current import current, place_of, waiter
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.services import Services

__all__ = [
    "Deadline",
    "in_thread",
    "in_worker",
    "start_in_call",
    "wait_async",
    "waiting",
    "waiting_for_cancel",
]

T = TypeVar("T")

_CANCELLED = "The cancel itself was done, and the run ends; it is only not waited for."


class Deadline:
    """What is left of a time limit.

    Args:
        timeout: Seconds; `None` for no limit.

    Raises:
        ValueError: It is NaN.
    """

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None and timeout != timeout:
            raise ValueError("timeout is NaN: give seconds, or None to wait as long as it takes")
        limit = None if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
        self._until = None if limit is None else time.monotonic() + limit

    @property
    def left(self) -> float | None:
        """Seconds, not below 0; `None` for no limit."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)


def start_in_call(run: Lifecycle, *, detached: bool) -> None:
    """Start a run; in a call of another, it is cancelled with the call, and its work is that run's, too.

    Unless it is `detached`: then it is nobody's.
    """
    outer = None if detached else current()
    if outer is None:
        run.start()
    else:
        run.start(outer.scope, outer.run.work)


@contextmanager
def waiting_for_cancel(run: Lifecycle) -> Generator[None]:
    """As `waiting`, for the end of a run that was just cancelled.

    Raises:
        ReentrantRunError: As `waiting`; it says what was done nevertheless.
    """
    try:
        with waiting(run):
            yield
    except ReentrantRunError as error:
        raise ReentrantRunError(error.chain, _CANCELLED) from None


@contextmanager
def waiting(run: Lifecycle) -> Generator[None]:
    """Wait for a run inside; in a call of another run, that one's session waits for this one's.

    In an actor, the others get another thread meanwhile.

    Raises:
        ReentrantRunError: This one waits for that one, so that neither would ever end.
    """
    outer = waiter()
    if run.result is not None and not run.work.pieces:
        yield
    elif outer is None or run.result is not None:
        with blocking_here():
            yield
    else:
        with run.services.waits.waiting(place_of(outer, run.services), run.key), blocking_here():
            yield


async def wait_async(run: Lifecycle, ready: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait on the running loop until `ready`, which admission, end and termination are looked at for."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits on it any more
            loop.call_soon_threadsafe(changed.set)

    async def until_ready() -> None:
        while not ready():
            changed.clear()
            if run.work.pieces:
                run.work.when_idle(wake)  # once; there may be more afterwards
            if not ready():
                await changed.wait()

    forget = run.listen(wake)
    try:
        await asyncio.wait_for(until_ready(), timeout)
    except TimeoutError:
        return ready()
    finally:
        forget()
    return True


async def in_worker(services: Services, function: Callable[[], T], *, context: Context | None = None) -> T:
    """Call a function that may block on a worker, or the loop's executor if the runner is closed.

    Args:
        services: Whose workers.
        function: The function.
        context: Its context variables; none by default, for a worker is in nobody's call.

    Raises:
        SessionClosedError: This process is a fork of the runner's, which has no workers here.
        Exception: What the function raises.
    """
    answer, call, fail = _answered(function)
    refused = partial(fail, _NoWorkerError())
    try:
        services.workers.submit(call, refused=refused, budget=Budget.RESERVE, context=context)
    except RuntimeError as error:
        raise SessionClosedError(str(error)) from error
    try:
        return await answer
    except _NoWorkerError:
        return await asyncio.get_running_loop().run_in_executor(None, function)


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """Call a function that may block on a daemon thread of its own, with the caller's context variables."""
    answer, call, _ = _answered(function)
    threading.Thread(target=copy_context().run, args=(call,), name=name, daemon=True).start()
    return await answer


def _answered(
    function: Callable[[], T],
) -> tuple["asyncio.Future[T]", Callable[[], None], Callable[[BaseException], None]]:
    """Return a future of the running loop, and what settles it from any thread: a call of the function, or
    an error.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]  # it is a T unless there is an error

    def tell(value: T | None, error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits on it any more
            loop.call_soon_threadsafe(settle, value, error)

    def call() -> None:
        try:
            value = function()
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            tell(None, raised)
        else:
            tell(value, None)

    return answer, call, partial(tell, None)


class _NoWorkerError(Exception):
    """The runner is closed, and has no workers any more."""
