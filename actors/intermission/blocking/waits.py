"""`wait`, `wait_for` and `join`: events, conditions, processes, threads and queues, with a scope."""

from collections.abc import Callable
from queue import Queue
from subprocess import Popen
from threading import Condition, Event, Thread
from typing import Any, TypeVar, cast, overload

from intermission.blocking.parking import Parking, at_least_nothing, scope_for
from intermission.blocking.processes import wait_for_process
from intermission.blocking.queues import join_queue
from intermission.kernel.scope import CancelScope

__all__ = ["join", "wait", "wait_for"]

T = TypeVar("T")


@overload
def wait(
    target: Event | Condition, timeout: float | None = None, *, scope: CancelScope | None = None
) -> bool: ...
@overload
def wait(target: Popen[Any], timeout: float | None = None, *, scope: CancelScope | None = None) -> int: ...
def wait(
    target: Event | Condition | Popen[Any],
    timeout: float | None = None,
    *,
    scope: CancelScope | None = None,
) -> bool | int:
    """Wait for an event, a condition or a process, as `target.wait(timeout)`.

    Giving up the wait changes nothing about the target. A condition is held by the caller, and is held again
    when this returns or raises; a `notify` that meets the cancel goes to another waiter, if this one raises.

    Args:
        target: An `Event`, a `Condition`, or a `Popen`, whose child goes on: see `popen` for one that ends.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Returns:
        Whether the event is set, or the condition has notified; or the return code of the process.

    Raises:
        Cancelled: The scope is cancelled.
        subprocess.TimeoutExpired: The process has not ended in time.
        RuntimeError: This thread runs an event loop, or the condition is not held.
        TypeError: It is something else, whose wait cannot be ended.
    """
    if isinstance(target, Event):
        return _wait_for_event(target, timeout, scope)
    if isinstance(target, Condition):
        return _wait_for_condition(target, timeout, scope)
    if isinstance(cast(object, target), Popen):
        return wait_for_process(target, timeout, scope)
    raise TypeError(f"wait() cannot end a wait for {target!r}; nothing was done")


def wait_for(
    condition: Condition,
    predicate: Callable[[], T],
    timeout: float | None = None,
    *,
    scope: CancelScope | None = None,
) -> T:
    """Wait until a predicate is true, as `condition.wait_for(predicate, timeout)`.

    The condition is held by the caller, and is held again when this returns or raises.

    Args:
        condition: Notifies when the predicate may have become true.
        predicate: Called with the condition held.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Returns:
        What the predicate returned last; false only if the time is over.

    Raises:
        Cancelled: The scope is cancelled, and the predicate was not seen true before.
        RuntimeError: This thread runs an event loop, or the condition is not held.
    """
    scope = scope_for("wait_for", scope)
    _check_held(condition)
    if scope is None:
        return condition.wait_for(predicate, timeout)
    result = predicate()
    if not result:
        parking = Parking(scope, timeout)
        while not result:
            notified = parking.stand(condition)
            result = predicate()
            if not result:
                scope.check()
            if not notified:
                break
    return result


def join(
    target: Thread | Queue[Any], timeout: float | None = None, *, scope: CancelScope | None = None
) -> bool:
    """Wait until a thread has ended, or all items of a queue are done, as `target.join()`.

    Nobody can be told of a thread's end, so the scope is looked at every 50 ms there.

    Args:
        target: The thread or queue.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Returns:
        Whether that is so; false only if the time is over.

    Raises:
        Cancelled: The scope is cancelled.
        RuntimeError: This thread runs an event loop, or it is the thread itself.
    """
    if isinstance(target, Queue):
        return join_queue(target, timeout, scope)
    scope = scope_for("join", scope)
    if scope is None:
        target.join(at_least_nothing(timeout))
        return not target.is_alive()
    parking = Parking(scope, timeout)
    while True:
        target.join(parking.slice)
        if not target.is_alive():
            return True
        scope.check()
        if parking.is_over:
            return False


def _wait_for_event(event: Event, timeout: float | None, scope: CancelScope | None) -> bool:
    scope = scope_for("wait", scope)
    if scope is None or event.is_set():
        return event.wait(timeout)
    parking = Parking(scope, timeout)
    condition: Condition = cast(Any, event)._cond
    with condition:
        if event.is_set() or parking.stand(condition):
            return True  # also if it has been cleared again since
    scope.check()
    return event.is_set()


def _wait_for_condition(condition: Condition, timeout: float | None, scope: CancelScope | None) -> bool:
    scope = scope_for("wait", scope)
    _check_held(condition)
    if scope is None:
        return condition.wait(timeout)
    notified = Parking(scope, timeout).stand(condition)
    if not notified:
        scope.check()
    return notified


def _check_held(condition: Condition) -> None:
    if not cast(Any, condition)._is_owned():
        raise RuntimeError("the condition is not held; take it first, by `with condition:`")
