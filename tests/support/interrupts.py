"""Something that happens in the middle: between any two steps that Python takes in the kernel's code.

A signal handler runs, or a finaliser, or Ctrl-C raises: tried at each step in turn, not at some of them.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import intermission.kernel

__all__ = ["at_each_step", "interrupt"]

_KERNEL = str(Path(intermission.kernel.__file__).parent)


def interrupt() -> None:
    """Raise what Ctrl-C does."""
    raise KeyboardInterrupt


def at_each_step(
    prepare: Callable[[], Callable[[], object]],
    action: Callable[[], object],
    *,
    module: str = "",
    within: tuple[str, ...] = (),
    in_threads: bool = False,
) -> Iterator[int]:
    """Run what `prepare` returns again and again, with `action` before its first step, its second, and so on.

    Args:
        prepare: Makes a new piece of work.
        action: What happens once in the midst of it.
        module: Name of the one module of the kernel whose steps count, without `.py`; all, if empty.
        within: The files whose steps count instead of those of the kernel.
        in_threads: Whether the steps are those of the threads that the work starts, not of this one.

    Yields:
        The number of steps before the action, after each run that got so far.
    """
    where = within or (f"{_KERNEL}/{module}",)
    for step in count():
        if not _run(prepare(), action, where, step, in_threads):
            return
        yield step


def _run(
    work: Callable[[], object],
    action: Callable[[], object],
    where: tuple[str, ...],
    step: int,
    in_threads: bool,
) -> bool:
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.startswith(where):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps += 1
            if steps == step + 1:
                action()
        return trace

    get, change = (threading.gettrace, threading.settrace) if in_threads else (sys.gettrace, sys.settrace)
    before = get()
    here = inspect.currentframe()
    assert here is not None
    if not in_threads:
        here.f_trace_opcodes = True  # Python 3.12 looks at it only when tracing begins
    change(trace)
    try:
        with suppress(KeyboardInterrupt):
            work()
    finally:
        change(before)
    return steps > step
