"""Nothing that is sent is lost, doubled or overtaken by what was sent later, whatever happens meanwhile."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import scale
from intermission.kernel.actor import Actor
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.mailbox import Lane
from intermission.kernel.ref import ActorDeadError, ActorRef
from intermission.kernel.supervision import Supervision
from intermission.kernel.system import ActorSystem
from intermission.testing.sync import PATIENCE, Gate

SENDERS = 8
MESSAGES = scale.rounds(8_000, 100_000)  # in all


@dataclass(frozen=True, slots=True)
class User:
    sender: int
    number: int


@dataclass(frozen=True, slots=True)
class Internal(User):
    lane: ClassVar[Lane] = Lane.INTERNAL


@dataclass(frozen=True, slots=True)
class Control(User):
    lane: ClassVar[Lane] = Lane.CONTROL


KINDS: list[type[User]] = [User, Internal, Control]


class Collector(Actor):
    """Collects what it gets in a list that outlives it; fails at every thousandth message if told so."""

    def __init__(self, got: list[User], *, fails: bool = False) -> None:
        super().__init__()
        self.got, self.fails = got, fails

    def on_receive(self, message: User) -> User:
        self.got.append(message)
        if self.fails and len(self.got) % 1000 == 0:
            raise ValueError("every thousandth")
        return message


def from_all_senders(send: list[User], deliver: Callable[[User], None]) -> None:
    """Send the messages of each sender from a thread of its own, all at the same time."""
    start = threading.Barrier(SENDERS)

    def work(sender: int) -> None:
        start.wait(PATIENCE)
        for message in send:
            if message.sender == sender:
                deliver(message)

    threads = [threading.Thread(target=work, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * PATIENCE)


class Delivery:
    """Tells one actor after another, and counts by message what came of it."""

    def __init__(self, *refs: ActorRef[Any], here: bool = False) -> None:
        self.refs = list(refs)
        self.refused: list[User] = []
        self.here = here  # whether the odd senders handle what they send, if the actor is idle

    def __call__(self, message: User) -> None:
        ref = self.refs[message.number % len(self.refs)]
        try:
            if self.here and message.sender % 2:
                ref.tell_here(message)
            else:
                ref.tell(message)
        except ActorDeadError:
            self.refused.append(message)


def messages() -> list[User]:
    return [
        KINDS[number % 3](sender, number)
        for number in range(MESSAGES // SENDERS)
        for sender in range(SENDERS)
    ]


def assert_in_order(got: list[User]) -> None:
    """Check that what a sender sent in one lane came in its order."""
    streams: dict[tuple[int, type[User]], list[int]] = defaultdict(list)
    for message in got:
        streams[message.sender, type(message)].append(message.number)
    for numbers in streams.values():
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("actors", [1, 50])
@pytest.mark.parametrize("here", [False, True], ids=["by-the-dispatcher", "by-the-senders-too"])
def test_all_messages_of_all_senders_arrive_once_and_in_order_by_sender_and_lane(
    threads: int, actors: int, here: bool
) -> None:
    collected: list[list[User]] = [[] for _ in range(actors)]
    sent = messages()
    with ActorSystem(dispatcher=Dispatcher(threads=threads)) as system:
        refs = [system.start(Collector, got) for got in collected]
        from_all_senders(sent, Delivery(*refs, here=here))
        for ref in refs:
            ref.ask(User(SENDERS, 0))
    for got in collected:
        assert_in_order(got)
    everything = [message for got in collected for message in got if message.sender < SENDERS]
    assert Counter(everything) == Counter(sent)


def test_an_idle_actor_handles_what_is_told_here_on_the_senders_thread_and_a_busy_one_on_its_own() -> None:
    handled: list[str] = []
    gate = Gate()

    class Where(Actor):
        def on_receive(self, message: object) -> None:
            if message == "wait":
                gate.wait()
            handled.append(threading.current_thread().name)

    with ActorSystem(dispatcher=Dispatcher(name="pool")) as system:
        ref = system.start(Where)
        ref.ask("warm")
        system.start(Collector, []).ask(User(0, 0))  # the one thread has left the first actor
        ref.tell_here("idle")
        ref.tell("wait")
        gate.arrived()
        ref.tell_here("busy")
        gate.open()
        ref.ask("last")
    here = threading.current_thread().name
    assert [name == here for name in handled] == [False, True, False, False, False]


def test_restarts_in_the_middle_lose_and_double_nothing() -> None:
    got: list[User] = []
    sent = messages()
    endless = Supervision("restart", max_restarts=len(sent))
    with ActorSystem(dispatcher=Dispatcher(threads=2)) as system:
        ref = system.start(Collector, got, fails=True, supervision=endless)
        from_all_senders(sent, Delivery(ref))
        ref.stop()
    assert_in_order(got)
    assert Counter(got) == Counter(sent)


def test_an_actor_that_stops_in_the_middle_has_handled_the_beginning_of_each_stream() -> None:
    for round_ in range(scale.rounds(5, 50)):
        got: list[User] = []
        sent = [User(number % SENDERS, number // SENDERS) for number in range(SENDERS * 200)]
        with ActorSystem(dispatcher=Dispatcher(threads=2)) as system:
            ref = system.start(StopsAt, got, 50 + 100 * round_ % 1000)
            delivery = Delivery(ref)
            from_all_senders(sent, delivery)
            ref.stop()
        assert max(Counter(got).values()) == 1
        for sender in range(SENDERS):
            handled = [message.number for message in got if message.sender == sender]
            assert handled == list(range(len(handled)))
            refused = [message.number for message in delivery.refused if message.sender == sender]
            assert refused == list(range(200 - len(refused), 200))


class StopsAt(Collector):
    """Stops in the middle of its messages, as a failure does."""

    def __init__(self, got: list[User], last: int) -> None:
        super().__init__(got)
        self.last = last

    def on_receive(self, message: User) -> User:
        super().on_receive(message)
        if len(self.got) == self.last:
            raise SystemExit
        return message


def test_each_question_gets_its_own_answer_while_actors_stop_and_fail() -> None:
    answers: Counter[str] = Counter()
    lock = threading.Lock()
    with ActorSystem(dispatcher=Dispatcher(threads=2)) as system:
        refs = [system.start(StopsAt, [], 8 * (number + 1)) for number in range(20)]

        def ask(message: User) -> None:
            try:
                answer = refs[message.number % len(refs)].ask(message, timeout=PATIENCE)
                outcome = "right" if answer == message else "wrong"
            except ActorDeadError:
                outcome = "dead"
            except Exception as error:  # noqa: BLE001 - they are told apart by name
                outcome = type(error).__name__
            with lock:
                answers[outcome] += 1

        sent = [User(number % SENDERS, number // SENDERS) for number in range(MESSAGES // 2)]
        from_all_senders(sent, ask)
    assert answers["wrong"] == answers["AskTimeoutError"] == 0
    assert answers["ActorCrashError"] == 20
    assert sum(answers.values()) == len(sent)


def test_control_overtakes_what_waits_and_nothing_of_a_lane_overtakes_its_own() -> None:
    gate = Gate()

    class Held(Collector):
        def on_start(self) -> None:
            gate.wait()

    got: list[User] = []
    sent = [kind(0, number) for number in range(100) for kind in KINDS]
    with ActorSystem() as system:
        ref = system.start(Held, got)
        for message in sent:
            ref.tell(message)
        gate.open()
        ref.stop()
    assert got == [kind(0, number) for kind in (Control, Internal, User) for number in range(100)]


def test_an_actor_with_a_flood_of_control_messages_leaves_others_their_turn() -> None:
    class Flooded(Actor):
        def on_receive(self, message: Control) -> None:
            if not enough.is_set():
                self.actor_ref.tell(message)

    enough = threading.Event()
    with ActorSystem(dispatcher=Dispatcher(threads=1)) as system:
        flooded = system.start(Flooded)
        for number in range(100):
            flooded.tell(Control(0, number))
        assert system.start(Collector, []).ask(User(0, 1)) == User(0, 1)
        enough.set()
