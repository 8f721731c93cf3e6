"""Recovers what is left in a folder, its only argument. Says "ready", waits, then says what it continued."""

import sys
from pathlib import Path

from children import say, told
from failpoints import Diary, Points
from intermission import Runner
from planned import planned_app


def main(folder: str) -> None:
    """Recover."""
    diary = Diary(folder)
    with Runner(planned_app(diary, Points(diary)), log=Path(folder) / "log") as runner:
        say("ready")
        told()
        report = runner.recover_all()
        say([[one.session_id for one in report.continued], len(report.failed)])


if __name__ == "__main__":
    main(sys.argv[1])
