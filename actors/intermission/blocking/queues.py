"""`get` and `put`: the queues of `queue`, with a scope."""

from collections.abc import Callable
from queue import Empty, Full, Queue
from threading import Condition
from typing import Any, TypeVar

from intermission.blocking.parking import Parking, at_least_nothing, scope_for
from intermission.kernel.scope import CancelScope

__all__ = ["get", "join_queue", "put"]

T = TypeVar("T")


def get(queue: Queue[T], timeout: float | None = None, *, scope: CancelScope | None = None) -> T:
    """Take an item from a queue, as `queue.get(timeout=timeout)`.

    When this raises, nothing was taken.

    Args:
        queue: A `Queue`, `LifoQueue` or `PriorityQueue`.
        timeout: Seconds to wait for an item; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled.
        queue.Empty: No item came in time.
        RuntimeError: This thread runs an event loop, which would freeze.
        TypeError: It is another kind of queue, whose waits cannot be ended.
    """
    scope = scope_for("get", scope)
    _check_kind("get", queue)
    if scope is None:
        return queue.get(timeout=at_least_nothing(timeout))
    try:
        return queue.get_nowait()
    except Empty:
        pass
    return _retry(queue, queue.not_empty, _is_empty, queue.get_nowait, scope, timeout)


def put(queue: Queue[T], item: T, timeout: float | None = None, *, scope: CancelScope | None = None) -> None:
    """Put an item into a queue, as `queue.put(item, timeout=timeout)`.

    When this raises, the item is not in the queue.

    Args:
        queue: A `Queue`, `LifoQueue` or `PriorityQueue`.
        item: The item.
        timeout: Seconds to wait for a free place; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled.
        queue.Full: No place became free in time.
        RuntimeError: This thread runs an event loop, which would freeze.
        TypeError: It is another kind of queue, whose waits cannot be ended.
    """
    scope = scope_for("put", scope)
    _check_kind("put", queue)
    if scope is None:
        return queue.put(item, timeout=at_least_nothing(timeout))
    try:
        return queue.put_nowait(item)
    except Full:
        pass
    return _retry(queue, queue.not_full, _is_full, lambda: queue.put_nowait(item), scope, timeout)


def join_queue(queue: Queue[Any], timeout: float | None, scope: CancelScope | None) -> bool:
    """Wait until all items of a queue are done; for `join`."""
    scope = scope_for("join", scope)
    if scope is None and timeout is None:
        queue.join()
        return True
    # The queue's own `join` knows no time limit; a scope of nobody does.
    parking = Parking(scope or CancelScope.child_of(None), timeout)
    done = queue.all_tasks_done
    with done:
        while queue.unfinished_tasks:
            if not parking.stand(done):
                if scope is not None:
                    scope.check()
                return not queue.unfinished_tasks
    return True


def _retry(
    queue: Queue[Any],
    condition: Condition,
    must_wait: Callable[[Any], bool],
    attempt: Callable[[], T],
    scope: CancelScope,
    timeout: float | None,
) -> T:
    parking = Parking(scope, timeout)
    while True:
        with condition:
            if must_wait(queue) and not parking.stand(condition):
                # Nobody has called us, so whatever has come meanwhile is left to those who are called.
                scope.check()
        try:
            return attempt()
        except (Empty, Full):  # another was faster
            scope.check()
            if parking.is_over:
                raise


def _is_empty(queue: Any) -> bool:
    return not queue._qsize() and not _is_shut_down(queue)


def _is_full(queue: Any) -> bool:
    return 0 < queue.maxsize <= queue._qsize() and not _is_shut_down(queue)


def _is_shut_down(queue: Any) -> bool:
    return getattr(queue, "is_shutdown", False)  # from Python 3.13 on; then `attempt` raises


def _check_kind(name: str, queue: object) -> None:
    if not isinstance(queue, Queue):
        kind = type(queue)
        raise TypeError(
            f"{name}() cannot end a wait for a {kind.__module__}.{kind.__qualname__}; nothing was done. "
            f"Use a queue.Queue, LifoQueue or PriorityQueue"
        )
