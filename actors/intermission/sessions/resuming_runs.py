"""`Resuming`: going on with runs that are paused, were interrupted, or were left by a process that died."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from intermission.config import RunConfig
from intermission.content import Content
from intermission.errors import NotResumableError
from intermission.kernel.dispatcher import blocking_here
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.keys import SessionKey
from intermission.runs.plan import Answers, Resumption, as_answers
from intermission.runs.result import RunResult, RunStatus
from intermission.runs.run import Run
from intermission.runs.waiting import in_worker
from intermission.sessions.administration import Administration
from intermission.sessions.records import OPEN_RUNS
from intermission.sessions.settings import check_config, check_count, check_delta

__all__ = ["Recovered", "RecoveryReport", "Resuming"]

_NO_MESSAGE = Content("user", ())


@dataclass(frozen=True, slots=True)
class Recovered:
    """One run of a `RecoveryReport`: its session, its id, and what it came to."""

    user_id: str
    session_id: str
    invocation_id: str
    result: RunResult


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What `recover_all` has done.

    Attributes:
        continued: The runs that were gone on with, and did not fail.
        elsewhere: Those that another process has, or has ended.
        failed: Those that failed, or could not be gone on with; `result.error` says why.
    """

    continued: tuple[Recovered, ...] = ()
    elsewhere: tuple[Recovered, ...] = ()
    failed: tuple[Recovered, ...] = ()


class Resuming(Administration):
    """The part of a `Runner` that goes on with runs."""

    def resume(
        self,
        *,
        user_id: str,
        session_id: str,
        answers: Answers | None = None,
        invocation_id: str | None = None,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
    ) -> Run:
        """Return a cold run that goes on with an invocation which is paused, or was interrupted.

        The answers tell which one; without them, the invocation id does. One that was cancelled, has failed
        or has expired is gone on with, too, for that is what its id asks for. Where there is nothing to do,
        for the answers were given before or the invocation waits for others or is over, the run ends at
        once, `paused` or `completed`, and stores nothing. Answers that are sent again where the process that
        had taken them died go on with its run. What cannot be done is an error of the run's start,
        and nothing is stored: `UnknownCallError`, `MissingCallIdError`, `InvalidAnswerError`,
        `AmbiguousResumeError`, `NothingToResumeError`, `AgentTreeChangedError`, `SessionNotFoundError`.

        Args:
            user_id: The session's user.
            session_id: The session.
            answers: `Answer`s, or a mapping of pending ids to plain values; each is used once.
            invocation_id: The invocation.
            config: The run's settings; the runner's by default.
            state_delta: Changes of the session's state that come with the answers; `None` removes a key.

        Raises:
            NotResumableError: The app is not resumable.
            TypeError: A key is no `str`, an answer is no `Answer`, or `config` is no `RunConfig`.
            ValueError: A key is empty, or there are neither answers nor an invocation id.
            EncodingError: An answer holds other than plain values.
        """
        self._check_resumable()
        check_config(config)
        check_delta(state_delta)
        resumption = Resumption(invocation_id, as_answers(answers))
        if invocation_id is None and not resumption.answers:
            raise ValueError("give answers, or the invocation_id to go on with")
        key = SessionKey(self._host.app.name, user_id, session_id)
        return self._cold(key, _NO_MESSAGE, config, state_delta, resumption)

    def recover(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        max_attempts: int = 3,
        take_over: bool = False,
    ) -> list[Run]:
        """Return cold runs that go on with what dead processes and closed runners have left, oldest first.

        They are those without an end, and those that were released, unless a new one has begun in their
        session since. Cancelled, failed, expired and paused ones are never among them. One that another
        process takes first has no events and ends `elsewhere`. One whose process has died in it
        `max_attempts` times ends `failed`, with `RecoveryLimitError`. In an app that is not resumable they
        all end `failed`.

        Args:
            user_id: Only this user's.
            session_id: Only those of the sessions of this id.
            max_attempts: How often a run is gone on with, if its process dies each time.
            take_over: Whether to take runs also from processes that live, and hang.

        Raises:
            StorageError: The log cannot be read.
            ValueError: `max_attempts` is below one.
        """
        warn_of_blocking("Runner.recover", "arecover")
        return self._recovered(user_id, session_id, max_attempts, take_over)

    async def arecover(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        max_attempts: int = 3,
        take_over: bool = False,
    ) -> list[Run]:
        """As `recover`, without blocking the event loop."""
        return await in_worker(
            self._host.services,
            lambda: self._recovered(user_id, session_id, max_attempts, take_over),
            context=copy_context(),
        )

    def recover_all(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        max_attempts: int = 3,
        take_over: bool = False,
        max_parallel: int = 8,
    ) -> RecoveryReport:
        """Go on with all that `recover` finds, and return what came of it when all have ended.

        What a worker calls when it starts. That one cannot be gone on with stops no other.

        Args:
            user_id: See `recover`.
            session_id: See `recover`.
            max_attempts: See `recover`.
            take_over: See `recover`.
            max_parallel: How many run at a time.

        Raises:
            StorageError: The log cannot be read.
            ValueError: `max_attempts` or `max_parallel` is below one.
        """
        warn_of_blocking("Runner.recover_all", "arecover_all")
        check_count("max_parallel", max_parallel, 1)
        waiting = deque(self._recovered(user_id, session_id, max_attempts, take_over))
        changed = threading.Condition()
        active: list[Run] = []
        ended: list[Run] = []

        def over() -> None:
            with changed:
                changed.notify()

        with blocking_here():
            while waiting or active:
                while waiting and len(active) < max_parallel:
                    run = waiting.popleft()
                    run.begin()
                    run.listen(over)
                    active.append(run)
                with changed:
                    while all(run.status is None for run in active):
                        changed.wait()
                ended += [run for run in active if run.status is not None]
                active = [run for run in active if run.status is None]
        return _report(ended)

    async def arecover_all(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        max_attempts: int = 3,
        take_over: bool = False,
        max_parallel: int = 8,
    ) -> RecoveryReport:
        """As `recover_all`, without blocking the event loop. If its task is cancelled, it goes on."""
        return await in_worker(
            self._host.services,
            lambda: self.recover_all(
                user_id=user_id,
                session_id=session_id,
                max_attempts=max_attempts,
                take_over=take_over,
                max_parallel=max_parallel,
            ),
            context=copy_context(),
        )

    def _recovered(
        self, user_id: str | None, session_id: str | None, max_attempts: int, take_over: bool
    ) -> list[Run]:
        check_count("max_attempts", max_attempts, 1)
        return [
            self._cold(key, _NO_MESSAGE, None, None, Resumption(invocation_id, (), max_attempts, take_over))
            for key, invocation_id in self._left(user_id, session_id, take_over)
        ]

    def _left(
        self, user_id: str | None, session_id: str | None, take_over: bool
    ) -> Iterator[tuple[SessionKey, str]]:
        log, app = self._host.log, self._host.app.name
        here = {run.invocation_id for run in self._directory.runs()}
        entries = log.index(OPEN_RUNS, (app,) if user_id is None else (app, user_id))
        for entry in sorted(entries, key=lambda entry: (entry.value.get("since", 0.0), entry.key)):
            _, user, session, invocation_id = entry.key
            if session_id not in {None, session} or invocation_id in here or entry.value.get("followed"):
                continue
            key = SessionKey(app, user, session)
            claim = log.head(key.stream).claim
            if claim is None or not claim.alive or (take_over and claim.owner != log.owner):
                yield key, invocation_id

    def _check_resumable(self) -> None:
        if not self._host.app.resumability_config.is_resumable:
            raise NotResumableError(self._host.app.name)

    def _cold(
        self,
        key: SessionKey,
        content: Content,
        config: RunConfig | None,
        state_delta: Mapping[str, Any] | None,
        resumption: Resumption | None,
    ) -> Run:
        """Return a cold run."""
        raise NotImplementedError


def _report(ended: list[Run]) -> RecoveryReport:
    found: dict[str, list[Recovered]] = {"continued": [], "elsewhere": [], "failed": []}
    for run in ended:
        result = run.outcome
        assert result is not None
        one = Recovered(run.user_id, run.session_id, run.invocation_id or "", result)
        match result.status:
            case RunStatus.ELSEWHERE:
                found["elsewhere"].append(one)
            case RunStatus.FAILED | RunStatus.EXPIRED:
                found["failed"].append(one)
            case _:
                found["continued"].append(one)
    return RecoveryReport(**{name: tuple(runs) for name, runs in found.items()})
