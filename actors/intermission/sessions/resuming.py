"""`plan_of`: what a run that is to go on with another one may do. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from intermission.agents.app import App
from intermission.agents.confirmations import asked_call
from intermission.agents.llm import LlmAgent
from intermission.agents.tree import missing
from intermission.content import Content, FunctionResponse, Part
from intermission.errors import (
    AgentTreeChangedError,
    AmbiguousResumeError,
    InvalidAnswerError,
    MissingCallIdError,
    NothingToResumeError,
    NotResumableError,
    RecoveryLimitError,
    UnknownCallError,
)
from intermission.events import Event
from intermission.pending import CONFIRMATION, Answer, PendingCall, PendingKind, confirmation_in, oldest_first
from intermission.runs.plan import Plan, Resumption
from intermission.runs.result import RunStatus
from intermission.sessions.pauses import Pauses, pauses_in
from intermission.sessions.view import SessionView

__all__ = ["OPEN", "Nothing", "Planned", "plan_of"]

OPEN = frozenset({None, RunStatus.PAUSED, RunStatus.INTERRUPTED})
"""The states of a run whose pending calls can be answered: it has no end, or may be gone on with."""


class Nothing(NamedTuple):
    """There is nothing to do: how a run ends that finds that out, and which calls still wait."""

    invocation_id: str
    status: RunStatus
    left: tuple[PendingCall, ...]


Planned: TypeAlias = tuple[Plan, Content] | Nothing
"""A plan with the message that is stored for it, or that there is none."""


def plan_of(
    view: SessionView, app: App, asked: Resumption, message: Content, *, changes: bool = False
) -> Planned:
    """Return how an invocation is gone on with.

    Args:
        view: The session.
        app: The app.
        asked: What is to be gone on with.
        message: What the user says beside.
        changes: Whether changes of the state come with it, which nothing else would keep.

    Raises:
        MissingCallIdError: An answer does not say to which call.
        UnknownCallError: An answer is to a call that nobody waits for.
        InvalidAnswerError: An answer does not say what its call waits for.
        AmbiguousResumeError: The answers are to calls of several invocations, or there is a message for an
            invocation that has its own, or changes for one that is over.
        NothingToResumeError: The session knows no such invocation, or not its message.
        AgentTreeChangedError: What it would be gone on with is not in the app any more.
        NotResumableError: The app was not resumable when it began, and has several agents.
    """
    if asked.max_attempts is not None:
        left_behind = _plan_to_recover(view, app, asked, asked.max_attempts)
        return (left_behind, message) if isinstance(left_behind, Plan) else left_behind
    pauses = pauses_in(view)
    waiting = pauses.calls
    used: dict[str, tuple[Answer, PendingCall]] = {}
    invocations: dict[str, None] = {}
    for answer in asked.answers:
        call = _waits(view, pauses, answer)
        if call is not None and call.id not in used:
            used[call.id] = (answer, call)
        invocations[_invocation_of(view, answer) if call is None else call.invocation_id] = None
    if len(invocations) > 1:
        raise AmbiguousResumeError(
            f"the answers are to calls of {len(invocations)} invocations: give those of each by themselves. "
            "Nothing was stored."
        )
    invocation_id = next(iter(invocations), asked.invocation_id)
    assert invocation_id is not None
    begun = view.unfinished.get(invocation_id)
    others = (call for call in waiting.values() if call.id not in used)
    left = tuple(oldest_first(call for call in others if call.invocation_id == invocation_id))
    if not used:
        ended = _nothing_to_do(view, invocation_id, asked, message, left)
        if changes:
            _check_keeps_changes(invocation_id, ended)
        elif ended is not None:
            return Nothing(invocation_id, ended, left if ended is RunStatus.PAUSED else ())
    assert begun is not None
    _check_tree(begun, app)
    calls = [call for _, call in used.values()]
    parts = [_part(answer, call) for answer, call in used.values()]
    answers = tuple(replace(answer, id=call.id) for answer, call in used.values())
    branch = calls[0].branch if calls else None
    plan = Plan(invocation_id, begun.get("agent"), answers, left, branch)
    spoken = [part for part in message.parts if part.function_response is None]
    return plan, Content("user", (*parts, *spoken))


def _nothing_to_do(
    view: SessionView,
    invocation_id: str,
    asked: Resumption,
    message: Content,
    left: Sequence[PendingCall],
) -> RunStatus | None:
    """Return how a run without a new answer ends, if there is nothing for it to do."""
    begun = view.unfinished.get(invocation_id)
    if begun is None and not any(event.invocation_id == invocation_id for event in view.events):
        raise NothingToResumeError(
            f"the session knows no invocation {invocation_id!r}. Nothing was stored; a message begins a new "
            "one."
        )
    spoken = any(part.function_response is None for part in message.parts)
    if asked.answers and spoken:
        raise AmbiguousResumeError(
            "the calls are answered already, so that what is said beside belongs to no invocation. Send it "
            "by itself. Nothing was stored."
        )
    if spoken and (begun is None or _has_message(view.events, invocation_id)):
        raise AmbiguousResumeError(
            f"invocation {invocation_id} has its message already, and keeps it. Give no message to go on "
            "with it, or no invocation_id to begin a new one. Nothing was stored."
        )
    if begun is None or begun.get("status") == RunStatus.STOPPED:
        return RunStatus.COMPLETED
    if not (spoken or _has_message(view.events, invocation_id)):
        raise _no_message(invocation_id)
    if begun.get("status") in {None, RunStatus.INTERRUPTED} and not left:
        return None  # the answers were taken, and what they were given for was not done, or is being done
    if asked.answers and begun.get("status") not in OPEN:
        return RunStatus.COMPLETED  # what has ended the run has closed its calls, too
    if asked.answers or (begun.get("status") == RunStatus.PAUSED and left):
        return RunStatus.PAUSED if left else RunStatus.COMPLETED
    return None


def _check_keeps_changes(invocation_id: str, ended: RunStatus | None) -> None:
    if ended is RunStatus.COMPLETED:
        raise AmbiguousResumeError(
            f"invocation {invocation_id} has nothing left to do, and no record that would keep the "
            "state_delta. Nothing was stored; sessions.set_state changes the state."
        )


def _has_message(events: Sequence[Event], invocation_id: str) -> bool:
    return any(event.author == "user" and event.invocation_id == invocation_id for event in events)


def _no_message(invocation_id: str) -> NothingToResumeError:
    """Return what is wrong with a run that began while plugins were still looking at its message."""
    return NothingToResumeError(
        f"run {invocation_id} was left before its message was stored, so there is nothing to go on with. "
        "Send the message again; with run(invocation_id=…) it is that of this run."
    )


def _waits(view: SessionView, pauses: Pauses, answer: Answer) -> PendingCall | None:
    """Return the call that an answer is to; `None` if it has been answered before."""
    if not answer.id:
        raise MissingCallIdError(
            "an answer has no call id: give the `id` of the PendingCall. Nothing was stored."
        )
    by_call = (call for call in pauses.calls.values() if call.function_call_id == answer.id)
    call = pauses.calls.get(answer.id) or next(by_call, None)
    if call is None and answer.id in pauses.abandoned:
        raise UnknownCallError(
            f"call {answer.id!r} waits for no answer any more: an agent beside its own escalated, and ended "
            "both. Nothing was stored."
        )
    if call is None:
        _invocation_of(view, answer)  # it must have been there
        return None
    begun = view.unfinished.get(call.invocation_id, {"status": RunStatus.COMPLETED})
    if begun.get("status") not in OPEN:
        is_over = begun["status"] in {RunStatus.COMPLETED, RunStatus.STOPPED}
        goes_on = "" if is_over else "; resume(invocation_id=…) goes on with it"
        raise UnknownCallError(
            f"call {answer.id!r} waits for no answer any more: its run {call.invocation_id} ended "
            f"{begun['status']}. Nothing was stored{goes_on}."
        )
    if call.kind is PendingKind.CONFIRMATION:
        try:
            confirmation_in(answer.response)
        except InvalidAnswerError as error:
            raise InvalidAnswerError(
                f"the answer to call {answer.id!r} of tool {call.tool!r} says neither yes nor no: {error}. "
                "Nothing was stored, and the call still waits."
            ) from None
    return call


def _invocation_of(view: SessionView, answer: Answer) -> str:
    """Return the invocation of a call that has been answered.

    Raises:
        UnknownCallError: There was no such call, or it was none that waits.
    """
    for event in reversed(view.events):
        for call in event.function_calls if event.long_running_tool_ids else ():
            original = asked_call(call)
            waited = call.id in event.long_running_tool_ids
            if waited and answer.id in {call.id, call.id if original is None else original.id}:
                return event.invocation_id
    raise UnknownCallError(
        f"the session has no call {answer.id!r} that could be answered. Nothing was stored; pending() lists "
        "the calls that wait."
    )


def _part(answer: Answer, call: PendingCall) -> Part:
    name = CONFIRMATION if call.kind is PendingKind.CONFIRMATION else call.tool
    return Part(function_response=FunctionResponse(call.id, name, dict(answer.response)))


def _plan_to_recover(view: SessionView, app: App, asked: Resumption, max_attempts: int) -> Plan | Nothing:
    """Return how a run is gone on with that its process has left; not, if it has not, or not any more."""
    invocation_id = asked.invocation_id
    assert invocation_id is not None
    begun = view.unfinished.get(invocation_id)
    if begun is None or invocation_id not in view.left:
        return Nothing(invocation_id, RunStatus.ELSEWHERE, ())
    attempt = begun.get("attempt", 0) + ("status" not in begun)
    error: Exception | None = None
    if not app.resumability_config.is_resumable:
        error = NotResumableError(app.name)
    elif not _is_place_known(begun, app):
        error = NotResumableError(app.name, invocation_id)
    elif attempt > max_attempts:
        error = RecoveryLimitError(invocation_id, max_attempts)
    elif not _has_message(view.events, invocation_id):
        error = _no_message(invocation_id)
    else:
        _check_tree(begun, app)
    return Plan(invocation_id, begun.get("agent"), attempt=attempt, take_over=asked.take_over, error=error)


def _is_place_known(begun: Mapping[str, Any], app: App) -> bool:
    """Return whether the log tells where the run was; of an LLM agent alone its events do."""
    return "tree" in begun or (isinstance(app.root_agent, LlmAgent) and not app.root_agent.sub_agents)


def _check_tree(begun: Mapping[str, Any], app: App) -> None:
    if not _is_place_known(begun, app):
        raise NotResumableError(app.name, begun["invocationId"])
    changed = missing(begun["tree"], app.root_agent) if "tree" in begun else []
    if changed:
        raise AgentTreeChangedError(begun["invocationId"], changed)
