"""The event loops that callers may have: asyncio's, uvloop's, and, where Python has them, eager tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

__all__ = ["LOOPS", "Kind", "run_on"]

T = TypeVar("T")

uvloop.new_event_loop().close()  # the first one has a pipe made that the process keeps

Kind = Callable[[], asyncio.AbstractEventLoop]


def eager() -> asyncio.AbstractEventLoop:
    """A loop whose tasks begin where they are made; since Python 3.12."""
    loop = asyncio.new_event_loop()
    factory: Any = asyncio.eager_task_factory  # type: ignore[attr-defined,unused-ignore]  # not in 3.11
    loop.set_task_factory(factory)
    return loop


LOOPS: dict[str, Kind] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
if hasattr(asyncio, "eager_task_factory"):
    LOOPS["eager"] = eager


def run_on(kind: Kind, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of this kind, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=kind) as runner:
        return runner.run(main)
