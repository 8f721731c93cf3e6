"""What `runtime.py` measures: each function runs in a child, and returns figures."""

import gc
import os
import resource
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pykka

from flushes import count
from intermission import App, Content, FunctionCall, LlmAgent, Part, Run, Runner, RunStatus, Usage
from intermission.kernel.actor import Actor
from intermission.models import ModelRequest, ModelResponse
from intermission.runs.messages import RunEnded
from intermission.sessions.actor import SessionActor
from intermission.sessions.directory import WARM
from intermission.sessions.view import SessionView
from intermission.testing import Gate
from intermission_storage import LmdbEventLog, MemoryEventLog

# The benchmarks are scripts beside one another, and no package.
_LOG = runpy.run_path(str(Path(__file__).with_name("log_parts.py")))
put_together: Callable[[int, float], float] = _LOG["put_together"]
compute: Callable[[threading.Event], None] = _LOG["compute"]

PATIENCE = 1200.0  # seconds
CLOCK = time.perf_counter
EVENTS = 4  # of a run with a tool: the message, the call, its response, the answer
IDLE_THREADS = 16

QUESTION = "A question"  # how messages begin that the model uses its tool for
THANKS = "Thanks"  # or answers at once
HOLD = "Hold"  # or stops at the gate for
TEN_EVENTS = (QUESTION, QUESTION, THANKS)


class Instant:
    """A model that answers at once, what the message asks for; only a `HOLD` waits at the gate."""

    name = "instant"

    def __init__(self) -> None:
        self.gate = Gate()

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        last = request.contents[-1]
        if last.text.startswith(HOLD):
            self.gate.wait(PATIENCE)
        if last.text.startswith(QUESTION):
            call = FunctionCall("any", "look_up", {"query": last.text, "limit": 5})
            content = Content("model", (Part(function_call=call),))
        else:
            content = Content.model(f"The {len(request.contents)}th answer. " * 6)
        yield ModelResponse(content=content, usage=Usage(100, 20, 120))


def look_up(query: str, limit: int) -> dict[str, Any]:
    """Look something up."""
    return {"result": f"{query}-{limit}", "rows": [1, 2, 3]}


def app_of(model: Instant) -> App:
    return App("bench", LlmAgent("agent", model, tools=[look_up]))


def names(number: int, prefix: str = "session") -> list[str]:
    return [f"{prefix}-{each:06}" for each in range(number)]


class Crowd:
    """Sessions that each make one run after another, as a server's would. No thread waits for any of them.

    Args:
        runner: Whose sessions.
        sessions: Their ids.
        messages: How the message of each of their runs begins.
    """

    def __init__(self, runner: Runner, sessions: Sequence[str], messages: Sequence[str]) -> None:
        self._runner = runner
        self._messages = messages
        self._done = dict.fromkeys(sessions, 0)
        self._waiting = iter(sessions)
        self._open = len(sessions)
        self._over = threading.Event()
        self._failed: list[object] = []

    def run(self, at_once: int | None = None) -> float:
        """Let so many sessions at a time make their runs, all by default; return how long that took."""
        driver = self._runner.system.start(_Driver, self)
        self._runner.system.subscribe(driver, RunEnded)
        begun = CLOCK()
        for session in list(islice(self._waiting, at_once)):
            self._start(session)
        if not self._over.wait(PATIENCE) or self._failed:
            raise RuntimeError(f"{self._open} sessions have not ended; runs that failed: {self._failed[:3]}")
        took = CLOCK() - begun
        driver.stop()
        return took

    def ended(self, message: RunEnded) -> None:
        """Called by the driver: a run has ended."""
        session = message.session_id
        if message.result.status is not RunStatus.COMPLETED:
            self._failed.append(message.result)
        self._done[session] += 1
        if self._done[session] < len(self._messages):
            self._start(session)
            return
        self._open -= 1
        if not self._open:
            self._over.set()
        for following in islice(self._waiting, 1):
            self._start(following)

    def _start(self, session: str) -> None:
        begin(self._runner, session, self._messages[self._done[session]])


class _Driver(Actor):
    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd

    def on_receive(self, message: object) -> None:
        if isinstance(message, RunEnded):
            self._crowd.ended(message)


def begin(runner: Runner, session: str, message: str) -> Run:
    # Each text is another one, or all sessions would share its memory.
    run = runner.run(user_id="u", session_id=session, message=f"{message} about the invoice of {session}")
    run.begin()
    return run


# Runs.


def whole(at_once: int, each: int, seconds: float) -> dict[str, float]:
    """Return records a second of LMDB alone with that many streams, the runtime's, and what a run costs."""
    sessions = max(at_once, 20)
    limit = put_together(at_once, seconds)
    with ExitStack() as stack:
        runner = stack.enter_context(Runner(app_of(Instant()), log=_log(stack)))
        Crowd(runner, names(sessions, "warm"), [QUESTION]).run(at_once)
        before, flushes = resource.getrusage(resource.RUSAGE_SELF), count()
        took = Crowd(runner, names(sessions), [QUESTION] * each).run(at_once)
        after, flushes = resource.getrusage(resource.RUSAGE_SELF), count() - flushes
    runs = sessions * each
    return {
        "limit": limit,
        "rate": EVENTS * runs / took,
        "cpu": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / runs,
        "flushes": flushes / runs,
        "waits": (after.ru_nvcsw - before.ru_nvcsw) / runs,
    }


def busy(interval: float, sessions: int, each: int) -> list[float]:
    """Return events a second without a thread that computes, and beside one."""
    sys.setswitchinterval(interval)
    alone = _rate(sessions, each)
    over = threading.Event()
    thread = threading.Thread(target=compute, args=[over])
    thread.start()
    try:
        return [alone, _rate(sessions, each)]
    finally:
        over.set()
        thread.join()


def _rate(sessions: int, each: int) -> float:
    with ExitStack() as stack:
        runner = stack.enter_context(Runner(app_of(Instant()), log=_log(stack)))
        Crowd(runner, names(sessions, "warm"), [QUESTION]).run()
        return EVENTS * sessions * each / Crowd(runner, names(sessions), [QUESTION] * each).run()


# Sessions with nothing to do.


def memory() -> int:
    """Return the anonymous memory of this process in bytes: what it allocated, and no mapped file."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise LookupError("RssAnon")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def session(number: int) -> dict[str, float]:
    """Return the bytes of one more resident session of ten events, with its entry, and of the events.

    Only those that were idle last hold their events: as many before as after.
    """
    with ExitStack() as stack:
        runner = _unsynced(Instant(), stack, 2 * number + 1000)
        Crowd(runner, names(WARM + 100, "warm"), TEN_EVENTS).run(100)
        before = memory()
        Crowd(runner, names(number), TEN_EVENTS).run(100)
        cost = (memory() - before) / number
        _check_resident(WARM + 100 + number)
        views = [thing for thing in gc.get_objects() if type(thing) is SessionView]
        histories = [view.events for view in views if view.position]
        if {len(history) for history in histories} != {10}:
            raise RuntimeError("not all sessions have ten events")
        return {"session": cost, "events": _size(histories) / len(histories)}


def _size(of: list[Any]) -> int:
    """Return the bytes of some objects and of all that they hold, each counted once."""
    left, seen, size = list(of), set[int](), 0
    while left:
        thing = left.pop()
        if id(thing) not in seen and not isinstance(thing, type | ModuleType | FunctionType):
            seen.add(id(thing))
            size += sys.getsizeof(thing)
            left += gc.get_referents(thing)
    return size


class Threaded(pykka.ThreadingActor):
    """An actor of Pykka's, which has a thread."""

    use_daemon_thread = True

    def on_receive(self, message: object) -> object:
        return message


def thread(number: int) -> float:
    """Return the bytes of one of Pykka's own actors, which holds nothing."""
    kept = [Threaded.start()]
    kept[0].ask(0, timeout=PATIENCE)
    before = memory()
    kept += [Threaded.start() for _ in range(number)]
    for ref in kept:
        ref.ask(0, timeout=PATIENCE)
    cost = (memory() - before) / number
    for ref in kept:
        ref.stop()
    return cost


def residents(number: int, runs: int, rounds: int) -> dict[str, Any]:
    """Return what many resident sessions cost, and how fast some of them, all over them, make runs."""
    with ExitStack() as stack:
        runner = _unsynced(Instant(), stack, number + 1000)
        all_of_them = names(number)
        filled = Crowd(runner, all_of_them, [THANKS]).run(100)
        some = all_of_them[:: number // runs][:runs]
        rates = [runs / Crowd(runner, some, [QUESTION]).run(100) for _ in range(rounds + 1)]
        idle = _idle_threads()
        anonymous = memory()
        _check_resident(number)
    return {"fill": number / filled, "rates": rates[1:], "threads": idle, "memory": anonymous}


def in_flight(number: int, runs: int) -> dict[str, Any]:
    """Return how many threads there are while some of many resident sessions wait for their models."""
    model = Instant()
    with ExitStack() as stack:
        runner = _unsynced(model, stack, number + 1000)
        all_of_them = names(number)
        Crowd(runner, all_of_them, [THANKS]).run(100)
        idle = _idle_threads()
        begun = [begin(runner, name, HOLD) for name in all_of_them[:: number // runs][:runs]]
        model.gate.arrived(runs, PATIENCE)
        found = threads()
        model.gate.open()
        for run in begun:
            run.result(PATIENCE)
        _check_resident(number)
    return {"idle": idle, "threads": found}


def _unsynced(model: Instant, stack: ExitStack, resident: int) -> Runner:
    """Return a runner whose log is a mapped file, not in anonymous memory, and waits for no disk."""
    log = _log(stack, sync=False)
    return stack.enter_context(Runner(app_of(model), log=log, resident_sessions=resident))


def _log(stack: ExitStack, *, sync: bool = True) -> LmdbEventLog:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(LmdbEventLog(Path(directory) / "log", sync=sync))


def _idle_threads() -> int:
    """Return how many threads are left when those that nobody needs have had the time to end."""
    never, until = threading.Event(), CLOCK() + 15
    while threads() > IDLE_THREADS and CLOCK() < until:
        never.wait(0.1)
    return threads()


def _check_resident(number: int) -> None:
    found = sum(type(thing) is SessionActor for thing in gc.get_objects())
    if found != number:
        raise RuntimeError(f"{found} sessions are resident, not {number}")


# Calls that block, and cancels.


class Answering(Actor):
    """Answers at once."""

    def on_receive(self, message: object) -> object:
        return message


def blocked(calls: int, asks: int) -> dict[str, Any]:
    """Return how long another actor takes to answer while model calls begin, and while they block."""
    model = Instant()
    with Runner(app_of(model), log=MemoryEventLog(), workers=calls + 64) as runner:
        other = runner.system.start(Answering)
        other.ask("warm", timeout=PATIENCE)
        runs: list[Run] = []
        starter = threading.Thread(
            target=lambda: runs.extend(begin(runner, name, HOLD) for name in names(calls))
        )
        starter.start()
        early = _asks(other, lambda _: model.gate.arrivals < calls)
        starter.join()
        found = threads()
        late = _asks(other, lambda number: number < asks)
        model.gate.open()
        for run in runs:
            run.result(PATIENCE)
    return {"they begin": early, "they block": late, "threads": found}


def _asks(other: "pykka.ActorRef[Any]", go_on: Callable[[int], bool]) -> list[float]:
    times: list[float] = []
    until = CLOCK() + PATIENCE
    while not times or go_on(len(times)):
        begun = CLOCK()
        if begun > until:
            raise RuntimeError("not all calls have begun")
        other.ask("now", timeout=PATIENCE)
        times.append(CLOCK() - begun)
    return times


def cancels(number: int) -> dict[str, Any]:
    """Return how long a cancel takes its caller, and until the run's end is durable; then many in a loop."""
    model = Instant()
    calls: list[float] = []
    ends: list[float] = []
    with ExitStack() as stack:
        runner = stack.enter_context(Runner(app_of(model), log=_log(stack)))
        for arrived, name in enumerate(names(number, "one"), 1):
            run = begin(runner, name, HOLD)
            model.gate.arrived(arrived, PATIENCE)
            begun = CLOCK()
            run.cancel()
            calls.append(CLOCK() - begun)
            _cancelled(run)
            ends.append(CLOCK() - begun)
        runs = [begin(runner, name, HOLD) for name in names(number, "all")]
        model.gate.arrived(2 * number, PATIENCE)
        begun = CLOCK()
        for run in runs:
            run.cancel()
        loop = CLOCK() - begun
        for run in runs:
            _cancelled(run)
        last = CLOCK() - begun
        model.gate.open()
    return {"calls": calls, "ends": ends, "loop": loop, "last": last}


def _cancelled(run: Run) -> None:
    if run.result(PATIENCE).status is not RunStatus.CANCELLED:
        raise RuntimeError(f"it was not cancelled: {run}")
