"""Apps whose runs pause, played in one session, and what is shown of them in a word an event."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from apps import APP, KEY, records
from intermission import (
    App,
    BaseAgent,
    Content,
    Event,
    EventActions,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    Part,
    PendingCall,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    RunResult,
    RunStatus,
)
from intermission.agents.progress import SUB_AGENT
from intermission.agents.tree import describe
from intermission.keys import SessionKey
from intermission.runs.result import Verdict
from intermission.sessions.records import (
    event_record,
    open_run,
    run_ended,
    run_started,
    session_created,
    session_entry,
)
from intermission.testing import ScriptedModel, calls
from intermission.testing.replies import Reply
from intermission_storage import EventLog, MemoryEventLog

__all__ = [
    "ASK",
    "LEGACY",
    "PATIENCE",
    "RESUMABLE",
    "WAIT",
    "Story",
    "asked",
    "asking",
    "llm",
    "mark",
    "model_of",
    "paused_in",
    "reply_to",
    "resumable",
    "seed",
    "shown",
    "waiting",
    "words",
]

PATIENCE = 30.0

RESUMABLE = ResumabilityConfig(is_resumable=True)
LEGACY = ResumabilityConfig(plain_text_continuation_auto_resume=True)


def ask(n: int = 1) -> dict[str, int]:
    """Do what needs leave."""
    return {"asked": n}


def wait(n: int = 1) -> None:
    """Begin what others end."""


ASK = FunctionTool(ask, require_confirmation=True)
WAIT = LongRunningFunctionTool(wait)


def llm(name: str, *replies: Reply | str, tools: Iterable[Any] = (), **options: Any) -> LlmAgent:
    """An agent that says `replies`, and then, again and again, that it is done."""
    return LlmAgent(name, ScriptedModel(*replies, default=f"{name} is done"), tools=[*tools], **options)


def asking(name: str, *, times: int = 1, **options: Any) -> LlmAgent:
    """An agent that asks for leave that many times in one turn."""
    return llm(name, calls(*[("ask", {"n": n}) for n in range(times)]), tools=[ASK], **options)


def waiting(name: str, *, times: int = 1, **options: Any) -> LlmAgent:
    """An agent that waits for that many results of one turn."""
    return llm(name, calls(*[("wait", {"n": n}) for n in range(times)]), tools=[WAIT], **options)


def model_of(agent: LlmAgent) -> ScriptedModel:
    """The script of an agent."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return model


def asked(agent: LlmAgent) -> int:
    """How often an agent's model was asked."""
    return len(model_of(agent).requests)


def words(event: Event) -> str:
    """What an event is, in a word or two: who says, calls, hears, keeps a place, or ends."""
    who = event.author if event.branch is None else f"{event.author}@{event.branch}"
    if event.function_calls:
        return f"{who} calls {' '.join(call.name for call in event.function_calls)}"
    found: list[str] = []
    if event.function_responses:
        found.append(f"hears {' '.join(one.name for one in event.function_responses)}")
    if event.text:
        found.append(f"says {event.text}")
    state = event.actions.agent_state
    if state is not None:
        values = sorted(state.items(), key=lambda item: item[0] != SUB_AGENT)
        found.append(" ".join(["at", *(str(value) for _, value in values)]))
    if event.actions.end_of_agent:
        found.append("ends")
    if event.actions.escalate:
        found.append("escalates")
    return f"{who} {', '.join(found)}"


def shown(run: Run) -> list[str]:
    """Play a run, and return what it shows in words."""
    return [words(event) for event in run]


def resumable(agent: BaseAgent, *plugins: Any, config: ResumabilityConfig = RESUMABLE) -> App:
    """An app of this agent whose runs pause."""
    return App(APP, agent, plugins=plugins, resumability_config=config)


def reply_to(
    call: PendingCall | str, response: Mapping[str, Any] | None = None, name: str = "wait"
) -> Content:
    """A message that answers a call as ADK's clients do."""
    id = call if isinstance(call, str) else call.id
    return Content("user", (Part(function_response=FunctionResponse(id, name, response or {"ok": True})),))


class Story:
    """One session of an app, and what each of its runs showed. It closes its runner when it is left.

    Attributes:
        runner: The runner.
        log: Its log.
        result: The result of the last run.
    """

    def __init__(self, agent: BaseAgent | App, log: EventLog | None = None, **options: Any) -> None:
        self.log = log or MemoryEventLog()
        app = agent if isinstance(agent, App) else resumable(agent)
        self.runner = Runner(app, log=self.log, **options)
        self.result = RunResult(status=RunStatus.COMPLETED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.close()

    def say(self, message: str | Content = "hi", **options: Any) -> list[str]:
        """Send a message, and return what is shown."""
        return self.play(self.runner.run(**KEY, message=message, **options))

    def answer(self, *answers: Any, **options: Any) -> list[str]:
        """Answer calls, and return what is shown: pending calls are approved or told that all is well."""
        given = [_answered(one) if isinstance(one, PendingCall) else one for one in answers]
        return self.play(self.runner.resume(**KEY, answers=given, **options))

    def go_on(self, invocation_id: str | None = None, **options: Any) -> list[str]:
        """Go on with an invocation, by default that of the last run, and return what is shown."""
        id = invocation_id or self.result.invocation_id
        return self.play(self.runner.resume(**KEY, invocation_id=id, **options))

    def play(self, run: Run) -> list[str]:
        """Play a run, keep its result, and return what is shown."""
        try:
            return shown(run)
        finally:
            self.result = run.result(PATIENCE)

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that wait."""
        return self.runner.pending(**KEY)

    @property
    def events(self) -> list[Event]:
        """The session's stored events."""
        return self.runner.sessions.events(**KEY)

    @property
    def position(self) -> int:
        """The number of the last record."""
        return records(self.log)[-1].seq

    def refused(self, kind: type[Exception], run: Run) -> str:
        """Start a run that must be refused, with nothing stored; return what the error says."""
        before = self.position
        try:
            run.start()
        except kind as error:
            assert self.position == before
            return str(error)
        raise AssertionError(f"no {kind.__name__} was raised")


def _answered(call: PendingCall) -> Any:
    return call.reply({"ok": True}) if call.kind == "long_running" else call.approve()


def paused_in(story: Story, message: str = "hi", config: RunConfig | None = None) -> Sequence[PendingCall]:
    """Send a message whose run pauses; return the calls that wait, by the names of their agents."""
    story.say(message, config=config)
    assert story.result.status is RunStatus.PAUSED
    assert list(story.result.pending) == [
        call for call in story.pending if call.invocation_id == story.result.invocation_id
    ]
    return sorted(story.result.pending, key=lambda call: (call.agent, call.arguments.get("n", 0)))


def seed(
    log: EventLog, app: App, *events: Event, ended: RunStatus | None = None, message: bool = True
) -> str:
    """Write a session whose one run has come as far as these events; return the run's id."""
    key = SessionKey(APP, KEY["user_id"], KEY["session_id"])
    created, invocation_id = session_created(key, 0.0), "e-1"
    said = [Event(invocation_id=invocation_id, author="user", timestamp=0.0, content=Content.user("hi"))]
    written = [created, run_started(invocation_id, 0.0, tree=describe(app.root_agent))]
    written += [event_record(event) for event in (*(said if message else ()), *events)]
    if ended is not None:
        written.append(run_ended(invocation_id, Verdict(ended), 0.0))
    entries = [session_entry(key, 0.0, created.data["id"]), open_run(key, invocation_id)]
    log.append(key.stream, written, put=entries)
    return invocation_id


def mark(author: str, *, branch: str | None = None, said: str = "", **actions: Any) -> Event:
    """A checkpoint, or what was said, of the run that `seed` writes."""
    return Event(
        invocation_id="e-1",
        author=author,
        timestamp=0.0,
        branch=branch,
        content=Content.model(said) if said else None,
        actions=EventActions(**actions),
    )
