"""The event loops that callers may have: asyncio's, uvloop's, and, where Python has them, eager tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

__all__ = ["LOOPS", "MakeLoop", "run_on"]

T = TypeVar("T")

uvloop.new_event_loop().close()  # the first one has a pipe made that the process keeps

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def eager() -> asyncio.AbstractEventLoop:
    """A loop whose tasks begin where they are made; since Python 3.12."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # it is not in 3.11
    return loop


LOOPS: dict[str, MakeLoop] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
if hasattr(asyncio, "eager_task_factory"):
    LOOPS["eager"] = eager


def run_on(kind: MakeLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of this kind, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=kind) as runner:
        return runner.run(main)
