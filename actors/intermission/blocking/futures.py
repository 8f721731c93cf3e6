"""`result` and `wait_futures`: the futures of `concurrent.futures`, with a scope."""

from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future
from concurrent.futures import wait as wait_plainly
from threading import Condition
from typing import Any, NamedTuple, TypeVar, cast

from intermission.blocking.parking import Parking, scope_for
from intermission.kernel.scope import Cancelled, CancelScope

__all__ = ["DoneAndNotDone", "result", "wait_futures"]

T = TypeVar("T")


class DoneAndNotDone(NamedTuple):
    """What became of several futures.

    Attributes:
        done: Those that are done.
        not_done: The others.
    """

    done: "set[Future[Any]]"
    not_done: "set[Future[Any]]"


def result(
    future: "Future[T]",
    timeout: float | None = None,
    *,
    cancel_unstarted: bool = False,
    scope: CancelScope | None = None,
) -> T:
    """Wait for a future, as `future.result(timeout)`.

    Giving up the wait leaves the future as it is, for others who wait for it, and for its work.

    Args:
        future: The future.
        timeout: Seconds; None: as long as it takes.
        cancel_unstarted: Whether to cancel the future if the scope is cancelled and its work has not begun.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled, and the future was not done.
        TimeoutError: It was not done in time.
        concurrent.futures.CancelledError: Somebody has cancelled the future.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    _check_kind("result", future)
    try:
        scope = scope_for("result", scope)
        if scope is not None and not future.done():
            _wait_for(future, Parking(scope, timeout))
            if not future.done():
                scope.check()
                raise TimeoutError(f"the future was not done within {timeout} s; it goes on")
    except Cancelled:
        if cancel_unstarted:
            future.cancel()
        raise
    return future.result(timeout)


def wait_futures(
    futures: "Iterable[Future[Any]]",
    timeout: float | None = None,
    *,
    return_when: str = ALL_COMPLETED,
    scope: CancelScope | None = None,
) -> DoneAndNotDone:
    """Wait for several futures, as `concurrent.futures.wait`.

    Giving up the wait leaves the futures as they are.

    Args:
        futures: The futures.
        timeout: Seconds; None: as long as it takes.
        return_when: `ALL_COMPLETED`, `FIRST_COMPLETED` or `FIRST_EXCEPTION` of `concurrent.futures`.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Returns:
        Which are done and which are not, at the end of the time or of the wait.

    Raises:
        Cancelled: The scope is cancelled, and what was waited for had not come true.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("wait_futures", scope)
    all_of_them = set(futures)
    for future in all_of_them:
        _check_kind("wait_futures", future)
    if return_when not in _ENOUGH:
        raise ValueError(f"return_when is {return_when!r}; it can be {', '.join(_ENOUGH)}")
    if scope is None:
        return DoneAndNotDone(*wait_plainly(all_of_them, timeout, return_when))
    is_enough, parking = _ENOUGH[return_when], Parking(scope, timeout)
    while True:
        done = {future for future in all_of_them if future.done()}
        pending = all_of_them - done
        if not pending or is_enough(done):
            return DoneAndNotDone(done, pending)
        scope.check()
        if parking.is_over:
            return DoneAndNotDone(done, pending)
        if return_when == ALL_COMPLETED:
            _wait_for(next(iter(pending)), parking)
        else:
            parking.stand_at_any((_condition(future), _not(future.done)) for future in pending)


def _wait_for(future: "Future[Any]", parking: Parking) -> None:
    condition = _condition(future)
    with condition:
        if not future.done():
            parking.stand(condition)


def _condition(future: "Future[Any]") -> Condition:
    # Reentrant, and notified when the future is done. A callback would stay with the future after the wait.
    return cast(Condition, cast(Any, future)._condition)


def _has_failed(future: "Future[Any]") -> bool:
    return not future.cancelled() and future.exception() is not None


def _not(function: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: not function()


def _check_kind(name: str, future: object) -> None:
    if not isinstance(future, Future):
        raise TypeError(f"{name}() waits for futures of concurrent.futures, not for {future!r}")


_ENOUGH: "dict[str, Callable[[set[Future[Any]]], bool]]" = {
    ALL_COMPLETED: lambda done: False,
    FIRST_COMPLETED: bool,
    FIRST_EXCEPTION: lambda done: any(map(_has_failed, done)),
}
