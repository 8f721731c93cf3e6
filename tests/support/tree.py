"""The repository as files: what git sees of it, copies of it, and commands that run in it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "PACKAGES",
    "ROOT",
    "Finished",
    "copy_tree",
    "environment",
    "files",
    "module_name",
    "modules",
    "read",
    "run",
]

ROOT = Path(__file__).resolve().parents[2]

# Import name of each package to the directory that holds it.
PACKAGES = {"intermission": "actors", "intermission_storage": "storage"}


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended; `output` holds both its streams."""

    command: tuple[str, ...]
    code: int
    output: str

    def check(self) -> None:
        """Raise an AssertionError that shows the output, unless the command succeeded."""
        assert self.code == 0, f"{' '.join(self.command)} ended with {self.code}:\n{self.output}"


def run(
    *command: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, timeout: float = 300
) -> Finished:
    """Run a command to its end, without input and without a terminal.

    Raises:
        subprocess.TimeoutExpired: It took longer; it and its children were killed.
    """
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Finished(command, process.returncode, output)


def environment(root: Path = ROOT) -> dict[str, str]:
    """Return this process's environment, changed so that Python imports the packages from `root`.

    An editable installation leads to the checkout; PYTHONPATH comes first, so that a copy runs its own code.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = os.pathsep.join(str(root / folder) for folder in PACKAGES.values())
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    return env


def files(*, suffix: str = "") -> list[Path]:
    """Return the files that git sees, committed or new but not ignored, relative to the root, sorted."""
    listing = run(
        *("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"),
        *("--cached", "--others", "--exclude-standard", "--deduplicate"),
    )
    listing.check()
    names = [Path(name) for name in listing.output.split("\0") if name.endswith(suffix) and name]
    # A file that was deleted but is still in the index is listed, too.
    return sorted(name for name in names if (ROOT / name).is_file())


def read(path: Path) -> str:
    """Return the text of the file at a path relative to the root."""
    return (ROOT / path).read_text(encoding="utf-8")


def copy_tree(to: Path) -> Path:
    """Copy the files that git sees to the directory `to`, which is created, and return it."""
    for name in files():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return to


def modules() -> list[Path]:
    """Return the modules of both packages, relative to the root, sorted."""
    folders = [ROOT / folder / package for package, folder in PACKAGES.items()]
    return sorted(path.relative_to(ROOT) for folder in folders for path in folder.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the import name of a module that `modules` gave."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
