"""What the adapters of `tests/comparison` share: a scene, in the environment of one framework.

The standard library alone is used here, since nothing else is in all of these environments.
"""

import asyncio
import importlib
import importlib.metadata
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Framework", "Scene", "found", "play"]

TOOL_SECONDS = 4.0  # how long the tool takes; it looks at nothing meanwhile
LOOK_AFTER = 1.0  # seconds after the cancel
PATIENCE = 15.0  # seconds for anything else


class Framework(Protocol):
    """A framework with one agent, one tool, and one session."""

    async def run(self, message: str) -> str:
        """Send a message to the session, and return the answer."""
        ...

    def cancel(self) -> None:
        """Cancel the run under way as the framework's documentation says; called on another thread."""
        ...

    def running(self) -> str:
        """Return what the framework itself says of work that still runs; empty if it says nothing."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...


class Scene:
    """What the framework is to do, and the tool that its agent has.

    Attributes:
        streaming: Whether the model is to stream.
        url: Where the model is, without a path.
    """

    def __init__(self, case: str, url: str) -> None:
        self.case = case
        self.streaming = case == "streaming model"
        self.url = url
        self.begun = threading.Event()
        self.tool_runs = False

    def look(self) -> str:
        """Look around."""
        self.tool_runs = True
        self.begun.set()
        threading.Event().wait(TOOL_SECONDS)  # as `time.sleep`: nothing ends it
        self.tool_runs = False
        return "seen"

    @property
    def tool(self) -> Callable[..., Any]:
        """The tool, `look` in any case."""
        if self.case != "async tool":
            return self.look

        async def look() -> str:
            """Look around."""
            self.tool_runs = True
            self.begun.set()
            try:
                await asyncio.sleep(TOOL_SECONDS)
            finally:
                self.tool_runs = False
            return "seen"

        return look


def found(name: str) -> Any:
    """Import a module that is in one environment only, so that no checker of types knows it."""
    return importlib.import_module(name)


def play(make: Callable[[Scene], Framework], *packages: str) -> None:
    """Play the scene of the command line: CASE URL, and tell what came of it in lines of JSON.

    The other process writes a line when its model has a request in hand, or has begun to stream.
    """
    scene = Scene(*sys.argv[1:])
    versions = {package: importlib.metadata.version(package) for package in packages}
    _say(versions=versions)
    asyncio.run(_play(scene, make(scene)))


async def _play(scene: Scene, framework: Framework) -> None:
    if "tool" not in scene.case:
        threading.Thread(target=_hear, args=(scene.begun,), daemon=True).start()
    looked, times = threading.Event(), list[float]()
    seen: dict[str, Any] = {}
    watcher = threading.Thread(target=_cancel, args=(scene, framework, times, seen, looked))
    task = asyncio.ensure_future(framework.run("Look"))
    watcher.start()
    try:
        how = f"returned {await asyncio.wait_for(task, PATIENCE)!r}"
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is what is to be shown
        how = f"raised {type(error).__name__}"
    back = time.monotonic()
    # The loop goes on, so that what the framework does afterwards can be done.
    while not looked.is_set():
        await asyncio.sleep(0.01)
    if not times:
        raise SystemExit(f"there was nothing to cancel: the run {how}")
    _say(back=back - times[0], how=how, **seen)
    try:
        answer = await asyncio.wait_for(framework.run("And?"), PATIENCE)
        _say(answer=answer, error="")
    except Exception as error:  # noqa: BLE001 - it is what is to be shown
        _say(answer="", error=f"{type(error).__name__}: {error}")
    await framework.close()
    watcher.join()


def _cancel(
    scene: Scene, framework: Framework, times: list[float], seen: dict[str, Any], looked: threading.Event
) -> None:
    """On a thread of its own, for a tool may hold up the loop: cancel, and look a second later."""
    if not scene.begun.wait(PATIENCE):
        looked.set()
        return
    threading.Event().wait(0.1)  # so that a piece of a stream has arrived, too
    times.append(time.monotonic())
    framework.cancel()
    threading.Event().wait(LOOK_AFTER - (time.monotonic() - times[0]))
    seen.update(tool_runs=scene.tool_runs, says=framework.running())
    _say(looked=True)
    looked.set()


def _hear(begun: threading.Event) -> None:
    if sys.stdin.readline():
        begun.set()


def _say(**what: Any) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()
