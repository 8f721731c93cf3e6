"""`intermission pending`, `answer` and `resume`."""

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from intermission import Runner
from intermission.cli import main
from intermission.cli.run import load_app
from intermission_storage import LmdbEventLog

SHOP = '''
"""An app that waits for people."""
from intermission import App, FunctionTool, LlmAgent, LongRunningFunctionTool, ResumabilityConfig, ToolContext
from intermission.testing import ScriptedModel, calls


def pay(amount: int, tool_context: ToolContext) -> dict[str, object]:
    """Pay."""
    print("PAID", amount, tool_context.confirmation.payload, flush=True)
    return {"paid": amount}


def measure() -> None:
    """Measure, which takes days."""


def broken() -> str:
    """Fail."""
    raise SystemExit(1)


tools = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(measure)]
RESUMABLE = ResumabilityConfig(is_resumable=True)


def app_of(name, *replies):
    return App(name, LlmAgent("clerk", ScriptedModel(*replies), tools=tools), resumability_config=RESUMABLE)


pays = app_of("shop", calls(("pay", {"amount": 3}), ("measure", {})))
many = app_of("shop", calls(*[("pay", {"amount": amount}) for amount in range(8)]))
goes_on = app_of("shop", "All done.")
plain = LlmAgent("shop", ScriptedModel())
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    (tmp_path / "shop_app.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("shop_app", None)


def pending(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["pending", "shop.lmdb", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def paused(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Have a run pause; return the ids of what asks for leave and of what waits for a result."""
    assert main(["run", "shop_app.py:pays", "Pay and measure!"]) == 0
    shown = capsys.readouterr().out
    assert "pay(amount=3): May the tool pay be called" in shown
    assert "measure(): waits for its result" in shown
    by_kind = {call["kind"]: call["id"] for call in pending(capsys)}
    return by_kind["confirmation"], by_kind["long_running"]


def test_pending_lists_what_a_screen_needs_to_ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paused(capsys)
    calls = {call["tool"]: call for call in pending(capsys)}
    assert calls.keys() == {"pay", "measure"}
    pay = calls["pay"]
    assert (pay["app"], pay["user"], pay["session"]) == ("shop", "you", "default")
    assert (pay["arguments"], pay["kind"], pay["agent"]) == ({"amount": 3}, "confirmation", "clerk")
    assert pay["id"] != pay["functionCallId"]


def test_pending_lists_the_calls_in_the_order_in_which_they_came_to_wait(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for session in ("z", "a"):
        assert main(["run", "shop_app.py:many", "Pay!", "--session", session]) == 0
        sys.modules.pop("shop_app", None)
    listed = [(call["session"], call["arguments"]["amount"]) for call in pending(capsys)]
    assert listed == [(session, amount) for session in ("z", "a") for amount in range(8)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--app", "shop", "--user", "you", "--session", "default"], 2),
        (["--app", "x"], 0),
        (["--user", "x"], 0),
        (["--session", "x"], 0),
    ],
)
def test_pending_can_be_asked_about_one_app_user_or_session(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], found: int
) -> None:
    paused(capsys)
    assert len(pending(capsys, *options)) == found


def test_answers_are_given_one_by_one_and_with_the_last_the_run_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave, result = paused(capsys)
    target = "shop_app.py:goes_on"
    assert main(["answer", target, leave, "--approve", "--payload", '{"account": 7}', "--by", "ada"]) == 0
    shown = capsys.readouterr().out
    assert "PAID 3 {'account': 7}" in shown
    assert "paused" in shown
    assert [call["id"] for call in pending(capsys)] == [result]

    assert main(["answer", target, result, "--reply", '{"metres": 3}']) == 0
    shown = capsys.readouterr().out
    assert "All done." in shown
    assert "completed" in shown
    assert pending(capsys) == []
    with LmdbEventLog("shop.lmdb") as log:
        (ada,) = [one for one in log.read("shop/you/default") if one.data.get("answeredBy")]
    assert ada.data["answeredBy"] == "ada"


def test_a_rejected_call_is_not_made_and_an_answer_that_was_given_before_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave, _ = paused(capsys)
    for _ in range(2):
        assert main(["answer", "shop_app.py:goes_on", leave, "--reject", "too much"]) == 0
        shown = capsys.readouterr().out
        assert "PAID" not in shown
        assert "paused" in shown


@pytest.mark.parametrize(
    ("call", "says", "why"),
    [
        ("none", ["--approve"], "has no call 'none'"),
        ("pay", ["--reply", '{"maybe": 1}'], "neither yes nor no"),
        ("measure", ["--approve"], "give --reply"),
        ("measure", ["--reject"], "give --reply"),
    ],
)
def test_an_answer_that_cannot_be_taken_is_an_error_and_the_call_still_waits(
    folder: Path, capsys: pytest.CaptureFixture[str], call: str, says: list[str], why: str
) -> None:
    leave, result = paused(capsys)
    ids = {"pay": leave, "measure": result}
    assert main(["answer", "shop_app.py:goes_on", ids.get(call, call), *says]) == 1
    assert why in capsys.readouterr().out
    assert len(pending(capsys)) == 2


@pytest.mark.parametrize(
    "options",
    [[], ["--approve", "--reject"], ["--reply", "3"], ["--reply", "{"], ["--reject", "--payload", "3"]],
)
def test_an_answer_that_says_nothing_two_things_or_no_json_is_wrong_usage(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["answer", "shop_app.py:goes_on", "call-1", *options])
    assert left.value.code == 2


def test_an_app_that_is_not_resumable_cannot_be_answered_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paused(capsys)
    assert main(["answer", "shop_app.py:plain", "call-1", "--approve"]) == 1
    assert "not resumable" in capsys.readouterr().out


def test_resume_goes_on_with_a_run_by_its_id_and_one_that_is_unknown_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paused(capsys)
    (invocation,) = {call["invocationId"] for call in pending(capsys)}
    assert main(["resume", "shop_app.py:goes_on", invocation]) == 0  # it waits for others: nothing is done
    assert "paused" in capsys.readouterr().out
    assert main(["resume", "shop_app.py:goes_on", "e-none"]) == 1
    assert "knows no invocation 'e-none'" in capsys.readouterr().out


def test_a_run_that_was_cancelled_is_gone_on_with_by_its_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "shop_app.py:pays", "Pay!", "--session", "s"]) == 0
    (invocation,) = {call["invocationId"] for call in pending(capsys)}
    with Runner(load_app("shop_app.py:goes_on"), log="shop.lmdb") as runner:
        runner.cancel(user_id="you", session_id="s", invocation_id=invocation)
    assert pending(capsys) == []
    assert main(["resume", "shop_app.py:goes_on", invocation, "--session", "s"]) == 0
    assert "paused" in capsys.readouterr().out
    assert len(pending(capsys)) == 2


@pytest.mark.parametrize(
    "command", [["answer", "shop_app.py:pays", "call-1", "--approve"], ["resume", "shop_app.py:pays", "e-1"]]
)
def test_a_log_that_is_not_there_is_said_and_not_made(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([*command, "--log", "shpo.lmdb"]) == 1
    assert "there is no log at shpo.lmdb" in "".join(capsys.readouterr())
    assert not (folder / "shpo.lmdb").exists()
