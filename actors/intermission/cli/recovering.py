"""`intermission recover`: go on with what dead processes have left, or list it."""

import argparse

from intermission.cli.logs import is_there
from intermission.cli.run import load_app
from intermission.cli.terminal import Screen
from intermission.runner import Runner

__all__ = ["recover"]


def recover(options: argparse.Namespace, screen: Screen) -> int:
    """Go on with the runs of an app that have been left; 1 if one of them failed, else 0.

    Args:
        options: The command's.
        screen: Where to say what came of each.
    """
    app = load_app(options.app)
    path = options.log or f"{app.name}.lmdb"
    if not is_there(path, screen):
        return 1
    with Runner(app, log=path) as runner:
        if options.list:
            for run in runner.recover(user_id=options.user, take_over=options.take_over):
                screen.line("left", f"user {run.user_id!r}, session {run.session_id!r}")
                run.cancel()  # it is cold: this is no cancel of what was left
            return 0
        report = runner.recover_all(
            user_id=options.user,
            max_attempts=options.max_attempts,
            take_over=options.take_over,
            max_parallel=options.parallel,
        )
    for word, color, found in (
        ("done", "", report.continued),
        ("taken", "dim", report.elsewhere),
        ("failed", "red", report.failed),
    ):
        for one in found:
            why = f", {one.result.error}" if one.result.error else ""
            where = f"user {one.user_id!r}, session {one.session_id!r}, run {one.invocation_id}"
            screen.line(word, f"{where}: {one.result.status}{why}", color)
    screen.note(
        f"{len(report.continued)} continued, {len(report.elsewhere)} elsewhere, {len(report.failed)} failed"
    )
    return 1 if report.failed else 0
