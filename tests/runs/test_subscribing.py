"""What `Run.subscribe` calls, how often, in which order, and what its callbacks can do to the run."""

import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_with, records
from intermission import (
    AlreadyConsumedError,
    Event,
    ModelError,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    SessionClosedError,
)
from intermission.kernel.workers import Budget
from intermission.runs.result import RunResult
from intermission.runs.subscription import Subscription
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import hold, until

STREAMING = RunConfig(streaming=True)


class Told:
    """A subscriber that keeps what it is told, and where."""

    def __init__(self, raising: str = "") -> None:
        self.heard: list[object] = []
        self.threads: set[threading.Thread] = set()
        self.finally_called = threading.Event()
        self.results: list[RunResult] = []
        self._raising = raising
        self._inside = threading.Lock()

    def subscribe(self, run: Run) -> Subscription:
        """Subscribe to a run."""
        return run.subscribe(self.on_event, self.on_error, self.on_complete, self.on_finally)

    def on_event(self, event: Event) -> None:
        """One at a time."""
        self._hear(event.delta or event.text)
        if self._raising == "event":
            raise ValueError("a subscriber")

    def on_error(self, error: Exception) -> None:
        """One end."""
        self._hear(type(error))

    def on_complete(self) -> None:
        """The other."""
        self._hear("complete")

    def on_finally(self, result: RunResult) -> None:
        """What always comes last."""
        self._hear("finally")
        self.results.append(result)
        self.finally_called.set()

    def wait(self) -> RunResult:
        """Wait for the last call, and return the result that came with it."""
        assert self.finally_called.wait(PATIENCE)
        (result,) = self.results
        return result

    def _hear(self, what: object) -> None:
        assert self._inside.acquire(blocking=False), "two callbacks at a time"
        try:
            self.heard.append(what)
            self.threads.add(threading.current_thread())
        finally:
            self._inside.release()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def test_events_come_in_order_then_one_end_then_the_result_and_none_on_the_callers_thread() -> None:
    def look() -> str:
        return "seen"

    told = Told()
    model = ScriptedModel(calls(("look", {}), text="Wait"), text("o", "k"))
    with Runner(app_with(model, look), log=MemoryEventLog(), config=STREAMING) as runner:
        run = runner.run(**KEY, message="hi")
        told.subscribe(run)
        assert told.wait() == run.result(0)
    assert told.heard == ["Wait", "Wait", "", "o", "k", "ok", "complete", "finally"]
    assert threading.current_thread() not in told.threads


@pytest.mark.parametrize(
    ("how", "end", "status"),
    [
        ("completed", ["ok", "complete"], RunStatus.COMPLETED),
        ("failed", [ModelError], RunStatus.FAILED),
        ("cancelled", ["complete"], RunStatus.CANCELLED),
        ("stopped", ["", "complete"], RunStatus.STOPPED),
        ("disposed", [], RunStatus.CANCELLED),
        ("refused", [SessionClosedError], RunStatus.FAILED),
    ],
)
def test_however_a_run_ends_its_subscriber_gets_one_end_and_then_the_result_once(
    how: str, end: list[object], status: RunStatus, gate: Gate
) -> None:
    told = Told()
    model = ScriptedModel(error("service") if how == "failed" else text(gate, "ok"))
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        if how == "refused":
            runner.close()
        elif how == "stopped":
            run.stop()
        subscription = told.subscribe(run)
        if how in {"cancelled", "disposed"}:
            gate.arrived()
            (run.cancel if how == "cancelled" else subscription.dispose)()
        else:
            gate.open()
        result = told.wait()
        assert (result.status, run.status) == (status, status)
        subscription.dispose()
        assert subscription.disposed is (how == "disposed")
    assert told.heard == [*end, "finally"]


@pytest.mark.scenario("D12")
@pytest.mark.parametrize("streaming", [True, False], ids=["partial", "stored"])
def test_an_event_handler_that_raises_fails_its_run_with_the_cause_in_the_log(
    streaming: bool, gate: Gate
) -> None:
    told, log = Told(raising="event"), MemoryEventLog()

    def look() -> str:
        gate.wait()
        return "seen"

    model = ScriptedModel(calls(("look", {}), text="Wait"), default="ok")
    with Runner(app_with(model, look), log=log, config=RunConfig(streaming=streaming)) as runner:
        run = runner.run(**KEY, message="hi")
        told.subscribe(run)
        result = told.wait()
        gate.open()
        assert result.status is RunStatus.FAILED
        with pytest.raises(ValueError, match="a subscriber"):
            run.answer(PATIENCE)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert told.heard == ["Wait", ValueError, "finally"]
    (end, _) = [record for record in records(log) if record.kind == "run_ended"]
    assert end.data["status"] == "failed"
    assert end.data["error"] == {"type": "ValueError", "message": "a subscriber"}


def test_a_callback_of_the_end_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = threading.Event()

    def complete() -> None:
        raise ValueError("a subscriber")

    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.subscribe(lambda _: None, on_complete=complete, on_finally=lambda _: done.set())
        assert done.wait(PATIENCE)
        assert run.status is RunStatus.COMPLETED
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    (record,) = [record for record in caplog.records if record.name.startswith("intermission")]
    assert (record.levelname, vars(record)["invocation"]) == ("ERROR", run.invocation_id)


def test_a_subscriber_that_is_slow_holds_neither_the_run_nor_the_session(gate: Gate) -> None:
    told = list[str]()
    done = threading.Event()

    def slow(event: Event) -> None:
        gate.wait()
        told.append(event.delta)

    model = ScriptedModel(text("Hel", "lo"), default="ok")
    with Runner(app_with(model), log=MemoryEventLog(), config=STREAMING) as runner:
        run = runner.run(**KEY, message="hi")
        run.subscribe(slow, on_finally=lambda _: done.set())
        gate.arrived()
        assert run.answer(PATIENCE) == "Hello"
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
        assert told == []
        gate.open()
        assert done.wait(PATIENCE)
    assert told == ["Hel", "lo", ""]


def test_a_subscriber_that_disposes_itself_hears_no_more_and_leaves_a_started_run_alone(gate: Gate) -> None:
    told, done = list[str](), threading.Event()
    subscriptions: list[Subscription] = []

    def once(event: Event) -> None:
        told.append(event.delta)
        gate.wait()
        subscriptions[0].dispose()

    with Runner(app_with(ScriptedModel(text("Hel", "lo"))), log=MemoryEventLog(), config=STREAMING) as runner:
        run = runner.run(**KEY, message="hi").start()
        subscriptions.append(
            run.subscribe(once, on_complete=lambda: told.append("!"), on_finally=lambda _: done.set())
        )
        gate.open()
        assert done.wait(PATIENCE)
        assert run.answer(PATIENCE) == "Hello"
    assert told == ["Hel"]


def test_what_waits_behind_a_busy_event_handler_is_not_given_once_it_was_disposed(gate: Gate) -> None:
    told, done = list[str](), threading.Event()

    def busy(event: Event) -> None:
        told.append(event.delta)
        gate.wait()

    with Runner(app_with(ScriptedModel(text("Hel", "lo"))), log=MemoryEventLog(), config=STREAMING) as runner:
        run = runner.run(**KEY, message="hi").start()
        subscription = run.subscribe(
            busy, lambda error: told.append(str(error)), lambda: told.append("complete"), lambda _: done.set()
        )
        gate.arrived()
        assert run.answer(PATIENCE) == "Hello"  # all its events wait behind the first
        subscription.dispose()
        gate.open()
        assert done.wait(PATIENCE)
    assert told == ["Hel"]


def test_disposing_a_subscription_leaves_a_run_that_somebody_else_waits_for(gate: Gate) -> None:
    told = Told()
    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        with run:
            subscription = told.subscribe(run)
            gate.arrived()
            subscription.dispose()
            gate.open()
            assert run.answer(PATIENCE) == "ok"
        assert told.wait().status is RunStatus.COMPLETED
    assert told.heard == ["finally"]


@pytest.mark.parametrize("wait", [0.01, 30.0], ids=["refused before", "still in line"])
def test_a_subscriber_that_got_no_worker_is_told_the_end_also_if_the_runner_closes_meanwhile(
    wait: float,
) -> None:
    told = Told()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(), worker_wait=wait) as runner:
        workers = runner._services.workers  # pyright: ignore[reportPrivateUsage] - all are to be busy
        gate = hold(workers, 256, Budget.HOOKS)
        run = runner.run(**KEY, message="hi")
        told.subscribe(run)
        assert run.answer(PATIENCE) == "ok"
        until(lambda: workers.refused_count == 1 if wait < 1 else workers.waiting == 1)
    assert told.wait().status is RunStatus.COMPLETED
    gate.open()
    assert told.heard == ["ok", "complete", "finally"]
    assert threading.current_thread() not in told.threads


def test_a_subscriber_that_got_no_worker_is_told_the_end_as_soon_as_the_run_has_ended(gate: Gate) -> None:
    told = Told()
    model = ScriptedModel(text(gate, "ok"))
    with Runner(app_with(model), log=MemoryEventLog(), worker_wait=0.0) as runner:
        workers = runner._services.workers  # pyright: ignore[reportPrivateUsage] - all are to be busy
        held = hold(workers, 256, Budget.HOOKS)
        run = runner.run(**KEY, message="hi")
        told.subscribe(run)
        gate.open()
        assert told.wait() == run.result(0)
        held.open()
    assert told.heard == ["ok", "complete", "finally"]


def test_a_second_subscription_is_refused_and_the_first_gets_everything(gate: Gate) -> None:
    told = Told()
    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        told.subscribe(run)
        with pytest.raises(AlreadyConsumedError):
            Told().subscribe(run)
        with pytest.raises(AlreadyConsumedError):
            iter(run)
        gate.open()
        told.wait()
    assert told.heard == ["ok", "complete", "finally"]


def test_an_event_handler_may_start_runs_and_wait_for_them() -> None:
    answers, done = list[str](), threading.Event()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:

        def on_event(event: Event) -> None:
            answers.append(runner.run(user_id="u", session_id="other", message=event.text).answer(PATIENCE))
            runner.run(**KEY, message="behind").start()

        run = runner.run(**KEY, message="hi")
        run.subscribe(on_event, on_finally=lambda _: done.set())
        assert done.wait(PATIENCE)
        assert (run.status, answers) == (RunStatus.COMPLETED, ["ok"])
        assert runner.run(**KEY, message="last").answer(PATIENCE) == "ok"
        assert len(runner.sessions.events(**KEY)) == 6
