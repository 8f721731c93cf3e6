"""A runner of an app of `paused_apps`, which does what the test tells it, one command a line:
going_on.py LOG EFFECTS APP POINT before|after.

It kills itself before, or after, the first commit of the kind that POINT names. A tool that holds says
"holding" and goes on at the next line.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from children import say, told
from intermission import Event, Run, Runner
from intermission.sessions.records import event_of
from intermission_storage import Appended, BatchOptions, LmdbEventLog, Record, StorageError
from paused_apps import PATIENCE, Effects, app_named, session


def _events(records: Sequence[Record]) -> list[Event]:
    return [event_of(record) for record in records if record.kind == "event"]


def _has(kind: str) -> Callable[[Sequence[Record]], bool]:
    return lambda records: any(record.kind == kind for record in records)


POINTS: Mapping[str, Callable[[Sequence[Record]], bool]] = {
    "question": lambda records: any(
        call.name == "adk_request_confirmation" for event in _events(records) for call in event.function_calls
    ),
    "end": _has("run_ended"),
    "begin": _has("run_started"),
    "answer": _has("answer"),
    "start": _has("call_started"),
    "finish": _has("call_finished"),
    "checkpoint": lambda records: any(
        (event.actions.agent_state or {}).get("current_sub_agent") == "last" for event in _events(records)
    ),
}


class KillingLog(LmdbEventLog):
    """A log that kills its process at a commit."""

    point: Callable[[Sequence[Record]], bool] | None = None
    stored = False

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Unpack[BatchOptions],
    ) -> None:
        """See `EventLog.submit`."""
        if self.point is None or not self.point(records):
            super().submit(stream, records, done, **options)
        elif self.stored:
            super().submit(stream, records, _die, **options)
        else:
            _die(None)


def _die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _outcome(run: Run) -> dict[str, Any]:
    try:
        for _ in run:
            pass
    except Exception as error:  # noqa: BLE001 - the test hears of it
        return {"status": run.status, "error": type(error).__name__, "pending": []}
    result = run.result(PATIENCE)
    pending = [call.id for call in result.pending]
    return {"status": result.status, "text": result.text, "pending": pending, "seq": result.last_seq}


def _do(runner: Runner, command: str, name: str, answers: Any = None) -> Any:
    key = session(name)
    match command:
        case "run":
            return _outcome(runner.run(**key, message="go"))
        case "answer":
            return _outcome(runner.resume(**key, answers=answers))
        case _:
            return [call.to_dict() for call in runner.pending(**key)]


def _hold() -> None:
    say("holding")
    told()


def main(path: str, effects: str, name: str, point: str, when: str) -> None:
    """Do commands until there are no more."""
    app = app_named(name, Effects(effects), _hold if name == "held" else None)
    with KillingLog(path, sync=False) as log, Runner(app, log=log) as runner:
        log.point, log.stored = POINTS.get(point), when == "after"
        while (command := told()) is not None:
            say(_do(runner, *command))


if __name__ == "__main__":
    main(*sys.argv[1:])
