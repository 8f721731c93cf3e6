import asyncio
import concurrent.futures

import pytest

from intermission.tools.futures import FutureResult


async def value_of(future: "concurrent.futures.Future[int]") -> int:
    """What a future comes to."""
    return await FutureResult(future)


def test_a_future_gives_its_value_or_its_error() -> None:
    good: concurrent.futures.Future[int] = concurrent.futures.Future()
    bad: concurrent.futures.Future[int] = concurrent.futures.Future()
    good.set_result(1)
    bad.set_exception(ValueError("no"))

    assert asyncio.run(value_of(good)) == 1
    with pytest.raises(ValueError, match="no"):
        asyncio.run(value_of(bad))


async def cancelled(future: "concurrent.futures.Future[int]") -> "asyncio.Task[int]":
    """A task that waits for the future and was cancelled, some time ago."""
    task = asyncio.ensure_future(value_of(future))
    await asyncio.sleep(0)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    return task


def test_a_future_that_has_not_begun_is_cancelled_with_its_task() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()

    async def main() -> bool:
        return (await cancelled(future)).cancelled()

    assert asyncio.run(main())
    assert future.cancelled()


def test_a_future_that_runs_is_not_left_by_a_task_however_often_it_is_cancelled() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    async def main() -> tuple[bool, bool]:
        task = await cancelled(future)
        task.cancel()
        await asyncio.sleep(0)
        left_early = task.done()
        future.set_result(1)
        await asyncio.wait([task])
        return left_early, task.cancelled()

    assert asyncio.run(main()) == (False, True)
