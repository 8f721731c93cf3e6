import http.server
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tree
from intermission.cli import commands, main
from intermission.cli.terminal import Screen
from intermission.cli.witness import SlotsWitness
from intermission.testing import Gate, ModelServer, calls, error, text
from intermission_storage import Head, LmdbEventLog


def test_the_demo_streams_calls_a_tool_waits_for_leave_is_cancelled_and_outlives_a_kill(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo"]) == 0

    shown = capsys.readouterr().out
    order = [
        "Where is my order 1042?",
        'order_status(order_id="1042")',
        '"city": "Lisbon"',
        "Your order 1042 has shipped.",
        "completed, last record 9",
        "#3      user: Where is my order 1042?",
        "#4      support: calls order_status",
        "#7      support: answer of order_status",
        "#8      support: Your order 1042 has shipped.",
        "It is in Lisbon now.",
        "completed, last record 13",
        "Please refund my order 1042.",
        'may refund(order_id="1042") be called?',
        "paused, last record 8",
        "the runner is closed",
        'refund(order_id="1042"): May the tool refund be called with these arguments?',
        "approved",
        '"refunded": "42 euros"',
        "You get 42 euros back.",
        "completed, last record 17",
        "Tell me a long story",
        "accepted: the run is cancelled, stored up to record 5",
        "saw the connection close",
        "cancelled, last record 5",
        "the last event in the log is the user's",
        "Please charge and invoice my order 1042.",
        "You were charged 42 euros.",
        "half of the invoice is written",
        "is dead",
        "interrupted, last record 12",
        "write_invoice has begun, and the log has no end of it",
        "its file holds 2 of 4 lines",
        '"invoice": "written"',
        "Your invoice is written.",
        "completed, last record 20",
        "charge once, as call-",
        "write_invoice twice, as call-",
        "one invoice, 4 of 4 lines",
    ]
    places = [shown.index(part) for part in order]
    assert places == sorted(places)
    assert "\x1b" not in shown


def test_the_demo_talks_to_any_server_that_is_named_and_keeps_the_log_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two agents are asked at the same time, so these replies fit both: each of them has one of the tools.
    both = calls(("charge", {"order_id": "1042"}), ("write_invoice", {"order_id": "1042"}))
    script = (
        calls(("order_status", {"order_id": "1042"})),
        text("It is ", "in Utrecht."),
        text("Still there."),
        calls(("refund", {"order_id": "1042"})),
        text("Refunded."),
        text("Once ", "upon ", "a ", "time ", "there ", Gate(), "was"),
        both,
        both,
        text("Charged."),
        text("Written."),
    )
    with ModelServer(*script) as server:
        assert (
            main(["demo", "--model-url", server.url, "--model", "mine", "--log", str(tmp_path / "log")]) == 0
        )

    assert [request["model"] for request in server.requests] == ["mine"] * 10
    assert server.aborted == 1
    assert [message["role"] for message in server.requests[2]["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "user"),
    ]
    shown = capsys.readouterr().out
    assert "It is in Utrecht." in shown
    assert "does not tell what it works on" in shown
    with LmdbEventLog(tmp_path / "log") as log:
        assert sorted(log.streams()) == [
            *("demo/you/invoices", "demo/you/orders", "demo/you/refunds", "demo/you/stories"),
        ]
        assert log.head("demo/you/orders") == Head(13)


def test_a_model_that_fails_makes_the_demo_fail_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(error("validation", "out of order")) as server:
        assert main(["demo", "--model-url", server.url, "--model", "mine"]) == 1

    assert "out of order" in capsys.readouterr().out


def test_an_address_without_a_model_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["demo", "--model-url", "http://127.0.0.1:1/v1"])

    assert left.value.code == 2
    assert "--model-url and --model go together" in capsys.readouterr().err


def on_a_terminal(*arguments: str | Path, code: int = 0, **environment: str) -> str:
    """Run the demo in a child whose output is a terminal, and return what the terminal got."""
    ours, theirs = pty.openpty()
    try:
        env = {**tree.environment(), "TERM": "xterm", **environment}
        with subprocess.Popen(
            [sys.executable, "-m", "intermission", "demo", *arguments], stdout=theirs, env=env
        ) as child:
            os.close(theirs)
            shown = bytearray()
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # the child closed its end
                    break
                if not piece:
                    break
                shown += piece
        assert child.returncode == code
        return shown.decode()
    finally:
        os.close(ours)


def test_on_a_terminal_the_demo_is_coloured() -> None:
    assert re.search(r"\x1b\[36myou +\x1b\[0mWhere", on_a_terminal())


def test_on_a_terminal_that_wants_no_colour_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a log")
    shown = on_a_terminal("--log", tmp_path / "file", code=1, NO_COLOR="1")

    assert "Where is my order 1042?" in shown
    assert "is no event log" in shown
    assert "\x1b" not in shown


def test_ctrl_c_leaves_the_demo_at_once_and_says_so(tmp_path: Path) -> None:
    gate = Gate()
    with ModelServer(text("It is ", gate, "late.")) as server:
        # A check that runs in the background is started with SIGINT ignored, and would hand that down.
        program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        program += "from intermission.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", program, "demo", "--model-url", server.url, "--model", "slow"]
        with subprocess.Popen(
            [*command, "--log", str(tmp_path / "log")],
            stdout=subprocess.PIPE,
            env=tree.environment(),
            text=True,
        ) as child:
            gate.arrived()
            child.send_signal(signal.SIGINT)
            shown, _ = child.communicate(timeout=60)

    assert child.returncode == 130
    assert "stopped by Ctrl-C; what was shown as final is kept" in shown
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.read("demo/you/orders")[-1].data["status"] == "cancelled"


@pytest.mark.parametrize(
    ("options", "kept"), [([], ""), (["--log", "folder"], "; what was shown as final is kept")]
)
def test_ctrl_c_is_said_on_a_line_of_its_own_and_what_is_kept_only_of_a_log_that_stays(
    options: list[str], kept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object, screen: Screen) -> int:
        screen.start("support")
        screen.piece("It is ")
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "demo", interrupted)
    assert main(["demo", *options]) == 130
    assert capsys.readouterr().out == f"support It is \n        stopped by Ctrl-C{kept}\n"


def test_a_reader_who_leaves_ends_the_demo_without_a_complaint() -> None:
    command = f"{sys.executable} -m intermission demo | head -1"
    finished = tree.run("bash", "-c", command)

    assert finished.output.strip() == ""


def test_a_demo_whose_output_is_closed_runs_to_its_end() -> None:
    tree.run("bash", "-c", f"{sys.executable} -m intermission demo >&- 2>/dev/null").check()


def test_a_log_that_cannot_be_opened_is_an_error_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a log")
    assert main(["demo", "--log", str(tmp_path / "file")]) == 1

    assert "is no event log" in capsys.readouterr().out


def test_an_empty_folder_name_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as left:
        main(["demo", "--log", ""])

    assert left.value.code == 2


def test_a_story_that_ends_before_its_cancel_makes_the_demo_fail(capsys: pytest.CaptureFixture[str]) -> None:
    refund = calls(("refund", {"order_id": "1042"}))
    with ModelServer("It is there.", "It still is.", refund, "Done.", "Once upon a time.") as server:
        assert main(["demo", "--model-url", server.url, "--model", "short"]) == 1
    assert "came to its end before it could be cancelled" in capsys.readouterr().out


def test_a_model_that_asks_for_no_leave_makes_the_demo_fail(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer("It is there.", "It still is.", "I will not.") as server:
        assert main(["demo", "--model-url", server.url, "--model", "stubborn"]) == 1
    assert "there is nothing to approve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("busy", "told"), [([1, 1, 0], "works on nothing any more"), ([None], "does not tell what it works on")]
)
def test_a_server_with_slots_is_asked_until_none_works(busy: list[int | None], told: str) -> None:
    asked = iter(busy)

    class Slots(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            works = next(asked)
            body = b"no" if works is None else json.dumps([{"is_processing": bool(works)}]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with http.server.HTTPServer(("127.0.0.1", 0), Slots) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            witness = SlotsWitness(f"http://127.0.0.1:{server.server_port}/v1")
            assert told in witness.told(time.monotonic())
        finally:
            server.shutdown()
            thread.join(30)
    assert list(asked) == []
