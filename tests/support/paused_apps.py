"""Apps whose runs pause in one process and are gone on with in another: no model in them has a memory of its
own, and what their tools do is counted in a file. `Elsewhere` is such an app's runner in another process."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apps import APP, KEY, Key, records
from children import Child
from intermission import (
    App,
    BaseAgent,
    Event,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    ParallelAgent,
    PendingCall,
    Plugin,
    ResumabilityConfig,
    Run,
    SequentialAgent,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel, calls
from intermission.testing.replies import Reply
from intermission_storage import EventLog
from tree import ROOT

__all__ = [
    "PATIENCE",
    "Effects",
    "Elsewhere",
    "Forgetful",
    "agent",
    "app_named",
    "assert_one_of_each",
    "played",
    "resumable",
    "session",
]

PATIENCE = 60.0


class Effects:
    """What tools did, a word a time, in a file that all processes append to."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.touch()

    def add(self, word: str) -> None:
        """Do it once more."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{word}\n".encode())
        finally:
            os.close(file)

    @property
    def all(self) -> list[str]:
        """All that was done, in order."""
        return self._path.read_text().split()


class Forgetful:
    """A model that knows from the request alone how far it is: by how many turns of calls were answered since
    the user's last words."""

    name = "forgetful"

    def __init__(self, *replies: Reply | str, default: str = "done") -> None:
        self._replies = replies
        self._default = default
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.requests.append(request)
        heard = 0
        for content in request.contents:
            if content.function_responses:
                heard += 1
            elif content.role == "user" and not content.text.startswith("For context"):
                heard = 0
        reply = self._replies[heard] if heard < len(self._replies) else self._default
        return ScriptedModel(reply).generate(request)


def agent(name: str, *replies: Reply | str, tools: Iterable[Any] = (), **options: Any) -> LlmAgent:
    """An agent that says what its model says, and at last that it is done."""
    return LlmAgent(name, Forgetful(*replies, default=f"{name} is done"), tools=[*tools], **options)


def resumable(root: BaseAgent, **options: Any) -> App:
    """An app of this agent whose runs pause."""
    return App(APP, root, resumability_config=ResumabilityConfig(is_resumable=True), **options)


def session(name: str | int) -> Key:
    """The keys of one of many sessions."""
    return {"user_id": KEY["user_id"], "session_id": str(name)}


class Hooks(Plugin):
    """Hooks before whose ends neither a message nor a run's end is stored."""

    def on_user_message_callback(self, **_: Any) -> None:
        """See `Plugin`."""

    def after_run_callback(self, **_: Any) -> None:
        """See `Plugin`."""


def app_named(name: str, effects: Effects, hold: Callable[[], None] | None = None) -> App:
    """Return an app that each process can make for itself.

    "approval": an agent that asks for leave to pay. "two": one that asks twice in one turn. "sequence": one
    that asks, and another one after it. "branches": one that asks beside one that asks nobody, and one after
    both. "held": one that asks beside one whose tool calls `hold`. "order": one whose tool begins what others
    end. "hooked": "approval" with hooks before a message is stored, and before the end of a run is.
    """

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        effects.add(f"pay{n}")
        return {"paid": n}

    def order(n: int) -> None:
        """Begin what others end."""
        effects.add(f"order{n}")

    def look() -> dict[str, bool]:
        """Look."""
        effects.add("look")
        if hold is not None:
            hold()
        return {"seen": True}

    asks = FunctionTool(pay, require_confirmation=True)
    payer = agent("payer", calls(("pay", {"n": 7})), tools=[asks])
    looker = agent("looker", calls(("look", {})), tools=[look])
    match name:
        case "approval":
            return resumable(payer)
        case "two":
            return resumable(agent("payer", calls(("pay", {"n": 7}), ("pay", {"n": 8})), tools=[asks]))
        case "sequence":
            return resumable(SequentialAgent("seq", sub_agents=[payer, agent("last")]))
        case "hooked":
            return resumable(payer, plugins=[Hooks("hooks")])
        case "order":
            tools = [LongRunningFunctionTool(order)]
            return resumable(agent("orders", calls(("order", {"n": 7})), tools=tools))
        case "held":
            return resumable(ParallelAgent("par", sub_agents=[payer, looker]))
        case _:
            both = ParallelAgent("par", sub_agents=[payer, looker])
            return resumable(SequentialAgent("seq", sub_agents=[both, agent("last")]))


class Elsewhere(Child):
    """The runner of such an app in a process of its own, on a log of this machine.

    Args:
        log: The log's path.
        effects: The path of what its tools did.
        app: The app's name.
        point: The commit at which the process kills itself; see `POINTS` in its script. `""` for none.
        stored: Whether it does so right after that commit, or right before.
    """

    def __init__(self, log: Path, effects: Path, app: str, point: str = "", *, stored: bool = False) -> None:
        script = ROOT / "tests/pausing/children/going_on.py"
        super().__init__(script, log, effects, app, point, "after" if stored else "before")

    def run(self, name: str | int = "s") -> dict[str, Any]:
        """Send a message; return what came of it."""
        return self.ask(["run", str(name)])  # type: ignore[no-any-return]  # the script says a dict

    def answer(self, answers: Mapping[str, Mapping[str, Any]], name: str | int = "s") -> dict[str, Any]:
        """Answer calls; return what came of it."""
        return self.ask(["answer", str(name), answers])  # type: ignore[no-any-return]  # as above

    def pending(self, name: str | int = "s") -> list[PendingCall]:
        """The calls that wait."""
        return [PendingCall.from_dict(each) for each in self.ask(["pending", str(name)])]

    def died(self) -> None:
        """Wait until it has killed itself."""
        assert self.rest() == []


def played(run: Run) -> list[Event]:
    """Play a run to its end, and return what is shown."""
    events = list(run)
    run.result(PATIENCE)
    return events


def assert_one_of_each(log: EventLog, name: str | int = "s") -> None:
    """Assert that numbers have no gap, and that a call has one event and at most one response and answer."""
    stored: Sequence[Any] = records(log, **session(name))
    assert [record.seq for record in stored] == list(range(1, len(stored) + 1))
    events = [Event.from_dict(record.data) for record in stored if record.kind == "event"]
    made = [call.id for event in events for call in event.function_calls]
    heard = [one.id for event in events for one in event.function_responses]
    answered = [record.data["callId"] for record in stored if record.kind == "answer"]
    assert len(set(made)) == len(made)
    assert len(set(heard)) == len(heard)
    assert len(set(answered)) == len(answered)
    assert set(heard) <= set(made)
