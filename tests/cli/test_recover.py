"""`intermission recover MODULE:APP`."""

from pathlib import Path

import pytest

from intermission import App, LlmAgent, ResumabilityConfig, Runner
from intermission.cli import main
from intermission.testing import Gate, ScriptedModel, text

APP_FILE = """
from intermission import App, LlmAgent, ResumabilityConfig
from intermission.testing import ScriptedModel

agent = LlmAgent("agent", ScriptedModel("one", "two"))
app = App("shop", agent, resumability_config=ResumabilityConfig(is_resumable=True))
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give an app whose log holds three runs that a closed runner has left."""
    monkeypatch.chdir(tmp_path)
    Path("shop_app.py").write_text(APP_FILE)
    gate = Gate()
    agent = LlmAgent("agent", ScriptedModel(default=text(gate, "late")))
    app = App("shop", agent, resumability_config=ResumabilityConfig(is_resumable=True))
    runner = Runner(app, log="shop.lmdb")
    for name in ("s1", "s2", "s3"):
        runner.run(user_id="ada", session_id=name, message="hi").start()
    gate.arrived(3)
    runner.close(grace=0)
    gate.open()
    return "shop_app.py:app"


def test_what_was_left_is_listed_and_not_touched(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["recover", target, "--list"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"left    user 'ada', session 's{number}'" for number in (1, 2, 3)
        ]


def test_what_was_left_is_gone_on_with_and_the_exit_code_tells_of_a_failure(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover", target, "--parallel", "1"]) == 1  # the model has two answers
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["done", "done", "failed", "2"]
    assert "session 's3'" in out[2]
    assert "the script is used up" in out[2]
    assert out[3].strip() == "2 continued, 0 elsewhere, 1 failed"
    assert main(["recover", target, "--user", "ada"]) == 0
    assert capsys.readouterr().out.strip() == "0 continued, 0 elsewhere, 0 failed"


def test_a_log_that_is_not_there_is_an_error_and_is_not_created(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover", target, "--log", "nothing.lmdb"]) == 1
    assert "there is no log at nothing.lmdb" in capsys.readouterr().out
    assert not Path("nothing.lmdb").exists()


@pytest.mark.parametrize("option", ["--max-attempts", "--parallel"])
def test_a_number_below_one_is_wrong_usage(
    option: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["recover", target, option, "0"])
    assert exit_.value.code == 2
    assert "must be above 0" in capsys.readouterr().err
