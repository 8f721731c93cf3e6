"""`intermission run MODULE:APP "text"`."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest

import tree
from intermission.cli import main
from intermission.cli.terminal import Screen
from intermission_storage import LmdbEventLog

CHAT = '''
"""An app of one's own."""
from intermission import App, LlmAgent
from intermission.testing import ScriptedModel, calls, text


def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


model = ScriptedModel(calls(("weather", {"city": "Utrecht"})), text("It is ", "sunny."), default=text("Yes."))
agent = LlmAgent("friend", model, tools=[weather])
app = App("chat", agent)
number = 7
'''

SLOW = '''
import sys
from intermission import LlmAgent, ToolContext
from intermission.testing import ScriptedModel, calls, text


def wait(tool_context: ToolContext) -> str:
    """Wait for a signal."""
    print("WAITING", flush=True)
    tool_context.cancellation.sleep(60)
    return "never"


agent = LlmAgent("slow", ScriptedModel(calls(("wait", {})), default=text("Still here.")), tools=[wait])
'''

# A check that runs in the background is started with SIGINT ignored, and would hand that down.
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from intermission.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    (tmp_path / "chat_app.py").write_text(CHAT)
    (tmp_path / "slow_app.py").write_text(SLOW)
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if _lies_in(module, tmp_path)]:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["chat_app:app", "chat_app.py:app"])
def test_a_message_is_answered_live_and_the_session_stays(
    target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", target, "How is the weather?"]) == 0
    shown = capsys.readouterr().out
    order = [
        'weather(city="Utrecht")',
        "sunny in Utrecht",
        "friend  It is sunny.",
        "completed, last record 9",
    ]
    places = [shown.index(part) for part in order]
    assert places == sorted(places)
    assert "session 'default' of user 'you' stays in chat.lmdb" in shown
    with LmdbEventLog(folder / "chat.lmdb") as log:
        assert log.streams() == ["chat/you/default"]


def test_an_agent_is_an_app_of_its_own_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "run",
        "chat_app:agent",
        "Hello?",
        "--log",
        "kept",
        "--user",
        "u1",
        "--session",
        "s1",
        "--whole",
    ]
    assert main(command) == 0
    assert "completed" in capsys.readouterr().out
    with LmdbEventLog(folder / "kept") as log:
        assert log.streams() == ["friend/u1/s1"]


def test_without_a_message_each_line_is_one(folder: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "intermission", "run", "chat_app:app"],
        input="How is the weather?\n\nReally?\n",
        capture_output=True,
        env=tree.environment(),
        text=True,
        timeout=60,
        check=True,
    )
    shown = finished.stdout
    assert shown.index("It is sunny.") < shown.index("friend  Yes.") < shown.index("last record 13")
    assert shown.count("completed") == 2


def test_input_that_is_no_text_and_a_character_that_cannot_be_shown_end_no_conversation(folder: Path) -> None:
    (folder / "says.py").write_text(
        "from intermission import LlmAgent\nfrom intermission.testing import ScriptedModel\n"
        "agent = LlmAgent('says', ScriptedModel(default='Grüße'))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-m", "intermission", "run", "says:agent"],
        input=b"one\n\xff\xfe\ntwo\n",
        capture_output=True,
        env={**tree.environment(), "PYTHONIOENCODING": "ascii:strict"},
        timeout=60,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert finished.stdout.count(b"Gr\\xfc\\xdfe") == 3


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_it_can_run_without_an_input_or_an_output(closed: str, folder: Path) -> None:
    asked = ["run", "chat_app:app", "hi"] if closed == ">&-" else ["run", "chat_app:app"]
    for command in (asked, ["sessions", "chat.lmdb"], ["export", "chat.lmdb"]):
        script = f'exec "$@" {closed}'
        ended = tree.run("sh", "-c", script, "-", sys.executable, "-m", "intermission", *command, cwd=folder)
        ended.check()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["run", "chat_app:app", "hi", "--user", ""], "argument --user: must not be empty"),
        (["run", "chat_app:app", "hi", "--session", ""], "argument --session: must not be empty"),
        (["events", "log", "", "you", "s"], "argument APP: must not be empty"),
        (["events", "log", "a", "you", "s", "--after", "-5"], "must be a number that is not negative"),
    ],
)
def test_a_value_that_cannot_be_is_wrong_usage(
    command: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert list(folder.glob("*.lmdb")) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_not_given_the_control_characters_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Screen(out).line("a", "red\x1b[31m\x9b0m\ttab")

    assert out.getvalue() == "a       red\ufffd[31m\ufffd0m\ttab\n"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("chat_app", "write MODULE:NAME"),
        (":app", "write MODULE:NAME"),
        ("nowhere:app", "no module nowhere"),
        ("nowhere.py:app", "no file nowhere.py"),
        ("chat_app:missing", "has no such name"),
        ("chat_app:number", "holds a int"),
        (".:app", "neither the name of a module nor that of a file"),
        ("leaves:app", "leaves ends the program (exit code 0)"),
        ("leaves.py:app", "leaves.py ends the program (exit code 0)"),
    ],
)
def test_what_leads_to_no_app_is_refused_by_name(
    target: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", target, "hi"]) == 1
    assert said in capsys.readouterr().out
    assert list(folder.glob("*.lmdb")) == []


def test_a_module_that_lacks_another_one_says_which(folder: Path) -> None:
    (folder / "broken_app.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        main(["run", "broken_app:app", "hi"])


def test_a_run_that_fails_says_why_and_the_exit_code_tells(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "failing.py").write_text(
        "from intermission import LlmAgent\nfrom intermission.testing import ScriptedModel, error\n"
        "agent = LlmAgent('failing', ScriptedModel(error('service', 'out of order')))\n"
    )
    assert main(["run", "failing:agent", "hi"]) == 1
    shown = capsys.readouterr().out
    assert "out of order" in shown
    assert "failed, last record" in shown


def test_ctrl_c_cancels_the_run_and_says_what_is_left_of_it(folder: Path) -> None:
    command = [sys.executable, "-c", MAIN, "run", "slow_app:agent", "hi"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=tree.environment(), text=True
    ) as child:
        assert child.stdout is not None
        before = ""
        while "WAITING" not in before:
            line = child.stdout.readline()
            assert line, before
            before += line
        child.send_signal(signal.SIGINT)
        shown, _ = child.communicate(timeout=60)
    assert child.returncode == 130, shown
    assert "accepted: the run is cancelled, stored up to record" in shown
    with LmdbEventLog(folder / "slow.lmdb") as log:
        assert log.read("slow/you/default")[-1].data["status"] == "cancelled"


def test_ctrl_c_in_a_conversation_ends_the_run_and_not_the_conversation(folder: Path) -> None:
    ours, theirs = pty.openpty()
    console = Console(ours)
    command = [sys.executable, "-c", MAIN, "run", "slow_app:agent"]
    env = {**tree.environment(), "NO_COLOR": "1", "TERM": "dumb"}
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as child:
            try:
                os.close(theirs)
                console.until("you", b"hi\n")
                console.until("WAITING")
                child.send_signal(signal.SIGINT)
                console.until("accepted: the run is cancelled")
                console.until("you", b"still there?\n")
                console.until("Still here.")
                console.until("you", b"\x04")
                child.wait(60)
            finally:
                child.kill()  # else a failure would wait for it without end
    finally:
        os.close(ours)
    assert child.returncode == 0, console.shown


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "/").is_relative_to(folder)


class Console:
    """The other side of a terminal.

    Attributes:
        shown: All that was shown so far.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = ""  # what was shown behind the last part that was waited for
        self.shown = ""

    def until(self, part: str, answer: bytes = b"") -> None:
        """Read until a part has come, then type something. What came behind it is for the next to find."""
        while part not in self._rest:
            assert select.select([self._descriptor], [], [], 20)[0], f"no {part!r} in {self.shown!r}"
            read = os.read(self._descriptor, 65536).decode()
            self._rest += read
            self.shown += read
        self._rest = self._rest.partition(part)[2]
        if answer:
            os.write(self._descriptor, answer)
