import json
from pathlib import Path

import pytest

from apps import APP, app_with
from intermission import Runner
from intermission.cli import main
from intermission.testing import ScriptedModel
from intermission_storage import LmdbEventLog


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log with two sessions."""
    path = tmp_path / "log"
    with Runner(app_with(ScriptedModel(default="Hello")), log=path) as runner:
        for user in ("ada", "bob"):
            runner.run(user_id=user, session_id="s", message=f"I am {user}").result()
    return str(path)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_verify_finds_a_log_sound(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", log]) == 0
    assert "2 streams, 10 records, sound" in capsys.readouterr().out


def test_verify_names_what_is_damaged(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(log) / "data.mdb"
    raw = bytearray(data.read_bytes())
    at = raw.index(b"I am ada")
    raw[at : at + 1] = b"U"
    data.write_bytes(raw)

    assert main(["verify", log]) == 1
    shown = capsys.readouterr().out
    assert "stream 'app/ada/s'" in shown
    assert "checksum" in shown
    assert "1 problem\n" in shown


def test_sessions_lists_their_keys_and_last_numbers(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", log]) == 0
    found = sorted(lines(capsys), key=lambda line: str(line["user"]))
    assert found == [
        {"app": APP, "user": "ada", "session": "s", "last": 5},
        {"app": APP, "user": "bob", "session": "s", "last": 5},
    ]
    assert main(["sessions", log, "--app", "another"]) == 0
    assert lines(capsys) == []


def test_sessions_says_who_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=tmp_path / "log") as runner:
        runner.run(user_id="ada", session_id="s", message="hi").result()
        with LmdbEventLog(tmp_path / "log") as log:
            log.append("app/ada/s", log.read("app/ada/s")[-1:], claim=True)
            assert main(["sessions", str(tmp_path / "log")]) == 0

            (line,) = lines(capsys)
            assert line["claimed by"] == str(log.owner)
            assert line["alive"] is True


def test_events_shows_what_a_client_reads(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", log, APP, "ada", "s", "--after", "3"]) == 0
    (event,) = lines(capsys)
    assert event["author"] == "agent"
    assert event["content"] == {"role": "model", "parts": [{"text": "Hello"}]}


def test_events_of_no_session_is_an_error(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", log, APP, "eve", "s"]) == 1
    assert "no session 's' of user 'eve'" in capsys.readouterr().err


def test_export_writes_every_record(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", log]) == 0
    written = lines(capsys)
    assert len(written) == 10
    ada = [line for line in written if line["stream"] == "app/ada/s"]
    assert [line["seq"] for line in ada] == [1, 2, 3, 4, 5]
    assert [line["kind"] for line in ada] == ["session_created", "run_started", "event", "event", "run_ended"]


@pytest.mark.parametrize("command", ["verify", "export", "sessions"])
def test_a_log_that_is_not_there_is_an_error_and_is_not_created(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().out.count(str(tmp_path / "nothing")) == 1
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("command", ["verify", "export", "sessions"])
def test_looking_into_a_log_does_not_change_it(command: str, log: str) -> None:
    before = (Path(log) / "data.mdb").read_bytes()
    assert main([command, log]) == 0
    assert (Path(log) / "data.mdb").read_bytes() == before
