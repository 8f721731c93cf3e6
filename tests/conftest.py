"""What every test has: the scale of the run, a temporary directory, the duty to leave nothing behind.

`pytest` is the default check, `pytest --long` the long one; `pytest --scenarios` runs none. Helpers that
are no fixtures are modules in `tests/support`, which `pythonpath` in pyproject.toml puts on the path:
`import scale`.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import scale
import scenarios
import stress
from intermission.testing import assert_nothing_left
from tree import ROOT

# What Python and the tools of the check keep in the repository, ignored by git.
CACHES = frozenset(
    {
        "__pycache__",
        ".hypothesis",
        ".import_linter_cache",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)

# A machine that is busy with other things makes an example slow, not wrong. The default check is the same
# at each run; the long one looks for new examples and keeps those that failed.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("intermission")
    group.addoption("--long", action="store_true", help="more rounds, and the tests marked long")
    group.addoption("--real-model", action="store_true", help="also the tests marked real_model")
    group.addoption("--scenarios", action="store_true", help="show the tests by scenario, and run none")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not config.getoption("--scenarios"):
        return None
    sys.stdout.write(scenarios.table())
    return 0


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Share the whole default check out among two processes, and nothing else.

    Two are enough to use the waits of one for the other; more would starve what meets in time. Part of the
    check is sooner done in one process, and the long one measures.
    """
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    is_default = not (config.getoption("--long") or "race" in str(config.getoption("markexpr")))
    return 2 if is_whole and is_default and not config.getoption("collectonly") else 0


def pytest_configure(config: pytest.Config) -> None:
    long = bool(config.getoption("--long"))
    scale.choose(long=long)
    settings.load_profile("long" if long else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if addressed := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        # Two processes that share the tests out among them would name these differently.
        raise pytest.UsageError(f"give these tests ids of their own: {', '.join(addressed)}")
    left_out = {mark for mark in ("long", "real_model") if not config.getoption(mark)}
    deselected = [item for item in items if any(mark.name in left_out for mark in item.iter_markers())]
    if deselected:
        # Deselected, not skipped: a skip is a test that could not run, and the check has none.
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a test that leaves a thread, descriptor, child or file behind."""
    # Not `mktemp`, which looks through all directories of the run to number one more.
    temporary = tmp_path_factory.getbasetemp() / f"tempfile{next(_numbers)}"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        # Both: the first is for child processes, the second for this one, which has read the first long ago.
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", str(temporary))
        with assert_nothing_left(directories=[temporary, *_watched()], ignore=CACHES):
            yield
    temporary.rmdir()


@pytest.fixture(params=["quiet", "stress"])
def load(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test twice, the second time with all cores busy. For races; each has half of their rounds."""
    with stress.busy(0 if request.param == "quiet" else None):
        yield


@cache
def _watched() -> tuple[Path, ...]:
    found = [ROOT]
    for name in ("actors", "docs", "examples", "storage", "tests"):
        for directory, below, _ in os.walk(ROOT / name):
            below[:] = [child for child in below if child not in CACHES]
            found.append(Path(directory))
    return tuple(found)
