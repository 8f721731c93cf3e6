"""Forks a process for each program that it is told: `[name, folder, arguments]`; says its exit code."""

import gc
import os
import tempfile
import traceback
from typing import Any

import in_process
import planned
import stepping
import tour
from children import say, told
from failpoints import Diary, Points

PROGRAMS = {
    "in process": in_process.live,
    "steps": stepping.live,
    "stubborn": planned.stubborn,
    "tools": planned.live,
    "tour": tour.live,
}


def main() -> None:
    """Do what is told until there is no more."""
    with tempfile.TemporaryDirectory() as folder:
        diary = Diary(folder)
        tour.tour(diary, Points(diary))  # imports what the first tool needs
    gc.freeze()  # the lives share it
    while (order := told()) is not None:
        name, folder, arguments = order
        pid = os.fork()
        if not pid:
            os._exit(_live(name, folder, arguments))
        say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _live(name: str, folder: str, arguments: dict[str, Any]) -> int:
    try:
        PROGRAMS[name](folder, **arguments)
    except BaseException:  # noqa: BLE001 - it must not go on as the nursery
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
