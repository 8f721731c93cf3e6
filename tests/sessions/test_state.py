"""State of sessions, users, apps and runs: who sees it, who keeps it, and that no change is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import scale
from apps import APP, KEY, Key, app_of, app_with
from children import Child
from intermission import AgentContext, App, BaseAgent, Content, Runner, RunStatus, ToolContext
from intermission.agents.effects import Fork, Steps
from intermission.keys import SessionKey
from intermission.testing import FaultyLog, ScriptedModel, calls
from intermission_storage import EventLog, LmdbEventLog, LogFullError, MemoryEventLog

OTHER_SESSION: Key = {"user_id": "u", "session_id": "t"}
OTHER_USER: Key = {"user_id": "v", "session_id": "s"}


@pytest.fixture(params=["memory", "lmdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventLog]:
    """Each of the logs."""
    with MemoryEventLog() if request.param == "memory" else LmdbEventLog(tmp_path / "log", sync=False) as log:
        yield log


SHARED = "{'app:color': 'red', 'user:name': 'Ada'}"


class Doing(BaseAgent):
    """An agent that does what the message names."""

    def run(self, context: AgentContext) -> Steps:
        said, state = context.events[-1].text, context.state
        if said == "set":
            state["own"] = 1
            state["user:name"] = "Ada"
            state["app:color"] = "red"
            state["temp:scratch"] = 2
        elif said == "remove":
            del state["user:name"]
            state["app:color"] = None
        yield context.event(self.name, content=Content.model(str(dict(sorted(state.items())))))
        yield context.event(self.name, content=Content.model(str(dict(sorted(state.items())))))


def test_each_scope_is_seen_by_those_it_belongs_to(log: EventLog) -> None:
    with Runner(app_of(Doing("doing")), log=log) as runner:
        runner.run(**KEY, message="set").result()
        assert runner.sessions.get(**KEY).state == {"own": 1, "user:name": "Ada", "app:color": "red"}
        assert runner.run(**OTHER_SESSION, message="look").answer() == SHARED
        assert runner.run(**OTHER_USER, message="look").answer() == "{'app:color': 'red'}"
        with Runner(App("other", Doing("doing")), log=log) as other:
            assert other.run(**KEY, message="look").answer() == "{}"

        runner.run(**OTHER_SESSION, message="remove").result()
        assert runner.run(**KEY, message="look").answer() == "{'own': 1}"


def test_temporary_state_is_seen_by_its_run_alone_and_stored_nowhere(log: EventLog) -> None:
    with Runner(app_of(Doing("doing")), log=log) as runner:
        delta = {"temp:given": 7, "kept": 8}
        first, second = (
            event.text
            for event in runner.run(**KEY, message="set", state_delta=delta)
            if event.author != "user"
        )
        assert "'temp:given': 7" in first
        assert first == second
        assert "'temp:scratch': 2" in second
        assert "temp" not in runner.run(**KEY, message="look").answer()
        assert runner.sessions.get(**KEY).state["kept"] == 8
    stored = [record.data for stream in log.streams() for record in log.read(stream)]
    changes = [data.get("actions") or data.get("delta") for data in stored]
    assert "kept" in str(changes)
    assert "temp:" not in str(changes)


def test_the_stored_event_keeps_its_shared_changes_beside_the_streams_of_their_own(log: EventLog) -> None:
    with Runner(app_of(Doing("doing")), log=log) as runner:
        runner.run(**KEY, message="set").result()
        stored = runner.sessions.events(**KEY)[1]
    key = SessionKey(APP, "u", "s")

    assert stored.actions.state_delta == {"own": 1, "user:name": "Ada", "app:color": "red"}
    assert [record.data["delta"] for record in log.read(key.user_stream)] == [{"user:name": "Ada"}]
    assert [record.data["delta"] for record in log.read(key.app_stream)] == [{"app:color": "red"}]


def test_what_comes_with_a_message_or_from_outside_is_shared_too(log: EventLog) -> None:
    with Runner(app_of(Doing("doing")), log=log) as runner:
        runner.run(**KEY, message="look", state_delta={"user:a": 1}).result()
        runner.sessions.set_state(**KEY, delta={"app:b": 2})
        runner.sessions.create(user_id="u", session_id="made", state={"user:c": 3, "own": 4})

        assert runner.sessions.get(**KEY).state == {"user:a": 1, "app:b": 2, "user:c": 3}
        assert runner.run(**OTHER_USER, message="look").answer() == "{'app:b': 2}"


def test_deleting_a_session_leaves_what_belongs_to_its_user_and_its_app(log: EventLog) -> None:
    with Runner(app_of(Doing("doing")), log=log) as runner:
        runner.run(**KEY, message="set").result()
        assert runner.sessions.delete(**KEY)
        assert runner.run(**KEY, message="look").answer() == SHARED


def test_a_commit_that_is_refused_changes_neither_the_session_nor_what_is_shared() -> None:
    log = FaultyLog()
    with Runner(app_of(Doing("doing")), log=log) as runner:
        runner.sessions.create(**KEY)
        log.refuse(lambda _, batch: "Ada" in str(batch[-1].data), LogFullError("no room"))
        assert runner.run(**KEY, message="set").result().status is RunStatus.FAILED
        assert runner.sessions.get(**KEY).state == {}


def test_what_a_tool_changes_is_seen_by_the_next_step_of_its_run(log: EventLog) -> None:
    seen: list[object] = []

    def count(tool_context: ToolContext) -> str:
        seen.append(tool_context.state.get("user:count"))
        tool_context.state.add("user:count", 1)
        return "ok"

    model = ScriptedModel(*[calls(("count", {}))] * 3, "done", calls(("count", {})), "done")
    with Runner(app_with(model, count), log=log) as runner:
        runner.run(**KEY, message="hi").result()
        runner.run(**OTHER_SESSION, message="hi").result()
    assert seen == [None, 1, 2, 3]


def test_another_runners_changes_are_seen_by_the_next_run() -> None:
    log = MemoryEventLog()
    with (
        Runner(app_of(Doing("doing")), log=log) as runner,
        Runner(app_of(Doing("doing")), log=MemoryEventLog(share=log)) as other,
    ):
        assert runner.run(**KEY, message="look").answer() == "{}"
        other.run(**OTHER_SESSION, message="set").result()
        assert runner.run(**KEY, message="look").answer() == SHARED
        other.run(**OTHER_SESSION, message="remove").result()
        assert runner.run(**KEY, message="look").answer() == "{}"


class Appending(BaseAgent):
    """An agent that appends to the same lists as its sibling, and sets keys of its own."""

    def __init__(self, name: str, count: int, scope: str) -> None:
        super().__init__(name)
        self._count = count
        self._scope = scope

    def run(self, context: AgentContext) -> Steps:
        for number in range(self._count):
            context.state.append(f"{self._scope}both", [self.name, number])
            context.state[f"{self._scope}{self.name}{number % 10}"] = number
            context.state.add("temp:sum", 1)
            yield context.event(self.name, content=Content.model(str(number)))


class Forking(BaseAgent):
    """An agent of two branches."""

    def __init__(self, *branches: BaseAgent) -> None:
        super().__init__("forking")
        self._branches = branches

    def run(self, context: AgentContext) -> Steps:
        yield Fork(self._branches)
        yield context.event(self.name, content=Content.model(str(context.state["temp:sum"])))


@pytest.mark.scenario("D5")
@pytest.mark.parametrize("scope", ["", "user:"])
def test_two_branches_that_append_to_one_list_lose_nothing(log: EventLog, scope: str) -> None:
    count = 1000
    app = app_of(Forking(Appending("a", count, scope), Appending("b", count, scope)))
    with Runner(app, log=log) as runner:
        assert runner.run(**KEY, message="go").answer(300) == str(2 * count)
        state = runner.sessions.get(**KEY).state

    appended = state[f"{scope}both"]
    assert len(appended) == 2 * count
    for name in ("a", "b"):
        assert [number for who, number in appended if who == name] == list(range(count))
        assert [state[f"{scope}{name}{digit}"] for digit in range(10)] == list(range(count - 10, count))


def test_sessions_that_add_to_one_counter_at_once_lose_nothing(log: EventLog) -> None:
    class Adding(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            for _ in range(10):
                context.state.add("user:count", 1)
                yield context.event(self.name, content=Content.model("added"))

    with Runner(app_of(Adding("adding")), log=log) as runner:
        runs = [runner.run(user_id="u", session_id=str(n), message="go").start() for n in range(10)]
        assert {run.result(60).status for run in runs} == {RunStatus.COMPLETED}
        assert runner.sessions.get(user_id="u", session_id="0").state == {"user:count": 100}


def test_two_processes_that_add_to_one_counter_lose_nothing(tmp_path: Path) -> None:
    rounds = scale.rounds(50, 1000)
    path = tmp_path / "log"
    with LmdbEventLog(path):
        pass
    with (
        Child("counting", path, "a", str(rounds)) as a,
        Child("counting", path, "b", str(rounds)) as b,
    ):
        assert [a.hear(), b.hear()] == ["ready", "ready"]
        for child in (a, b):
            child.tell("go")
        assert [a.hear(), b.hear()] == ["done", "done"]
        assert a.ask("once more") == str(2 * rounds + 1)
        assert b.ask("once more") == str(2 * rounds + 2)
        a.end()
        b.end()
    with LmdbEventLog(path) as log:
        key = SessionKey(APP, "u", "a")
        assert len(log.read(key.user_stream)) == 2 * rounds + 2
        who = [record.data["operations"][0]["value"] for record in log.read(key.app_stream)]
        assert (who.count("a"), who.count("b")) == (rounds + 1, rounds + 1)
