"""`Runner`: the caller's way in."""

import asyncio
import os
import sys
import weakref
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from intermission.agents.app import App
from intermission.config import RunConfig
from intermission.content import Content
from intermission.isolation.children import Children
from intermission.isolation.setting import refuse_while_loading
from intermission.kernel.clock import Clock, SystemClock
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.loops import Startup, ToolLoops
from intermission.kernel.ref import ActorRef
from intermission.kernel.scope import ScopeHost
from intermission.kernel.signals import SignalClose
from intermission.kernel.system import ActorSystem
from intermission.kernel.timer import SteeredClock, Timer
from intermission.kernel.waits import WaitsFor
from intermission.kernel.workers import Workers
from intermission.keys import SessionKey
from intermission.messages import PoisonPill, StartRun, Stop
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.plan import Resumption, answers_in
from intermission.runs.result import CancelSource
from intermission.runs.run import Run
from intermission.runs.services import Services
from intermission.runs.waiting import in_thread
from intermission.sessions.actor import SessionActor
from intermission.sessions.closing import Closing
from intermission.sessions.directory import Directory
from intermission.sessions.early import EarlyMessages
from intermission.sessions.handle import Session
from intermission.sessions.host import Host
from intermission.sessions.notices import Notices
from intermission.sessions.reading import events_after
from intermission.sessions.resuming_runs import Resuming
from intermission.sessions.settings import (
    check_config,
    check_count,
    check_delta,
    check_loop,
    check_seconds,
)
from intermission.sessions.shared_state import SharedState
from intermission.sessions.system import Sessioned, SessionSystem
from intermission_storage import EventLog, LmdbEventLog

__all__ = ["Runner"]


class Runner(Resuming):
    """Runs an app's agent on sessions that live in an event log. A context manager.

    Leaving the block closes it; a Ctrl-C meanwhile ends the grace, not the close.

    Args:
        app: What to run.
        log: A path, whose log the runner opens and closes, or an `EventLog`, which the caller closes.
        config: Settings of runs that are given none of their own.
        clock: Where the events' times come from; the machine's clock by default.
        loop: The event loop that async tools run on. By default it is a thread of the runtime's own, which
            begins with the first of them.
        on_startup: An async function that is awaited on that loop before the first of them: the place to make
            clients that are bound to their loop. Where a tool blocks a loop of ours, the tools after it get a
            fresh one, and this is awaited there, too.
        workers: How many threads may drive agents and call models and tools at a time. They are started as
            they are needed, and end when they have been idle for a few seconds.
        worker_wait: Seconds that a run or a call waits for one of them, until it ends as an overload.
        max_queued: How many runs may wait in one session behind the one under way; one more is an
            `OverloadedError`.
        resident_sessions: How many sessions with nothing to do stay in memory. The others come back from
            the log when they are needed.
        auto_create: Whether a run of a session that is missing creates it. If not, it is a
            `SessionNotFoundError` of the run's start, and nothing is stored.
        switch_interval: Seconds after which Python lets another thread run, for the whole process. A Python
            thread that computes without a pause holds up all others for 0.005 each time they are woken, by
            default; 0.0005 makes that bearable. `None` leaves it as it is.

    Attributes:
        sessions: The app's sessions.
        system: The program's own actors, on a thread of their own, and the sessions by their keys.

    Raises:
        TypeError: There is no log, or something is of another type than it must be.
        ValueError: A number is too small.
        StorageError: The log at the path cannot be opened.
    """

    def __init__(
        self,
        app: App,
        *,
        log: str | os.PathLike[str] | EventLog | None = None,
        config: RunConfig | None = None,
        clock: Clock | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        on_startup: Startup | None = None,
        workers: int = 1024,
        worker_wait: float = 30.0,
        max_queued: int = 1000,
        resident_sessions: int = 10_000,
        auto_create: bool = True,
        switch_interval: float | None = None,
    ) -> None:
        _check_app(app)
        log = _checked_log(log)
        check_config(config)
        check_loop(loop)
        check_count("workers", workers, 1)
        check_seconds("worker_wait", worker_wait)
        check_count("max_queued", max_queued, 0)
        check_count("resident_sessions", resident_sessions, 0)
        self._app, self._config = app, config or RunConfig()
        self._log: EventLog = LmdbEventLog(log) if isinstance(log, str | os.PathLike) else log
        opened = None if self._log is log else self._log
        # What computes in an actor of the program must not hold up the sessions, nor they it.
        dispatcher = Dispatcher(name="intermission-sessions")
        self._actors = ActorSystem(dispatcher=dispatcher)
        # A clock that only tells the time cannot end a wait; the machine's does that then.
        timer = Timer(clock if isinstance(clock, SteeredClock) else None)
        pool = Workers(timer=timer, limit=workers, wait=worker_wait)
        self.system = SessionSystem(dispatcher=Dispatcher(later=True))
        self.system.sessioned = Sessioned(self._start_run, self._say)
        self._services = Services(
            system=self._actors,
            dispatcher=dispatcher,
            workers=pool,
            timer=timer,
            waits=WaitsFor(),
            clock=clock or SystemClock(),
            scopes=ScopeHost(timer, pool),
            loops=ToolLoops(timer, loop=loop, on_startup=on_startup),
            children=Children(timer, pool),
            plugins=app.plugins,
        )
        self._directory = Directory(self._start_session, max_queued=max_queued, resident=resident_sessions)
        self._notices = Notices(app, self._log, self._services, self._directory.tell)
        super().__init__(self._host_of(app, auto_create=auto_create), self._directory)
        made = self._directory, self._viewers, self._notices, self.system, self._services
        self._closing = Closing(*made, opened)
        self._runs = EarlyMessages(self._directory)
        self._signals: SignalClose | None = None
        if switch_interval is not None:
            sys.setswitchinterval(switch_interval)
        self._notices.open()

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: str | Content,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        invocation_id: str | None = None,
    ) -> Run:
        """Return a cold run of the app's agent on a session; a missing session is created when it starts.

        Runs of one session follow each other in the order in which they were started.

        Args:
            user_id: The session's user.
            session_id: The session.
            message: What the user says.
            config: The run's settings; the runner's by default.
            state_delta: Changes of the session's state that come with the message; `None` removes a key.
            invocation_id: The invocation to go on with; see `resume`. In a resumable app, function responses
                in the message go on with that of their calls.

        Raises:
            TypeError: A key, also one of the state, is no `str`, the message is neither `str` nor `Content`,
                or `config` is no `RunConfig`.
            ValueError: A key is empty, or the message has no parts.
            NotResumableError: There is an invocation id, and the app is not resumable.
        """
        check_config(config)
        check_delta(state_delta)
        key = SessionKey(self._app.name, user_id, session_id)
        content = Content.user(message) if isinstance(message, str) else message
        if not isinstance(content, Content):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"message must be str or Content, not {type(message).__name__}")
        if not content.parts:
            raise ValueError("the message has no parts: there is nothing to run on")
        if not content.role:
            content = Content("user", content.parts)  # ADK's clients may leave it out
        answers = answers_in(content) if self._app.resumability_config.is_resumable else ()
        resumption = None
        if answers or invocation_id is not None:
            self._check_resumable()
            resumption = Resumption(invocation_id, answers)
        return self._cold(key, content, config, state_delta, resumption)

    def session(self, *, user_id: str, session_id: str) -> Session:
        """Return a handle on a session, whether it exists or not; its keys are checked as by `run`."""
        key = SessionKey(self._app.name, user_id, session_id)
        return Session(self, self.run, key.user_id, key.session_id)

    def close(self, grace: float = 5.0, *, runs: Literal["cancel", "release"] | None = None) -> None:
        """Take no more runs, and return when every run has ended and its end is stored. Idempotent.

        Runs that wait behind another end with `SessionClosedError`. Runs under way get `grace` seconds to
        end by themselves. Of those left, work that cannot be interrupted goes on until it returns, and
        nothing of it is stored or shown. A log that the runner opened is closed.

        Code of a run may call this: its run, and those that wait for it, get no grace, and the call returns
        when the others have had theirs. An actor, or code that a close waits for, that calls this while
        somebody else closes the runner returns at once.

        Args:
            grace: Seconds.
            runs: What becomes of those left: with `"cancel"` they end `cancelled`, by `shutdown`; with
                `"release"` they end `interrupted`, and can be gone on with. The default is `"release"` if
                the app is resumable, and `"cancel"` if not.

        Hooks of ended runs that are under way are waited for within the grace, and so are the plugins, which
        are closed then; both have a second at least.

        Raises:
            ValueError: `grace` is no number of seconds, or `runs` is neither.
            Exception: What a plugin's `close` raised, or an `ExceptionGroup` of several, when all is closed.
        """
        warn_of_blocking("Runner.close", "aclose, or async with")
        release = self._releases(grace, runs)
        errors = self._closing.close(grace, release=release)
        if errors is None:
            return
        signals, self._signals = self._signals, None
        if signals is not None:
            signals.finish()
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("plugins could not be closed", errors)

    async def aclose(self, grace: float = 5.0, *, runs: Literal["cancel", "release"] | None = None) -> None:
        """As `close`, without blocking the event loop. If its task is cancelled, the close goes on."""
        # On a thread of its own: the workers end with the runner, and those of the loop may all be taken.
        await in_thread(partial(self.close, grace, runs=runs), name="intermission-close")

    def close_on_signals(
        self, grace: float = 5.0, *, runs: Literal["cancel", "release"] | None = None
    ) -> None:
        """Close this runner at SIGINT and SIGTERM; without this call, signals are the program's own affair.

        The first signal has a helper thread close the runner, while the program goes on; when that is done,
        the signal takes the course that it had before. A second signal ends the process at once.

        Args:
            grace: As for `close`.
            runs: As for `close`.

        Raises:
            ValueError: This is not the main thread, or what `close` raises.
        """
        self._releases(grace, runs)
        if self._signals is None:
            self._signals = SignalClose(partial(self.close, grace, runs=runs))

    async def __aenter__(self) -> Self:
        """Have async tools run on the running loop, unless the runner was given another."""
        self._services.loops.use(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closing = asyncio.ensure_future(self.aclose())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:  # it ends the grace, and nobody else would close; another one leaves
            self._closing.hasten()
            await asyncio.wait([closing])
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except KeyboardInterrupt:  # a Ctrl-C during the grace ends the grace, and nobody else would close
            self._closing.hasten()
            self.close(0)
            raise

    def _releases(self, grace: float, runs: str | None) -> bool:
        """Return whether a close releases the runs that are left."""
        if not grace >= 0:
            raise ValueError(f"grace is {grace}: give seconds, at least 0")
        if runs not in {None, "cancel", "release"}:
            raise ValueError(f"runs is {runs!r}: give 'cancel' or 'release'")
        return runs == "release" or (runs is None and self._app.resumability_config.is_resumable)

    def _host_of(self, app: App, *, auto_create: bool) -> Host:
        shared, topics = SharedState(self._log), self.system.topics
        return Host(
            app, self._log, self._services, self._directory, topics, shared, self._notices, auto_create
        )

    def _cold(
        self,
        key: SessionKey,
        content: Content,
        config: RunConfig | None,
        state_delta: Mapping[str, Any] | None,
        resumption: Resumption | None,
    ) -> Run:
        refuse_while_loading()
        log, stream = self._log, key.stream

        def read_back(after: int, limit: int) -> Any:
            run = seen()  # who reads its events holds it
            return events_after(log, stream, after, limit, None if run is None else run.invocation_id)

        lifecycle = Lifecycle(
            key,
            content,
            config or self._config,
            self._services,
            self._runs,
            read_back,
            state_delta=state_delta,
            resumption=resumption,
        )
        seen = weakref.ref(lifecycle)
        return Run(lifecycle)

    def _start_run(self, user_id: str, session_id: str, message: StartRun) -> Run:
        run = self.run(user_id=user_id, session_id=session_id, message=message.message, config=message.config)
        run.begin()
        run.raise_refusal()
        return run

    def _say(self, user_id: str, session_id: str, message: Stop | PoisonPill) -> None:
        if message.invocation_id is not None:
            key = SessionKey(self._app.name, user_id, session_id)
            self._runs.say(key, message.invocation_id, message)
        elif isinstance(message, Stop):
            self.stop(user_id=user_id, session_id=session_id, reason=message.reason)
        else:
            run = self._find(user_id, session_id, None)
            if run is not None:
                run.cancel(CancelSource.ADMIN, message.reason)

    def _start_session(self, key: SessionKey) -> ActorRef[SessionActor]:
        return self._actors.start(SessionActor, key, self._host)


def _check_app(given: object) -> None:
    if not isinstance(given, App):
        raise TypeError(f"Runner needs an App, as in Runner(App('shop', agent), …), not {given!r}")


def _checked_log(given: str | os.PathLike[str] | EventLog | None) -> str | os.PathLike[str] | EventLog:
    if given is None:
        raise TypeError(
            "Runner needs a log: log='sessions.lmdb' keeps the sessions on disk, "
            "log=MemoryEventLog() (from intermission_storage) only as long as the process lives"
        )
    if not isinstance(given, str | os.PathLike) and not hasattr(given, "append"):
        raise TypeError(f"log must be a path or an EventLog, not {given!r}")
    return given
