import signal
import threading
from collections.abc import Callable
from queue import Queue

import pytest

from intermission.kernel.dispatcher import Dispatcher, seat_here
from intermission.testing.sync import PATIENCE, Gate


class Work:
    """Something to activate."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def activate(self) -> None:
        self._function()


def current(dispatcher: Dispatcher) -> threading.Thread:
    """Return the thread that does the next piece of work."""
    threads: Queue[threading.Thread] = Queue()
    dispatcher.schedule(Work(lambda: threads.put(threading.current_thread())))
    return threads.get(timeout=PATIENCE)


def test_work_is_done_on_daemon_threads_with_the_name_of_the_dispatcher() -> None:
    dispatcher = Dispatcher(name="pool-of-the-test")
    thread = current(dispatcher)
    assert thread.daemon
    assert thread.name.startswith("pool-of-the-test-")
    dispatcher.close()
    assert not thread.is_alive()


def test_one_thread_does_work_in_the_order_in_which_it_was_scheduled() -> None:
    dispatcher = Dispatcher(threads=1)
    done: list[int] = []
    for number in range(1000):
        dispatcher.schedule(Work(lambda number=number: done.append(number)))  # type: ignore[misc]  # mypy infers no type for a lambda with a default
    dispatcher.close()
    assert done == list(range(1000))


def test_several_threads_work_at_the_same_time() -> None:
    dispatcher = Dispatcher(threads=3)
    gate = Gate()
    for _ in range(3):
        dispatcher.schedule(Work(gate.wait))
    gate.arrived(3)
    gate.open()
    dispatcher.close()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_thread_outlives_whatever_an_activation_throws_and_logs_it(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher = Dispatcher(threads=1)

    def fail() -> None:
        raise error

    before = current(dispatcher)
    dispatcher.schedule(Work(fail))
    assert current(dispatcher) is before
    dispatcher.close()
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


def test_a_dispatcher_may_be_closed_twice() -> None:
    dispatcher = Dispatcher()
    dispatcher.close()
    dispatcher.close()


def test_closing_waits_for_the_activation_under_way() -> None:
    dispatcher = Dispatcher(threads=1)
    gate, done = Gate(), threading.Event()

    def work() -> None:
        gate.wait()
        done.set()

    dispatcher.schedule(Work(work))
    gate.arrived()
    closing = threading.Thread(target=dispatcher.close)
    closing.start()
    assert closing.is_alive()
    gate.open()
    closing.join(PATIENCE)
    assert done.is_set()


def test_closing_gives_up_on_a_thread_that_does_not_come_back_which_ends_when_it_does() -> None:
    dispatcher = Dispatcher(threads=1)
    gate = Gate()
    dispatcher.schedule(Work(gate.wait))
    gate.arrived()
    dispatcher.close(timeout=0.01)
    assert dispatcher.closed
    gate.open()  # the fixture of all tests sees that the thread ends


def test_a_thread_of_the_dispatcher_may_close_it_and_ends_after_its_activation() -> None:
    dispatcher = Dispatcher(threads=2)
    threads: Queue[threading.Thread] = Queue()

    def close() -> None:
        dispatcher.close()
        threads.put(threading.current_thread())

    dispatcher.schedule(Work(close))
    thread = threads.get(timeout=PATIENCE)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_what_is_scheduled_when_the_dispatcher_is_closed_is_done_by_the_caller() -> None:
    dispatcher = Dispatcher()
    dispatcher.close()
    assert current(dispatcher) is threading.current_thread()
    assert seat_here() is None


def test_nothing_that_is_scheduled_while_the_dispatcher_closes_is_lost() -> None:
    for _ in range(50):
        dispatcher = Dispatcher(threads=2)
        done: list[int] = []
        start = threading.Barrier(3)

        def send(
            done: list[int] = done,
            dispatcher: Dispatcher = dispatcher,
            start: threading.Barrier = start,
        ) -> None:
            start.wait(PATIENCE)
            for _ in range(50):
                dispatcher.schedule(Work(lambda: done.append(1)))

        senders = [threading.Thread(target=send) for _ in range(2)]
        for sender in senders:
            sender.start()
        start.wait(PATIENCE)
        dispatcher.close()
        for sender in senders:
            sender.join(PATIENCE)
        assert len(done) == 100


def test_a_signal_handler_may_schedule_while_its_thread_schedules() -> None:
    dispatcher = Dispatcher(threads=1)
    done: list[str] = []
    alarms: list[int] = []

    def handle(*_: object) -> None:
        alarms.append(1)
        dispatcher.schedule(Work(lambda: done.append("alarm")))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for _ in range(20_000):
            dispatcher.schedule(Work(lambda: done.append("call")))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    dispatcher.close()
    assert (done.count("call"), done.count("alarm")) == (20_000, len(alarms))


def test_a_finaliser_may_schedule() -> None:
    dispatcher = Dispatcher(threads=1)
    done = threading.Event()

    class Last:
        def __del__(self) -> None:
            dispatcher.schedule(Work(done.set))

    last = Last()
    del last
    assert done.wait(PATIENCE)
    dispatcher.close()


def test_there_is_one_more_thread_while_one_is_blocked_and_no_more_afterwards() -> None:
    dispatcher = Dispatcher(threads=1)
    inner, ended = Gate(), threading.Event()

    def block() -> None:
        with dispatcher.blocking():
            inner.wait()
        ended.set()

    first = current(dispatcher)
    dispatcher.schedule(Work(block))
    inner.arrived()
    second = current(dispatcher)  # done by somebody, though the one thread waits
    inner.open()
    assert ended.wait(PATIENCE)
    stays = current(dispatcher)
    (goes,) = {first, second} - {stays}
    goes.join(PATIENCE)
    assert not goes.is_alive()
    assert current(dispatcher) is stays
    dispatcher.close()


def test_a_closed_dispatcher_does_not_grow() -> None:
    dispatcher = Dispatcher()
    dispatcher.close()
    assert not dispatcher.grow()
    with dispatcher.blocking():
        pass


def test_a_dispatcher_that_can_start_no_more_threads_goes_on_with_those_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatcher = Dispatcher(threads=1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not dispatcher.grow()
    assert current(dispatcher).is_alive()
    dispatcher.close()


@pytest.mark.parametrize(("threads", "throughput"), [(0, 64), (1, 0), (-1, 64)])
def test_a_dispatcher_has_at_least_one_thread_and_lets_at_least_one_message_through(
    threads: int, throughput: int
) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Dispatcher(threads=threads, throughput=throughput)


def test_what_was_activated_last_is_not_kept_in_memory() -> None:
    dispatcher = Dispatcher(threads=1)
    gone = threading.Event()

    class Last(Work):
        def __del__(self) -> None:
            gone.set()

    dispatcher.schedule(Last(lambda: None))
    assert gone.wait(PATIENCE)
    dispatcher.close()
