"""What a runner and a run are given is checked at once, by its name."""

from pathlib import Path
from typing import Any

import pytest

from apps import KEY, app_with
from intermission import LlmAgent, Runner
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"workers": 0}, ValueError),
        ({"workers": -1}, ValueError),
        ({"workers": float("nan")}, TypeError),
        ({"workers": "4"}, TypeError),
        ({"workers": True}, TypeError),
        ({"worker_wait": -1}, ValueError),
        ({"worker_wait": float("nan")}, ValueError),
        ({"worker_wait": "x"}, TypeError),
        ({"max_queued": -1}, ValueError),
        ({"max_queued": "x"}, TypeError),
        ({"resident_sessions": -1}, ValueError),
        ({"resident_sessions": None}, TypeError),
        ({"loop": "nope"}, TypeError),
        ({"config": 5}, TypeError),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_refused_when_the_runner_is_made(
    given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(given))):
        Runner(app_with(ScriptedModel()), log=MemoryEventLog(), **given)


def test_settings_at_their_limits_are_taken() -> None:
    model = ScriptedModel("ok")
    with Runner(
        app_with(model), log=MemoryEventLog(), workers=1, worker_wait=0, max_queued=0, resident_sessions=0
    ) as runner:
        assert runner.run(**KEY, message="hi").answer(30) == "ok"


def test_what_a_run_cannot_be_given_is_refused_when_it_is_made() -> None:
    wrong: Any = {5: 1}
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner:
        with pytest.raises(TypeError, match="a key of state_delta must be a str, not int"):
            runner.run(**KEY, message="hi", state_delta=wrong)
        with pytest.raises(TypeError, match="config must be a RunConfig, not dict"):
            runner.run(**KEY, message="hi", config=wrong)
        assert not runner.sessions.exists(**KEY)


def test_a_cancel_with_a_time_limit_that_is_no_number_changes_nothing() -> None:
    with Runner(app_with(ScriptedModel("ok")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(ValueError, match="NaN"):
            run.cancel(timeout=float("nan"))
        assert run.answer(30) == "ok"


def test_an_agent_in_the_place_of_an_app_is_an_error_that_shows_how_to_make_one(tmp_path: Path) -> None:
    agent: Any = LlmAgent("agent", ScriptedModel())
    with pytest.raises(
        TypeError, match=r"needs an App, as in Runner\(App\('shop', agent\), …\), not LlmAgent"
    ):
        Runner(agent, log=tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_what_is_no_log_is_an_error_when_the_runner_is_made() -> None:
    number: Any = 5
    with pytest.raises(TypeError, match="log must be a path or an EventLog, not 5"):
        Runner(app_with(ScriptedModel()), log=number)
