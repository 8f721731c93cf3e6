"""`Session`: a session by its key, with the runner's verbs and no keys to repeat."""

from collections.abc import Mapping
from typing import Any, Protocol

from intermission.config import RunConfig
from intermission.content import Content
from intermission.events import Event
from intermission.pending import PendingCall
from intermission.runs.plan import Answers
from intermission.runs.receipt import CancelReceipt
from intermission.runs.run import Run
from intermission.sessions.catalog import SessionInfo
from intermission.sessions.resuming_runs import Resuming
from intermission.sessions.run_records import RunRecord

__all__ = ["Session"]


class _Begin(Protocol):
    """`Runner.run`, which the layers below the runner do not have."""

    def __call__(
        self,
        *,
        user_id: str,
        session_id: str,
        message: str | Content,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        invocation_id: str | None = None,
    ) -> Run: ...


class Session:
    """A handle on a session, whether it exists or not. It keeps nothing: each call asks the runner.

    `Runner.session` makes it. Each call is the one of the same name of `Runner` or `Runner.sessions`, and
    raises what that one does; calls that can wait have an async twin with the prefix `a`.

    Attributes:
        user_id: The session's user.
        session_id: The session.
    """

    __slots__ = ("_run", "_runner", "session_id", "user_id")

    def __init__(self, runner: Resuming, run: _Begin, user_id: str, session_id: str) -> None:
        self._runner = runner
        self._run = run
        self.user_id = user_id
        self.session_id = session_id

    # Its runs.

    def run(
        self,
        message: str | Content,
        *,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        invocation_id: str | None = None,
    ) -> Run:
        """See `Runner.run`."""
        return self._run(
            user_id=self.user_id,
            session_id=self.session_id,
            message=message,
            config=config,
            state_delta=state_delta,
            invocation_id=invocation_id,
        )

    def resume(
        self,
        answers: Answers | None = None,
        *,
        invocation_id: str | None = None,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
    ) -> Run:
        """See `Runner.resume`."""
        return self._runner.resume(
            user_id=self.user_id,
            session_id=self.session_id,
            answers=answers,
            invocation_id=invocation_id,
            config=config,
            state_delta=state_delta,
        )

    def pending(self) -> list[PendingCall]:
        """See `Runner.pending`."""
        return self._runner.pending(user_id=self.user_id, session_id=self.session_id)

    async def apending(self) -> list[PendingCall]:
        """As `pending`, without blocking the event loop."""
        return await self._runner.apending(user_id=self.user_id, session_id=self.session_id)

    def active(self) -> list[Run]:
        """See `Runner.active`."""
        return self._runner.active(user_id=self.user_id, session_id=self.session_id)

    def attach(self, after: int = 0) -> Run:
        """See `Runner.attach`."""
        return self._runner.attach(user_id=self.user_id, session_id=self.session_id, after=after)

    async def aattach(self, after: int = 0) -> Run:
        """As `attach`, without blocking the event loop."""
        return await self._runner.aattach(user_id=self.user_id, session_id=self.session_id, after=after)

    def cancel(
        self,
        reason: str = "",
        *,
        invocation_id: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
        take_over: bool = False,
    ) -> CancelReceipt:
        """See `Runner.cancel`."""
        return self._runner.cancel(
            user_id=self.user_id,
            session_id=self.session_id,
            invocation_id=invocation_id,
            reason=reason,
            wait=wait,
            timeout=timeout,
            take_over=take_over,
        )

    async def acancel(
        self,
        reason: str = "",
        *,
        invocation_id: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
        take_over: bool = False,
    ) -> CancelReceipt:
        """As `cancel`, without blocking the event loop."""
        return await self._runner.acancel(
            user_id=self.user_id,
            session_id=self.session_id,
            invocation_id=invocation_id,
            reason=reason,
            wait=wait,
            timeout=timeout,
            take_over=take_over,
        )

    def stop(self, reason: str = "", *, invocation_id: str | None = None) -> None:
        """See `Runner.stop`."""
        self._runner.stop(
            user_id=self.user_id, session_id=self.session_id, invocation_id=invocation_id, reason=reason
        )

    # What the log holds of it.

    def exists(self) -> bool:
        """See `Sessions.exists`."""
        return self._runner.sessions.exists(user_id=self.user_id, session_id=self.session_id)

    def create(self, state: Mapping[str, Any] | None = None) -> SessionInfo:
        """See `Sessions.create`."""
        return self._runner.sessions.create(user_id=self.user_id, session_id=self.session_id, state=state)

    def info(self) -> SessionInfo:
        """See `Sessions.get`."""
        return self._runner.sessions.get(user_id=self.user_id, session_id=self.session_id)

    def state(self) -> Mapping[str, Any]:
        """Return the session's state, as `info` does."""
        return self.info().state

    def set_state(self, delta: Mapping[str, Any]) -> None:
        """See `Sessions.set_state`."""
        self._runner.sessions.set_state(user_id=self.user_id, session_id=self.session_id, delta=delta)

    def events(self, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See `Sessions.events`."""
        return self._runner.sessions.events(
            user_id=self.user_id, session_id=self.session_id, after=after, limit=limit
        )

    def runs(self) -> list[RunRecord]:
        """See `Sessions.runs`."""
        return self._runner.sessions.runs(user_id=self.user_id, session_id=self.session_id)

    def delete(self, *, take_over: bool = False) -> bool:
        """See `Sessions.delete`."""
        return self._runner.sessions.delete(
            user_id=self.user_id, session_id=self.session_id, take_over=take_over
        )

    async def aexists(self) -> bool:
        """As `exists`, without blocking the event loop."""
        return await self._runner.sessions.aexists(user_id=self.user_id, session_id=self.session_id)

    async def acreate(self, state: Mapping[str, Any] | None = None) -> SessionInfo:
        """As `create`, without blocking the event loop."""
        return await self._runner.sessions.acreate(
            user_id=self.user_id, session_id=self.session_id, state=state
        )

    async def ainfo(self) -> SessionInfo:
        """As `info`, without blocking the event loop."""
        return await self._runner.sessions.aget(user_id=self.user_id, session_id=self.session_id)

    async def astate(self) -> Mapping[str, Any]:
        """As `state`, without blocking the event loop."""
        return (await self.ainfo()).state

    async def aset_state(self, delta: Mapping[str, Any]) -> None:
        """As `set_state`, without blocking the event loop."""
        await self._runner.sessions.aset_state(user_id=self.user_id, session_id=self.session_id, delta=delta)

    async def aevents(self, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """As `events`, without blocking the event loop."""
        return await self._runner.sessions.aevents(
            user_id=self.user_id, session_id=self.session_id, after=after, limit=limit
        )

    async def aruns(self) -> list[RunRecord]:
        """As `runs`, without blocking the event loop."""
        return await self._runner.sessions.aruns(user_id=self.user_id, session_id=self.session_id)

    async def adelete(self, *, take_over: bool = False) -> bool:
        """As `delete`, without blocking the event loop."""
        return await self._runner.sessions.adelete(
            user_id=self.user_id, session_id=self.session_id, take_over=take_over
        )

    def __repr__(self) -> str:
        return f"<Session {self.user_id}/{self.session_id}>"
