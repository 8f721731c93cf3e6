"""Sessions among the actors: StartRun, Stop and PoisonPill by key, and subscribers."""

import threading

import pytest

from apps import KEY, app_with
from intermission import (
    Actor,
    ActorSystem,
    CancelSource,
    EventStored,
    OverloadedError,
    PoisonPill,
    Run,
    RunConfig,
    RunEnded,
    Runner,
    RunStarted,
    RunStatus,
    SessionClosedError,
    StartRun,
    Stop,
)
from intermission.content import Content
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.sessions.early import EarlyMessages
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog


class Listener(Actor):
    """Keeps what it is told, and says when a number of messages have come."""

    def __init__(self, count: int, got: list[object], done: threading.Event) -> None:
        super().__init__()
        self._count = count
        self._got = got
        self._done = done

    def on_receive(self, message: object) -> None:
        self._got.append(message)
        if len(self._got) == self._count:
            self._done.set()


def test_start_run_is_answered_with_the_run_which_is_queued_then() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "one"), "two")), log=MemoryEventLog()) as runner:
        session = runner.system.session(**KEY)
        first = session.ask(StartRun("a"))
        gate.arrived()
        second = session.ask(StartRun(Content.user("b"), RunConfig(timeout=60)))
        assert isinstance(first, Run)
        assert isinstance(second, Run)
        assert second.state == "queued"
        gate.open()
        assert (first.answer(30), second.answer(30)) == ("one", "two")
        session.tell(StartRun("c"))
        assert len(runner.sessions.runs(**KEY)) >= 2


def test_a_start_that_is_refused_is_an_error_of_ask_and_tell() -> None:
    gate = Gate()
    runner = Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog(), max_queued=1)
    with runner:
        session = runner.system.session(**KEY)
        session.tell(StartRun("a"))
        gate.arrived()
        session.tell(StartRun("b"))
        with pytest.raises(OverloadedError):
            session.ask(StartRun("c"))
        gate.open()
    with pytest.raises(SessionClosedError):
        session.tell(StartRun("d"))


def test_stop_and_poison_pill_without_an_id_mean_what_is_under_way() -> None:
    gate = Gate()

    def work() -> str:
        gate.wait()
        return "done"

    second = Gate()
    model = ScriptedModel(calls(("work", {})), text(second, "two"))
    with Runner(app_with(model, work), log=MemoryEventLog()) as runner:
        session = runner.system.session(**KEY)
        session.tell(Stop("nobody is there"))
        session.tell(PoisonPill("nobody is there"))
        stopped = session.ask(StartRun("a"))
        assert stopped is not None
        gate.arrived()
        session.tell(Stop("enough"))
        gate.open()
        assert (stopped.result(30).status, stopped.result().reason) == (RunStatus.STOPPED, "enough")
        killed = session.ask(StartRun("b"))
        assert killed is not None
        second.arrived()
        session.tell(PoisonPill("away"))
        second.open()
        assert (killed.result(30).status, killed.result().reason) == (RunStatus.CANCELLED, "away")
        assert killed.cancel_report is not None
        assert killed.cancel_report.source is CancelSource.ADMIN


@pytest.mark.parametrize("message", [Stop, PoisonPill])
def test_a_late_message_for_a_run_cannot_hit_the_next(message: type[Stop] | type[PoisonPill]) -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        session = runner.system.session(**KEY)
        first = session.ask(StartRun("a"))
        assert first is not None
        first.result(30)
        session.tell(message("late", first.invocation_id))
        second = session.ask(StartRun("b"))
        assert second is not None
        assert second.answer(30) == "ok"


class Sent:
    """A way to sessions on which runs only arrive."""

    def __init__(self) -> None:
        self.runs: list[Lifecycle] = []
        self.looked: list[Lifecycle] = []

    def deliver(self, run: Lifecycle) -> None:
        self.runs.append(run)

    def cancel(self, run: Lifecycle) -> None:
        self.looked.append(run)


def test_a_message_for_a_run_to_come_is_remembered_and_one_for_another_session_is_not_its() -> None:
    sent = Sent()
    early = EarlyMessages(sent)
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        key, other = SessionKey("app", "u", "s"), SessionKey("app", "u", "t")
        early.say(key, "e-1", Stop("first"))
        early.say(key, "e-2", PoisonPill("away"))
        for session, invocation in [(other, "e-1"), (key, "e-1"), (key, "e-2"), (key, "e-3")]:
            run = runner.run(user_id="u", session_id=session.session_id, message="a")
            lifecycle = run._lifecycle  # pyright: ignore[reportPrivateUsage] - its id is chosen here
            lifecycle.key, lifecycle.invocation_id = session, invocation
            early.deliver(lifecycle)
            run.cancel()

    stops = [run.stop_requested for run in sent.runs]
    assert stops[:2] == [None, "first"]
    assert [run.invocation_id for run in sent.runs] == ["e-1", "e-1", "e-3"]


def test_a_session_takes_no_other_message() -> None:
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner:
        wrong: object = "hello"
        with pytest.raises(TypeError, match="not 'hello'"):
            runner.system.session(**KEY).tell(wrong)  # type: ignore[arg-type]  # callers without types


def test_subscribers_are_told_of_beginnings_events_and_ends_in_their_order() -> None:
    got: list[object] = []
    done = threading.Event()
    with Runner(app_with(ScriptedModel("one")), log=MemoryEventLog()) as runner:
        ref = runner.system.start(Listener, 3, got, done)
        runner.system.subscribe(ref, RunStarted, EventStored, RunEnded)
        run = runner.run(**KEY, message="a")
        result = run.result(30)
        assert done.wait(30)
        stored = runner.sessions.events(**KEY)[1]

    assert got == [
        RunStarted("u", "s", run.invocation_id or ""),
        EventStored("u", "s", stored),
        RunEnded("u", "s", result),
    ]


def test_a_subscriber_gets_only_what_it_asked_for_and_one_that_has_stopped_gets_nothing() -> None:
    got: list[object] = []
    lost: list[object] = []
    done = threading.Event()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        ref = runner.system.start(Listener, 2, got, done)
        runner.system.subscribe(ref, RunEnded)
        gone = runner.system.start(Listener, 1, lost, threading.Event())
        runner.system.subscribe(gone, RunStarted, EventStored, RunEnded)
        gone.stop()  # pyright: ignore[reportUnknownMemberType] - Pykka's is untyped
        for word in "ab":
            runner.run(**KEY, message=word).result(30)
        assert done.wait(30)
        with pytest.raises(ValueError, match="types"):
            runner.system.subscribe(ref)
    assert [type(message) for message in got] == [RunEnded, RunEnded]
    assert lost == []


def test_a_subscriber_that_raises_or_is_slow_holds_up_no_run() -> None:
    gate = Gate()

    class Bad(Actor):
        def on_receive(self, message: object) -> None:
            gate.wait()
            raise ValueError("its own trouble")

    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        runner.system.subscribe(runner.system.start(Bad), RunStarted, EventStored, RunEnded)
        first = runner.run(**KEY, message="a").start()
        gate.arrived()
        assert first.answer(30) == "ok"
        assert runner.run(user_id="u", session_id="other", message="b").answer(30) == "ok"
        gate.open()
        assert runner.run(**KEY, message="c").answer(30) == "ok"


def test_a_run_is_told_to_subscribers_only_when_its_beginning_is_stored() -> None:
    got: list[object] = []
    done = threading.Event()
    log = FaultyLog()
    with Runner(app_with(ScriptedModel("one")), log=log) as runner:
        runner.system.subscribe(runner.system.start(Listener, 1, got, done), RunStarted)
        gate = log.hold("event")
        run = runner.run(**KEY, message="a")
        run.begin()
        gate.arrived()
        assert not done.is_set()
        gate.open()
        assert run.answer(30) == "one"
        assert done.wait(30)


def test_a_system_without_a_runner_has_no_sessions_but_actors() -> None:
    with ActorSystem() as system:
        done = threading.Event()
        system.start(Listener, 1, [], done).tell("hello")
        assert done.wait(30)
