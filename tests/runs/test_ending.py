"""What a cancel does to a run, wherever the run stands when it comes."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from apps import KEY, records
from blocked import wait_until_blocked
from intermission import Run, RunStatus
from intermission.messages import PoisonPill
from intermission.runs.receipt import CancelOutcome, CancelReceipt
from intermission.runs.result import CancelSource
from loops import PATIENCE
from phases import PHASES, Bench

BEGUN = ["run_started", "event"]
CALLED = [*BEGUN, "event", "call_started"]
WHOLE = [*CALLED, "call_finished", "event", "event", "run_ended"]
END = ["cancel_requested", "run_ended"]

UNDER_WAY = ["setting up", "storing an event", "in a tool", "streaming"]
UNWRITTEN = ["cold", "queued"]

Make = Callable[[str], tuple[Bench, Run]]


@pytest.fixture
def make() -> Iterator[Make]:
    """Brings a run to a phase. At the end its gates are opened and its runner is closed."""
    benches: list[Bench] = []

    def to(phase: str) -> tuple[Bench, Run]:
        bench, run = PHASES[phase]()
        benches.append(bench)
        return bench, run

    yield to
    for bench in benches:
        bench.close()


def assert_reported(run: Run, source: CancelSource, reason: str = "enough") -> None:
    """Assert that the report of a cancelled run whose work has ended says who, why, and when in order."""
    report = run.cancel_report
    assert report is not None
    assert (report.source, report.reason, report.race_winner) == (source, reason, RunStatus.CANCELLED)
    assert report.acknowledged is not None
    assert report.terminated is not None
    assert report.requested <= report.acknowledged <= report.terminated
    assert report.still_running == ()


@pytest.mark.scenario("A21")
@pytest.mark.parametrize(
    ("phase", "kinds", "requests", "tools"),
    [
        ("cold", [], 0, 0),
        ("queued", [], 1, 1),  # of the run before it
        ("setting up", [*BEGUN, *END], 0, 0),
        ("storing an event", [*CALLED, *END], 1, 0),
        ("in a tool", [*CALLED, *END], 1, 1),
        ("streaming", [*CALLED, "call_finished", "event", *END], 2, 1),
    ],
)
def test_a_cancel_ends_a_run_wherever_it_stands_and_nothing_of_it_begins_any_more(
    phase: str, kinds: list[str], requests: int, tools: int, make: Make
) -> None:
    bench, run = make(phase)
    receipt = run.cancel("enough")
    assert receipt.accepted
    if phase not in {"setting up", "storing an event"}:
        assert run.result(PATIENCE).status is RunStatus.CANCELLED  # though what it began has not returned
    assert (len(bench.model.requests), bench.begun) == (requests, tools)
    bench.let_go()

    result = run.result(PATIENCE)
    assert run.wait_terminated(PATIENCE)
    assert (run.status, run.state, result.reason) == (RunStatus.CANCELLED, "ended", "enough")
    assert bench.kinds_of(run) == kinds
    assert result.last_seq == (max(own(bench, run)) if kinds else None)
    assert_reported(run, CancelSource.CALLER)
    if phase not in UNWRITTEN:
        assert (len(bench.model.requests), bench.begun) == (requests, tools)
        assert records(bench.log)[-1].data["reason"] == "enough"
    assert_the_next_run_works(bench)


def own(bench: Bench, run: Run) -> list[int]:
    """The numbers of the run's own records."""
    return [one.seq for one in records(bench.log) if one.data.get("invocationId") == run.invocation_id]


def assert_the_next_run_works(bench: Bench) -> None:
    """Assert that a session takes one more run, to its end."""
    assert bench.runner.run(**KEY, message="next").result(PATIENCE).status is RunStatus.COMPLETED


@pytest.mark.parametrize("phase", UNDER_WAY)
def test_a_receipt_says_what_is_stored_and_what_still_runs(phase: str, make: Make) -> None:
    bench, run = make(phase)
    before = run.cancel()
    held = phase in {"setting up", "storing an event"}
    assert before.outcome is CancelOutcome.ACCEPTED
    assert not (held and before.durable)
    what = {piece.what for piece in before.still_running}
    at_work = {"in a tool": {"tool"}, "streaming": {"model"}, "setting up": set[str]()}
    assert what - {"agent"} == at_work.get(phase, what - {"agent"})
    bench.let_go()
    after = run.cancel(wait=True, timeout=PATIENCE)
    assert after.outcome is CancelOutcome.ALREADY_ENDED or after.accepted
    assert (after.durable, after.still_running) == (True, ())
    assert after.last_seq == run.result(0).last_seq
    assert before.last_seq is None or before.last_seq <= (after.last_seq or 0)


@pytest.mark.parametrize("phase", ["in the final commit", "ended"])
def test_a_cancel_of_a_run_that_has_chosen_its_end_says_so_and_leaves_no_trace(
    phase: str, make: Make
) -> None:
    bench, run = make(phase)
    receipt = run.cancel("too late")
    assert receipt.outcome is (
        CancelOutcome.ALREADY_ENDED if phase == "ended" else CancelOutcome.ALREADY_ENDING
    )
    assert receipt.durable is (phase == "ended")
    bench.let_go()
    assert run.answer(PATIENCE) == "Hello"
    assert bench.kinds_of(run) == WHOLE
    assert run.cancel_report is not None
    assert run.cancel_report.race_winner is RunStatus.COMPLETED
    assert_the_next_run_works(bench)


@pytest.mark.parametrize("phase", ["in a tool", "streaming"])
def test_a_cancel_that_waits_returns_when_all_work_has_really_returned(phase: str, make: Make) -> None:
    bench, run = make(phase)
    early = run.cancel(wait=True, timeout=0)
    assert early.still_running
    receipts: list[CancelReceipt] = []
    waiter = threading.Thread(target=lambda: receipts.append(run.cancel(wait=True)))
    waiter.start()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert not run.wait_terminated(0)
    assert receipts == []
    assert run.cancel_report is not None
    assert run.cancel_report.terminated is None
    bench.let_go()
    waiter.join(PATIENCE)
    assert [receipt.still_running for receipt in receipts] == [()]
    assert run.wait_terminated(0)
    assert receipts[0].durable


def test_acancel_ends_a_run_as_cancel_does(make: Make) -> None:
    bench, run = make("in a tool")

    async def main() -> None:
        receipt = await run.acancel("enough")
        assert receipt.accepted
        assert not await run.aterminated(timeout=0)
        waits = asyncio.ensure_future(run.acancel(wait=True))
        assert (await run.aresult()).status is RunStatus.CANCELLED
        assert not waits.done()
        bench.let_go()
        assert (await waits).still_running == ()
        assert await run.aterminated(timeout=PATIENCE)

    asyncio.run(main())
    assert bench.kinds_of(run) == [*CALLED, *END]
    assert_reported(run, CancelSource.CALLER)


@pytest.mark.scenario("D10")
@pytest.mark.parametrize("phase", UNDER_WAY)
def test_twenty_cancels_are_one(phase: str, make: Make) -> None:
    bench, run = make(phase)
    outcomes = {run.cancel(f"{number}").outcome for number in range(20)}
    assert outcomes <= {CancelOutcome.ACCEPTED, CancelOutcome.ALREADY_ENDED}
    bench.let_go()
    assert run.result(PATIENCE).reason == "0"
    assert bench.kinds_of(run)[-2:] == END
    assert bench.kinds_of(run).count("cancel_requested") == 1


@pytest.mark.scenario("A21")
def test_a_run_that_is_cancelled_before_it_is_subscribed_to_ends_its_subscriber_and_asks_nobody(
    make: Make,
) -> None:
    bench, run = make("cold")
    told, done = list[object](), threading.Event()
    run.cancel()
    run.subscribe(told.append, told.append, lambda: told.append("complete"), lambda _: done.set())
    assert done.wait(PATIENCE)
    assert told == ["complete"]
    assert bench.log.streams() == []
    assert bench.model.requests == []


@pytest.mark.scenario("A21")
def test_a_run_that_was_cancelled_cold_can_be_started_and_iterated_and_does_nothing(make: Make) -> None:
    bench, run = make("cold")
    run.dispose()
    run.start()
    assert list(run) == []
    assert run.result(0).status is RunStatus.CANCELLED
    assert bench.log.streams() == []


@pytest.mark.scenario("A21")
def test_of_runs_that_are_cancelled_right_after_their_start_none_comes_to_a_tool(make: Make) -> None:
    bench, _ = make("ended")
    before = bench.begun
    for _ in range(20):
        run = bench.run()
        run.begin()
        assert run.cancel().accepted
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)
        assert bench.kinds_of(run)[-2:] in ([], END)
    assert bench.begun == before
    assert_the_next_run_works(bench)


def test_a_signal_handler_may_cancel_the_run_that_its_thread_waits_for(make: Make) -> None:
    bench, run = make("in a tool")
    receipts: list[CancelReceipt] = []
    main = threading.current_thread()

    def handle(*_: object) -> None:
        receipts.append(run.cancel("a signal"))

    before = signal.signal(signal.SIGUSR1, handle)

    def send() -> None:
        wait_until_blocked(main, looks=50)
        signal.pthread_kill(main.ident or 0, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    try:
        sender.start()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
    finally:
        sender.join(PATIENCE)
        signal.signal(signal.SIGUSR1, before)
    assert [receipt.accepted for receipt in receipts] == [True]
    assert bench.kinds_of(run)[-2:] == END


@pytest.mark.parametrize("phase", UNDER_WAY)
def test_a_cancel_by_key_ends_the_run_under_way_as_the_administrators(phase: str, make: Make) -> None:
    bench, run = make(phase)
    assert bench.runner.cancel(**KEY, invocation_id=run.invocation_id, reason="enough").accepted
    bench.let_go()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert run.wait_terminated(PATIENCE)
    assert records(bench.log)[-1].data["source"] == "admin"
    assert_reported(run, CancelSource.ADMIN)


def test_a_cancel_by_key_waits_on_demand_and_finds_nothing_afterwards(make: Make) -> None:
    bench, run = make("in a tool")
    bench.runner.cancel(**KEY)
    bench.let_go()
    run.wait_terminated(PATIENCE)
    for receipt in (
        bench.runner.cancel(**KEY, wait=True, timeout=PATIENCE),
        asyncio.run(bench.runner.acancel(**KEY, wait=True)),
        bench.runner.cancel(user_id="nobody", session_id="s"),
    ):
        assert receipt.nothing_running
    assert bench.kinds_of(run).count("run_ended") == 1


@pytest.mark.parametrize("phase", ["queued", *UNDER_WAY])
def test_a_poison_pill_ends_the_run_that_it_names(phase: str, make: Make) -> None:
    bench, run = make(phase)
    ref = bench.runner.system.session(**KEY)
    ref.tell(PoisonPill("enough", run.invocation_id))
    bench.let_go()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert run.wait_terminated(PATIENCE)
    assert_reported(run, CancelSource.ADMIN)
    assert_the_next_run_works(bench)
