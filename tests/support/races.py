"""Races of runs: threads that begin at once, and what must hold of a session whatever they did."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps import KEY, Key, records
from intermission import Event, Run, Runner, RunStatus
from intermission.runs.receipt import CancelReceipt
from intermission_storage import EventLog

__all__ = ["Raced", "at_once", "check", "check_usable"]


@dataclass
class Raced:
    """A run, what was shown of it and what its cancels said."""

    run: Run
    shown: list[Event] = field(default_factory=list[Event])
    receipts: list[CancelReceipt] = field(default_factory=list[CancelReceipt])

    def consume(self) -> None:
        """Iterate the run to its end, whatever that is."""
        try:
            self.shown.extend(self.run)
        except Exception:  # noqa: BLE001 - whatever failed the run
            assert self.run.status in {RunStatus.FAILED, RunStatus.EXPIRED}

    def cancel(self) -> None:
        """Cancel the run."""
        self.receipts.append(self.run.cancel("a race"))


def at_once(*actions: Callable[[], object]) -> None:
    """Do all at once, each on a thread, and raise the first error of one when all have ended."""
    barrier, errors = threading.Barrier(len(actions)), list[BaseException]()

    def act(action: Callable[[], object]) -> None:
        try:
            barrier.wait(30)
            action()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]


def check(log: EventLog, *raced: Raced, key: Key = KEY) -> None:
    """Assert what holds of a session's records, of what was shown, of receipts and of statuses."""
    stored = records(log, **key)
    assert [record.seq for record in stored] == list(range(1, len(stored) + 1))
    _check_order(stored)
    for one in raced:
        own = one.run.invocation_id
        _check_run(one, [record for record in stored if own and record.data.get("invocationId") == own])


def check_usable(runner: Runner, key: Key = KEY) -> None:
    """Assert that a session takes one more run."""
    assert runner.run(**key, message="afterwards").answer(30) == "ok"


def _check_order(stored: list[Any]) -> None:
    current: str | None = None
    for record in stored:
        invocation = record.data.get("invocationId")
        if record.kind == "run_started":
            assert current is None, f"run {invocation} begins inside {current}"
            current = invocation
        elif invocation is not None:
            assert invocation == current, f"a record of {invocation} stands in {current}"
        if record.kind == "run_ended":
            current = None
    assert current is None, f"run {current} has no end"


def _check_run(one: Raced, own: list[Any]) -> None:
    run, status = one.run, one.run.status
    assert status is not None
    kinds = [record.kind for record in own]
    if kinds:
        assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
        assert kinds.count("run_started") == kinds.count("run_ended") == 1
        assert own[-1].data["status"] == status
        assert run.result(30).last_seq == own[-1].seq
    else:
        assert status in {RunStatus.CANCELLED, RunStatus.FAILED}
    finals = [event.seq for event in one.shown if not event.partial]
    assert finals == sorted(set(finals), key=lambda seq: seq or 0)
    assert set(finals) <= {record.seq for record in own if record.kind == "event"}
    if one.receipts:
        accepted = any(receipt.accepted for receipt in one.receipts)
        assert accepted == (status is RunStatus.CANCELLED), (one.receipts, run)
