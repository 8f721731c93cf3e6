"""One session whose runs are disposed of at random moments, with tools of all kinds: none keeps its place."""

import logging
import random
import threading
import time
from pathlib import Path

import pytest

from apps import KEY, app_of, records, runs_in_order
from intermission import LlmAgent, Run, RunConfig, Runner, RunStatus
from intermission.config import ToolExecution
from intermission_storage import EventLog, Kind, LmdbEventLog
from loops import PATIENCE
from pools import until
from scale import is_long, rounds
from turns import assert_legal
from wild_tools import WildModel, WildTools

ROUNDS = rounds(100, 1000)
AT_ONCE = 10.0  # seconds; on a machine that is not overloaded it takes some milliseconds

_never = threading.Event()


def disposed(runner: Runner, chance: random.Random) -> Run:
    """A run that is disposed of at a random moment, mostly while it is under way."""
    config = RunConfig(
        tool_execution=chance.choice(list(ToolExecution)),
        streaming=chance.random() < 0.5,
        overlap_model_calls=chance.random() < 0.3,
        residual=chance.choice(["release", "hold"]),
        grace=0.02,
    )
    run = runner.run(**KEY, message="wild", config=config)
    if chance.random() < 0.9:
        run.start()
        _never.wait(chance.random() / 50)
    run.dispose("at random")
    if chance.random() < 0.5:
        run.result(PATIENCE)
    return run


def assert_nothing_held(runner: Runner, runs: list[Run]) -> None:
    """Assert that all has returned, and that this is what is counted."""
    until(lambda: runner.metrics()["workers_busy"] == 0)
    found = runner.metrics()
    assert runner.residual() == []
    assert {name for name, count in found["residual_work"].items() if count} == set()
    nothing = ("runs_active", "runs_queued", "sessions_held", "residual_workers", "workers_waiting")
    assert [found[name] for name in (*nothing, "async_calls", "mailbox_messages")] == [0] * 7
    assert sum(found["runs_ended_total"].values()) == len(runs) + 1
    requested = found["cancels_requested_total"]
    assert requested == found["cancels_acknowledged_total"] == found["cancels_terminated_total"]
    assert sum(found["cancel_race_winners_total"].values()) == sum(requested.values())
    assert found["cancel_release_seconds"]["count"] == sum(requested.values())


def assert_ends(log: EventLog, runs: list[Run]) -> None:
    """Assert that runs do not interleave, and that nothing of one stands behind its end."""
    runs_in_order(log)
    kinds: dict[str | None, list[str]] = {run.invocation_id: [] for run in runs if run.invocation_id}
    for record in records(log)[1:]:
        kinds.setdefault(record.data["invocationId"], []).append(record.kind)
    for own in kinds.values():
        assert own.count(Kind.RUN_ENDED) == bool(own)
        assert own[-1:] in ([], [Kind.RUN_ENDED])


@pytest.mark.scenario("D8")
def test_after_many_disposals_at_random_moments_a_normal_run_is_served_at_once_and_nothing_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "intermission")  # tools fail on purpose, hundreds of times
    chance, runs = random.Random(8), list[Run]()
    with WildTools(chance, children=is_long()) as wild, LmdbEventLog(tmp_path / "log", sync=False) as log:
        model = WildModel(chance, wild.tools)
        agent = LlmAgent("agent", model, tools=list(wild.tools.values()))
        with Runner(app_of(agent), log=log) as runner:
            for _ in range(ROUNDS):
                runs.append(disposed(runner, chance))
            before = time.monotonic()
            last = runner.run(**KEY, message="hi")
            assert last.result(PATIENCE).status is RunStatus.COMPLETED
            assert time.monotonic() - before < AT_ONCE
            assert all(run.wait_terminated(PATIENCE) for run in runs)
            assert_nothing_held(runner, runs)
            assert_ends(log, runs)
    for request in model.requests[-20:]:
        assert_legal(request)
