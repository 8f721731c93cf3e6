import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest
from pykka import messages
from pykka._envelope import Envelope

from intermission.kernel.dispatcher import Activatable, Dispatcher
from intermission.kernel.mailbox import Lane, Mailbox, Pause


class Message:
    def __init__(self, name: str) -> None:
        self.name = name


class Control(Message):
    lane: ClassVar[Lane] = Lane.CONTROL


class Internal(Message):
    lane: ClassVar[Lane] = Lane.INTERNAL


class Notes:
    """Notes who is scheduled; stands for a dispatcher. `break_once` is raised by the next call."""

    def __init__(self) -> None:
        self.scheduled: list[Activatable] = []
        self.break_once: BaseException | None = None

    def schedule(self, item: Activatable) -> None:
        if self.break_once is not None:
            error, self.break_once = self.break_once, None
            raise error
        self.scheduled.append(item)


def a_mailbox(kind: type[Mailbox] = Mailbox) -> tuple[Mailbox, Notes]:
    """Return an idle mailbox and what it is scheduled at."""
    mailbox, notes = kind(), Notes()
    mailbox.dispatcher = cast(Dispatcher, notes)
    assert mailbox.begin_turn()
    mailbox.end_turn()
    return mailbox, notes


def put(mailbox: Mailbox, *contents: object) -> None:
    for message in contents:
        mailbox.put(Envelope(message))


def names(mailbox: Mailbox) -> list[str]:
    """Take what can be taken."""
    taken: list[str] = []
    while True:
        try:
            message: Any = mailbox.get().message
        except Pause:
            return taken
        taken.append(message.name if isinstance(message, Message) else repr(message))


def test_control_comes_before_internal_and_internal_before_user_each_in_its_order() -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, Message("u1"), Internal("i1"), Control("c1"), Message("u2"), Internal("i2"), Control("c2"))
    assert names(mailbox) == ["c1", "c2", "i1", "i2", "u1", "u2"]


def test_a_control_message_overtakes_what_has_been_looked_at_already() -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, Message("u1"), Message("u2"), Message("u3"))
    first: Any = mailbox.get().message
    put(mailbox, Control("c"))
    assert [first.name, *names(mailbox)] == ["u1", "c", "u2", "u3"]


class WithAField:
    lane = "the fast one"


class WithANumber:
    lane = 0


class Strange(type):
    @property
    def lane(cls) -> Lane:
        raise RuntimeError("this class tells nothing")


class FromAStrangeClass(metaclass=Strange):
    pass


@pytest.mark.parametrize(
    "message",
    [
        3,
        None,
        WithAField(),
        WithANumber(),
        FromAStrangeClass(),
        Lane.CONTROL,
        Control,
        messages._ActorStop(),  # pyright: ignore[reportPrivateUsage] - the message of Pykka's stop
        messages.ProxyGetAttr(attr_path=("lane",)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_whatever_has_no_lane_of_ours_is_the_users(message: object) -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, message, Internal("internal"), Message("behind"))
    assert names(mailbox) == ["internal", repr(message), "behind"]


def test_an_empty_mailbox_raises_pause_and_says_that_it_is_empty() -> None:
    mailbox, _ = a_mailbox()
    assert mailbox.empty()
    with pytest.raises(Pause):
        mailbox.get()
    put(mailbox, Control("c"), Message("u"))
    assert not mailbox.empty()
    mailbox.get()
    assert not mailbox.empty()
    mailbox.get()
    assert mailbox.empty()


def test_internal_and_user_share_a_budget_and_control_has_its_own() -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, *(Control(f"c{number}") for number in range(2)))
    put(mailbox, *(Internal(f"i{number}") for number in range(2)))
    put(mailbox, *(Message(f"u{number}") for number in range(3)))
    mailbox.begin(3)
    assert names(mailbox) == ["c0", "c1", "i0", "i1", "u0"]
    put(mailbox, Control("c2"))
    assert names(mailbox) == ["c2"]
    mailbox.begin(3)
    assert names(mailbox) == ["u1", "u2"]


def test_a_flood_of_control_messages_ends_the_activation_too() -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, Message("u"), *(Control(f"c{number}") for number in range(5)))
    mailbox.begin(3)
    assert names(mailbox) == ["c0", "c1", "c2"]
    mailbox.begin(3)
    assert names(mailbox) == ["c3", "c4", "u"]


def test_a_mailbox_is_scheduled_once_however_much_is_put_and_again_when_it_was_idle() -> None:
    mailbox, notes = a_mailbox()
    put(mailbox, 1, 2, 3)
    assert notes.scheduled == [mailbox]
    assert mailbox.begin_turn()
    put(mailbox, 4)
    assert names(mailbox) == ["1", "2", "3", "4"]
    mailbox.end_turn()
    assert notes.scheduled == [mailbox]
    put(mailbox, 5)
    assert notes.scheduled == [mailbox, mailbox]


def test_a_mailbox_whose_turn_ends_with_messages_left_goes_to_the_back_of_the_queue() -> None:
    mailbox, notes = a_mailbox()
    put(mailbox, 1, 2)
    assert mailbox.begin_turn()
    mailbox.begin(1)
    assert names(mailbox) == ["1"]
    mailbox.end_turn()
    assert notes.scheduled == [mailbox, mailbox]


def test_what_is_put_while_the_turn_ends_is_not_left_lying() -> None:
    class PutInto(Mailbox):
        late: ClassVar[list[str]] = []

        def empty(self) -> bool:
            was = super().empty()
            if self.late:
                put(self, self.late.pop())  # by another thread, which finds that nobody need be woken
            return was

    mailbox, notes = a_mailbox(PutInto)
    put(mailbox, "first")
    assert mailbox.begin_turn()
    assert names(mailbox) == ["'first'"]
    PutInto.late.append("late")
    mailbox.end_turn()
    assert notes.scheduled == [mailbox, mailbox]
    assert names(mailbox) == ["'late'"]


def test_a_mailbox_has_one_turn_at_a_time() -> None:
    mailbox, _ = a_mailbox()
    assert mailbox.begin_turn()
    assert not mailbox.begin_turn()
    mailbox.end_turn()
    assert mailbox.begin_turn()


def test_an_interrupt_while_a_message_is_put_leaves_no_mailbox_that_nobody_schedules() -> None:
    mailbox, notes = a_mailbox()
    notes.break_once = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        put(mailbox, "put before the interrupt")
    assert notes.scheduled == [mailbox]
    assert names(mailbox) == ["'put before the interrupt'"]


def test_a_signal_handler_may_put_while_the_thread_that_it_interrupts_puts() -> None:
    mailbox, _ = a_mailbox()

    def handle(*_: object) -> None:
        put(mailbox, "alarm")

    before = signal.signal(signal.SIGALRM, handle)
    sent = 0
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for number in range(50_000):
            put(mailbox, number)
            sent += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    taken = names(mailbox)
    assert [name for name in taken if name != "'alarm'"] == [str(number) for number in range(sent)]
    assert "'alarm'" in taken


def test_a_finaliser_may_put_while_the_reader_sorts() -> None:
    mailbox, _ = a_mailbox()

    class Last:
        def __del__(self) -> None:
            put(mailbox, "finalised")

    class LetsGo(type):
        @property
        def lane(cls) -> None:
            waste.clear()

    class Trigger(metaclass=LetsGo):
        pass

    waste: list[Last] = [Last()]
    put(mailbox, Trigger(), "behind")
    assert names(mailbox)[1:] == ["'behind'", "'finalised'"]


def test_an_idle_mailbox_keeps_no_queue() -> None:
    mailbox, _ = a_mailbox()
    put(mailbox, Control("c"), Internal("i"), Message("u"))
    assert mailbox.begin_turn()
    assert len(names(mailbox)) == 3
    mailbox.end_turn()
    held = [getattr(mailbox, name, None) for name in Mailbox.__slots__]
    assert not [one for one in held if isinstance(one, deque)]
    assert sum(map(sys.getsizeof, held)) < 500


class EndingTurn:
    """A mailbox's turn, and what happens just before it is given back."""

    def __init__(self, turn: Any, before: Callable[[], None]) -> None:
        self._turn = turn
        self._before = before

    def acquire(self, blocking: bool) -> bool:
        return bool(self._turn.acquire(blocking))

    def release(self) -> None:
        self._before()
        self._turn.release()


def test_a_message_that_comes_while_a_turn_ends_is_scheduled_when_the_turn_is_free() -> None:
    mailbox, notes = a_mailbox()
    assert mailbox.begin_turn()

    def come() -> None:
        put(mailbox, Message("late"))
        for _ in notes.scheduled:
            assert not mailbox.begin_turn()  # whoever is scheduled by now comes in vain
        notes.scheduled.clear()

    mailbox._turn = cast(Any, EndingTurn(mailbox._turn, come))  # pyright: ignore[reportPrivateUsage] - the moment cannot be hit else
    mailbox.end_turn()
    assert notes.scheduled == [mailbox]
