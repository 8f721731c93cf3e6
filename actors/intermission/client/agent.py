"""`AgentClient`: runs an agent's turns, from any thread."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, cast

from intermission.agents.app import App
from intermission.agents.base import BaseAgent
from intermission.agents.instructions import Instruction
from intermission.agents.llm import LlmAgent
from intermission.client import turns
from intermission.client.arguments import (
    Previous,
    answers_of,
    check_listener,
    failing,
    message_of,
    session_after,
    session_of,
)
from intermission.client.errors import ClientClosedError, ValidationError
from intermission.client.llm import close_model, model_of
from intermission.client.result import LlmResult
from intermission.client.stream import AgentStream, Listener
from intermission.client.turns import SUCCESSES, OnCallerCancel, TurnResult
from intermission.config import ResumabilityConfig, RunConfig
from intermission.content import Content
from intermission.errors import NothingToResumeError, SessionBusyError
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.scope import CancelScope
from intermission.kernel.workers import Budget
from intermission.models.base import Model
from intermission.runner import Runner
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.plan import Answers
from intermission.runs.result import RunStatus
from intermission.runs.run import Run, lifecycle_of
from intermission.sessions.handle import Session
from intermission.sessions.settings import check_config
from intermission.tools.base import Tool
from intermission_storage import EventLog, MemoryEventLog

__all__ = ["USER", "AgentClient"]

logger = logging.getLogger(__name__)

USER: Final = "client"
"""The user that all sessions of clients belong to. The app is named as the root agent."""


class AgentClient:
    """Runs turns of an agent, each to its end. Any number of threads may share one. A context manager.

    No call raises for trouble with the agent, the log or its arguments: that is a failed result. A client
    that cannot be made is one, too, of each call. `KeyboardInterrupt` and `SystemExit` pass.

    A turn is a success if it has completed, was stopped or is paused; its value says which. A turn that has
    failed, the limit of model calls included, has expired or was cancelled is a failure.

    Args:
        model_or_agent: A model, or its name, that the tools are given to; or an agent of yours.
        tools: Tools, or plain functions, for the model.
        instruction: The system instruction for the model.
        log: Where the sessions are kept: a path, or an `EventLog`, which the caller closes. `None`: in
            memory, until `forget` or `close`.
        streaming: Whether models stream, so that the events have their text piece by piece.
        config: Settings of each turn; its `streaming` counts as this one's does.
        on_caller_cancel: What becomes of a turn if the scope of who waits for it is cancelled, or who waits
            gets a Ctrl-C: with `"detach"` it goes on, with `"cancel"` it is cancelled, and the call returns
            when it has ended, or after five seconds, with a warning.
    """

    def __init__(
        self,
        model_or_agent: Model | str | BaseAgent,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        instruction: Instruction = "",
        log: str | os.PathLike[str] | EventLog | None = None,
        streaming: bool = False,
        config: RunConfig | None = None,
        on_caller_cancel: OnCallerCancel | str = OnCallerCancel.DETACH,
    ) -> None:
        self._closed = False
        self._streams: dict[AgentStream, None] = {}
        self._model: Model | None = None  # closed with this, if it was handed in
        self._runner: Runner | None = None
        self._broken: Exception | None = None
        self._policy = OnCallerCancel.DETACH
        try:
            self._policy = OnCallerCancel(on_caller_cancel)
            agent = self._agent(model_or_agent, tools, instruction)
            check_config(config)
            settings = config or RunConfig()
            self._runner = Runner(
                App(agent.name, agent, resumability_config=ResumabilityConfig(is_resumable=True)),
                log=MemoryEventLog() if log is None else log,
                config=replace(settings, streaming=streaming or settings.streaming),
            )
        except Exception as error:  # noqa: BLE001 - each call says what it is
            self._broken = error

    def _agent(
        self,
        given: Model | str | BaseAgent,
        tools: Sequence[Tool | Callable[..., Any]],
        instruction: Instruction,
    ) -> BaseAgent:
        if isinstance(given, BaseAgent):
            if tools or instruction:
                raise ValidationError("tools and instruction are for a model; an agent has its own")
            return given
        self._model = model_of(given)
        return LlmAgent("assistant", self._model, tools=tools, instruction=instruction)

    # One turn, to its end.

    def run(self, text: str | Content, *, session_id: str | None = None) -> LlmResult[TurnResult]:
        """Run a turn on a session, behind those that it has under way, and return what it came to.

        Args:
            text: What the user says.
            session_id: The session, which is created if need be. `None`: a new one, of which nothing is kept
                if the turn does not succeed.
        """
        made: list[Run] = []

        def new() -> Run:
            message = message_of(text)
            key = uuid.uuid4().hex if session_id is None else session_of(session_id)
            made.append(self._ready().run(user_id=USER, session_id=key, message=message))
            return made[0]

        try:
            return self._take("run", new)
        finally:
            if session_id is None and made:
                self._forget_failed(lifecycle_of(made[0]))

    def continue_conversation(self, previous: Previous, text: str | Content) -> LlmResult[TurnResult]:
        """Run the next turn of a conversation.

        Args:
            previous: Its last turn.
            text: What the user says.
        """

        def new() -> Run:
            message, key = message_of(text), session_after(previous)
            return self._ready().run(user_id=USER, session_id=key, message=message)

        return self._take("continue_conversation", new)

    def resume(self, session_id: str, answers: Answers) -> LlmResult[TurnResult]:
        """Answer calls that a paused turn waits for, and go on with it.

        Args:
            session_id: The session.
            answers: `Answer`s, as `PendingCall.approve` and its kin make them, or a mapping of pending ids to
                plain values. Of two to one call the last counts.
        """
        return self._take("resume", partial(self._answered, session_id, answers))

    def recover(self, session_id: str) -> LlmResult[TurnResult]:
        """Go on with the newest turn of a session, if it is unfinished, whatever has ended it.

        It may have been cancelled, have failed or expired, or have lost its process. One that is under way is
        joined; one that is paused is as it was. A turn that a later one has followed is left alone.

        Args:
            session_id: The session.
        """
        return self._take("recover", partial(self._unfinished, session_id))

    # One turn, with a listener.

    def stream(self, session_id: str, text: str | Content, listener: Listener) -> LlmResult[AgentStream]:
        """As `run`, but return as soon as the session has taken the turn; its events go to the listener.

        If the result is a failure, the turn was not begun, and the listener hears nothing.
        """

        def new() -> Run:
            message, key = message_of(text), session_of(session_id)
            return self._ready().run(user_id=USER, session_id=key, message=message)

        return self._open("stream", new, listener)

    def stream_resume(self, session_id: str, answers: Answers, listener: Listener) -> LlmResult[AgentStream]:
        """As `resume`, and `stream`."""
        return self._open("stream_resume", partial(self._answered, session_id, answers), listener)

    def stream_recover(self, session_id: str, listener: Listener) -> LlmResult[AgentStream]:
        """As `recover`, and `stream`."""
        return self._open("stream_recover", partial(self._unfinished, session_id), listener)

    # Sessions.

    def forget(self, previous: Previous | str) -> LlmResult[bool]:
        """Delete a conversation, given by a turn or its session; return whether there was one.

        One with a turn under way is refused with `SessionBusyError`.
        """
        warn_of_blocking("AgentClient.forget", "asyncio.to_thread with it")
        with failing() as failed:
            key = session_of(previous) if isinstance(previous, str) else session_after(previous)
            runner = self._ready()
            if runner.active(user_id=USER, session_id=key):
                raise SessionBusyError(runner.log.owner)
            return LlmResult[bool].success(runner.sessions.delete(user_id=USER, session_id=key))
        return failed[0]

    def session(self, session_id: str) -> LlmResult[Session]:
        """Return a handle on a session, for what its log holds: events, runs, the state."""
        with failing() as failed:
            key = session_of(session_id)
            return LlmResult[Session].success(self._ready().session(user_id=USER, session_id=key))
        return failed[0]

    def close(self, grace: float = 5.0) -> None:
        """Take no more calls, give turns under way `grace` seconds to end, and close the log. Idempotent.

        Those left end `interrupted`, and `recover` goes on with them, if their log is kept.
        """
        grace = max(0.0, grace)  # NaN is none
        self._closed = True
        until = time.monotonic() + grace + 1.0
        if self._runner is not None:
            self._runner.close(grace)
        for stream in list(self._streams):
            stream.join(max(until - time.monotonic(), 0.0))
        model, self._model = self._model, None
        if model is not None:
            close_model(model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except KeyboardInterrupt:  # a Ctrl-C during the grace ends the grace, and nobody else would close
            self.close(0)
            raise

    # What the calls share.

    def _take(self, name: str, make: Callable[[], Run]) -> LlmResult[TurnResult]:
        warn_of_blocking(f"AgentClient.{name}", "asyncio.to_thread with it")
        with failing() as failed:
            return turns.take(make(), self._policy)
        return failed[0]

    def _open(self, name: str, make: Callable[[], Run], listener: Listener) -> LlmResult[AgentStream]:
        warn_of_blocking(f"AgentClient.{name}", "asyncio.to_thread with it")
        with failing() as failed:
            check_listener(listener)
            run = make()
            refused = turns.admitted(run)
            if refused is not None:
                return LlmResult[AgentStream].failure(cast(Exception, refused.error))
            stream = AgentStream(run, listener, self._over)
            self._streams[stream] = None
            try:
                stream.start()
            except RuntimeError:  # the system has no more threads
                self._over(stream)
                turns.end(lifecycle_of(run), "there was no thread for its listener")
                raise
            return LlmResult[AgentStream].success(stream)
        return failed[0]

    def _over(self, stream: AgentStream) -> None:
        self._streams.pop(stream, None)

    def _ready(self) -> Runner:
        """Return the runner, where a turn may begin."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if self._closed or self._runner is None:
            raise ClientClosedError
        scope = CancelScope.current()
        if scope is not None and scope.cancelled:
            raise turns.cancelled("the call was cancelled before it began", scope)
        return self._runner

    def _answered(self, session_id: str, answers: Answers) -> Run:
        key, last = session_of(session_id), answers_of(answers)
        return self._ready().resume(user_id=USER, session_id=key, answers=last)

    def _unfinished(self, session_id: str) -> Run:
        key = session_of(session_id)
        runner = self._ready()
        under_way = runner.active(user_id=USER, session_id=key)
        if under_way:
            return under_way[-1]
        records = runner.sessions.runs(user_id=USER, session_id=key)
        if not records or records[-1].status in {RunStatus.COMPLETED, RunStatus.STOPPED}:
            raise NothingToResumeError(
                f"the newest turn of session {key!r} has ended, so nothing is left to do. Nothing was stored."
            )
        return runner.resume(user_id=USER, session_id=key, invocation_id=records[-1].invocation_id)

    def _forget_failed(self, turn: Lifecycle) -> None:
        """See that nothing is kept of a turn that does not succeed; nobody knows its session."""

        def look() -> None:
            result = turn.result
            if result is not None and result.status not in SUCCESSES:
                forget = partial(self._delete, turn.key.session_id)
                turn.services.workers.submit(forget, budget=Budget.RESERVE)

        if turn.result is None:
            turn.listen(look)
        elif turn.result.status not in SUCCESSES:
            self._delete(turn.key.session_id)

    def _delete(self, session_id: str) -> None:
        assert self._runner is not None
        try:
            self._runner.sessions.delete(user_id=USER, session_id=session_id)
        except Exception:
            extra = {"session": session_id}
            logger.warning(
                "what is left of a turn that failed could not be deleted", exc_info=True, extra=extra
            )
