"""How often code makes the disk flush: a child process runs it under `tests/benchmarks/flushshim.c`.

    shim = compile_shim(directory)
    answer = in_child(shim, work, argument, …)

`work` is a function of the top level of a module; in the child it calls `count`. Arguments and answers are
values of JSON. The child may be given a pretended disk, of which each flush takes a time that is chosen.
"""

import ctypes
import inspect
import json
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tree import ROOT, environment, run

__all__ = ["compile_shim", "count", "in_child", "in_child_of"]

_SOURCE = ROOT / "tests/benchmarks/flushshim.c"
_NO_COMPILER = (
    "there is no C compiler `cc` on the path, which builds the library that counts flushes. It is in the "
    "packages gcc and clang of most systems."
)


def compile_shim(directory: Path) -> Path:
    """Compile the library that counts flushes into a directory, and return its path.

    Raises:
        AssertionError: There is no C compiler, or it failed.
    """
    compiler = shutil.which("cc")
    assert compiler is not None, _NO_COMPILER
    library = directory / "flushshim.so"
    run(compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl").check()
    return library


def in_child(
    shim: Path,
    work: Callable[..., object],
    *arguments: object,
    flush_us: int | None = None,
    timeout: float = 60,
) -> Any:
    """Run `work` in a child process that counts its flushes, and return what it returns.

    Args:
        shim: What `compile_shim` has returned.
        work: A function of the top level of a module.
        arguments: Its arguments.
        flush_us: How many microseconds a flush takes, which then does nothing; `None`: it is the disk's.
        timeout: How many seconds it may take.

    Raises:
        AssertionError: It failed; what it wrote is shown.
        subprocess.TimeoutExpired: It took longer, and was killed.
    """
    place = Path(inspect.getfile(work)), work.__name__
    return in_child_of(shim, *place, *arguments, flush_us=flush_us, timeout=timeout)


def in_child_of(
    shim: Path, file: Path, name: str, *arguments: object, flush_us: int | None = None, timeout: float = 60
) -> Any:
    """As `in_child`, with the function `name` of the module that is `file`."""
    env = environment() | {"LD_PRELOAD": str(shim)}
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    if flush_us is not None:
        env["FLUSH_US"] = str(flush_us)
    call = json.dumps([str(file.resolve()), name, arguments])
    with tempfile.TemporaryDirectory() as directory:
        answer = Path(directory) / "answer"
        command = [sys.executable, __file__, call, str(answer)]
        run(*command, env=env, timeout=timeout).check()
        return json.loads(answer.read_text())


def count() -> int:
    """In the child: return how often it has flushed so far."""
    return int(ctypes.CDLL(None).flushes_so_far())


def _answer(call: str, answer: str) -> None:
    path, name, arguments = json.loads(call)
    found = runpy.run_path(path, run_name="__child__")[name](*arguments)
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    _answer(*sys.argv[1:])
