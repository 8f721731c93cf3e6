import asyncio
import os
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

import scale
from intermission.errors import IntermissionError
from intermission.kernel.actor import Actor
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.ref import (
    ActorDeadError,
    ActorRef,
    AskCycleError,
    AskTimeoutError,
    Reply,
    SystemForkedError,
)
from intermission.kernel.system import ActorSystem
from intermission.testing.sync import PATIENCE, Gate


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem() as system:
        yield system


class Echo(Actor):
    """Answers with the message; raises an exception, asks a reference, waits at a gate."""

    def on_receive(self, message: object) -> object:
        if isinstance(message, Exception):
            raise message
        if isinstance(message, Gate):
            message.wait()
        if isinstance(message, ActorRef):
            return message.ask("asked by an actor", timeout=PATIENCE)
        return message


class TestAsk:
    def test_the_answer_is_what_on_receive_returns(self, system: ActorSystem) -> None:
        assert system.start(Echo).ask({"any": "thing"}) == {"any": "thing"}

    def test_the_exception_of_the_handler_is_raised_where_it_was_asked(self, system: ActorSystem) -> None:
        error = ValueError("bad")
        with pytest.raises(ValueError, match="bad") as caught:
            system.start(Echo).ask(error)
        assert caught.value is error
        assert any(entry.name == "on_receive" for entry in caught.traceback)

    def test_an_answer_that_does_not_come_in_time_is_an_error_and_the_message_is_still_handled(
        self, system: ActorSystem
    ) -> None:
        gate = Gate()
        ref = system.start(Echo)
        with pytest.raises(
            AskTimeoutError, match=r"Echo \(.*\) did not answer Gate within 0\.01 s"
        ) as caught:
            ref.ask(gate, timeout=0.01)
        assert isinstance(caught.value, pykka.Timeout)
        assert isinstance(caught.value, IntermissionError)
        gate.open()
        assert ref.ask("next") == "next"
        assert gate.arrivals == 1

    def test_a_time_limit_may_be_given_by_place_be_none_or_be_endless(self, system: ActorSystem) -> None:
        ref = system.start(Echo)
        assert ref.ask("x", PATIENCE) == "x"
        assert ref.ask("x", None) == "x"
        assert ref.ask("x", float("inf")) == "x"

    def test_asking_without_waiting_gives_a_future(self, system: ActorSystem) -> None:
        gate = Gate()
        ref = system.start(Echo)
        first, second = ref.ask(gate, block=False), ref.ask(21, block=False)
        with pytest.raises(pykka.Timeout):
            second.get(timeout=0.01)
        gate.open()
        assert second.map(lambda number: 2 * number).get(timeout=PATIENCE) == 42
        assert first.get(timeout=PATIENCE) is gate
        assert pykka.get_all([first, second], timeout=PATIENCE) == [gate, 21]

    def test_a_stopped_actor_is_an_error_to_tell_ask_and_not_to_stop(self, system: ActorSystem) -> None:
        ref = system.start(Echo)
        assert ref.stop()
        assert not ref.is_alive()
        with pytest.raises(ActorDeadError) as caught:
            ref.tell("x")
        assert isinstance(caught.value, pykka.ActorDeadError)
        assert isinstance(caught.value, IntermissionError)
        with pytest.raises(ActorDeadError, match="has stopped"):
            ref.ask("x")
        future = ref.ask("x", block=False)
        with pytest.raises(ActorDeadError):
            future.get(timeout=PATIENCE)
        assert not ref.stop()

    def test_what_waits_behind_a_stop_is_answered_with_an_error(self, system: ActorSystem) -> None:
        gate = Gate()
        ref = system.start(Echo)
        ref.tell(gate)
        before = ref.ask("before", block=False)
        stopped = ref.stop(block=False)
        behind = [ref.ask(number, block=False) for number in range(20)]
        stopped_again = ref.stop(block=False)
        gate.open()
        assert before.get(timeout=PATIENCE) == "before"
        assert stopped.get(timeout=PATIENCE)
        assert stopped_again.get(timeout=PATIENCE)
        for future in behind:
            with pytest.raises(ActorDeadError, match="stopped before it came to the message"):
                future.get(timeout=PATIENCE)


class TestAskInsideAnActor:
    def test_an_actor_may_ask_another_though_there_is_one_thread(self) -> None:
        with ActorSystem(dispatcher=Dispatcher(threads=1)) as system:
            asked = system.start(Echo)
            assert system.start(Echo).ask(asked) == "asked by an actor"

    def test_a_chain_of_actors_that_ask_each_other_has_as_many_threads_as_it_needs(self) -> None:
        class Link(Actor):
            def __init__(self, following: ActorRef[Any] | None) -> None:
                super().__init__()
                self.following = following

            def on_receive(self, message: int) -> int:
                return message if self.following is None else self.following.ask(message + 1)

        with ActorSystem(dispatcher=Dispatcher(threads=1)) as system:
            ref: ActorRef[Any] | None = None
            for _ in range(20):
                ref = system.start(Link, ref)
            assert ref is not None
            assert ref.ask(1) == 20

    def test_an_actor_that_asks_itself_is_told_so_at_once(self, system: ActorSystem) -> None:
        ref = system.start(Echo)
        with pytest.raises(AskCycleError, match="asked itself"):
            ref.ask(ref)

    def test_an_actor_that_waits_for_its_own_answer_later_is_told_so_too(self, system: ActorSystem) -> None:
        class Late(Actor):
            def on_receive(self, message: object) -> object:
                return self.actor_ref.ask("x", block=False).get(timeout=PATIENCE)

        with pytest.raises(AskCycleError):
            system.start(Late).ask("x")

    @pytest.mark.parametrize("threads", [1, 2])
    def test_of_actors_that_ask_each_other_in_a_circle_one_is_told_and_all_are_answered(
        self, threads: int
    ) -> None:
        class Neighbour(Actor):
            def on_receive(self, message: ActorRef[Any] | list[ActorRef[Any]]) -> object:
                if isinstance(message, ActorRef):
                    self.neighbour = message
                    return None
                return self.neighbour.ask(message)

        with ActorSystem(dispatcher=Dispatcher(threads=threads)) as system:
            refs = [system.start(Neighbour) for _ in range(3)]
            for number, ref in enumerate(refs):
                ref.ask(refs[(number + 1) % 3])
            for future in [ref.ask([], block=False) for ref in refs]:
                with pytest.raises((AskCycleError, ActorDeadError)):
                    future.get(timeout=PATIENCE)

    def test_an_actor_may_ask_one_of_another_system(self, system: ActorSystem) -> None:
        with ActorSystem() as other:
            assert system.start(Echo).ask(other.start(Echo)) == "asked by an actor"


class TestAskAgainstStop:
    @pytest.mark.parametrize("how", ["stop", "failure", "close"])
    def test_an_ask_that_meets_the_end_of_the_actor_is_answered(self, how: str, rounds: int) -> None:
        answers = {"echo": 0, "dead": 0}
        for _ in range(rounds):
            system = ActorSystem()
            ref = system.start(Echo)
            ends: dict[str, Callable[[], object]] = {
                "stop": lambda ref=ref: ref.stop(block=False),  # type: ignore[misc]  # see below
                "failure": lambda ref=ref: ref.tell(ValueError("x")),  # type: ignore[misc]  # mypy does not infer lambdas with defaults
                "close": system.close,
            }
            for answer in _ask_while(ref, ends[how]):
                answers[answer] += 1
            system.close()
        assert sum(answers.values()) == rounds * 3
        assert answers["dead"]

    @pytest.fixture
    def rounds(self) -> int:
        return scale.rounds(100, 3000)


def _ask_while(ref: ActorRef[Any], end: Callable[[], object]) -> list[str]:
    """Ask from three threads while a fourth ends the actor, and return what each of the three got."""
    start = threading.Barrier(4)
    got: list[str] = []

    def ask() -> None:
        start.wait(PATIENCE)
        try:
            got.append(ref.ask("echo", timeout=PATIENCE))
        except ActorDeadError:
            got.append("dead")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    start.wait(PATIENCE)
    end()
    for thread in threads:
        thread.join(PATIENCE)
    return got


class TestReply:
    def test_the_first_answer_stands_and_a_second_is_refused(self) -> None:
        reply = Reply()
        reply.set(1)
        with pytest.raises(queue.Full):
            reply.set(2)
        with pytest.raises(queue.Full):
            reply.set_exception((ValueError, ValueError(), None))
        with pytest.raises(queue.Full):
            reply.set_get_hook(lambda timeout: 3)
        assert [reply.get(), reply.get(timeout=0)] == [1, 1]

    def test_a_future_with_a_hook_takes_no_answer(self) -> None:
        reply = Reply()
        reply.set_get_hook(lambda timeout: timeout)
        with pytest.raises(queue.Full):
            reply.set(1)
        assert reply.get(timeout=3) == 3

    def test_all_who_wait_are_woken(self) -> None:
        reply = Reply()
        got: list[object] = []
        threads = [threading.Thread(target=lambda: got.append(reply.get(timeout=PATIENCE))) for _ in range(5)]
        for thread in threads:
            thread.start()
        reply.set("here")
        for thread in threads:
            thread.join(PATIENCE)
        assert got == ["here"] * 5

    def test_an_exception_that_is_only_a_class_is_made(self) -> None:
        reply = Reply()
        reply.set_exception((KeyError, None, None))
        with pytest.raises(KeyError):
            reply.get()

    def test_the_exception_being_handled_is_taken_when_none_is_given(self) -> None:
        reply = Reply()
        try:
            raise LookupError("this one")
        except LookupError:
            reply.set_exception()
        with pytest.raises(LookupError, match="this one"):
            reply.get()

    def test_a_reply_can_be_awaited_by_any_number_of_tasks_and_their_loop_goes_on(self) -> None:
        async def wait(reply: pykka.Future[Any]) -> object:
            return await reply

        async def main() -> list[object]:
            given_up = asyncio.ensure_future(wait(reply))
            tasks = [asyncio.ensure_future(wait(reply)) for _ in range(3)]
            mapped = asyncio.ensure_future(wait(reply.map(lambda value: value + 1)))
            for _ in range(20):
                await asyncio.sleep(0)
            given_up.cancel()
            threading.Thread(target=reply.set, args=(3,)).start()
            found = await asyncio.wait_for(asyncio.gather(*tasks, mapped), PATIENCE)
            return [*found, await reply, given_up.cancelled()]

        reply = Reply()
        assert asyncio.run(main()) == [3, 3, 3, 4, 3, True]

    def test_what_awaits_a_reply_gets_the_error_that_it_is(self, system: ActorSystem) -> None:
        async def main() -> None:
            with pytest.raises(LookupError, match="nothing"):
                await system.start(Echo).ask(LookupError("nothing"), block=False)

        asyncio.run(main())


def test_in_a_forked_process_every_use_of_the_system_is_an_error_and_none_hangs(system: ActorSystem) -> None:
    ref = system.start(Echo)
    gate = Gate()
    busy = system.start(Echo)
    busy.tell(gate)
    gate.arrived()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
        child = os.fork()
    if child == 0:
        told = b"the child failed"
        try:
            told = _use(system, ref, busy).encode()
        finally:
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == "8 refused, closed"
    os.waitpid(child, 0)
    gate.open()
    assert ref.ask("here all goes on") == "here all goes on"


def _use(system: ActorSystem, *refs: ActorRef[Any]) -> str:
    uses: list[Callable[[], object]] = [lambda: system.start(Echo)] * 2
    for ref in refs:
        uses += [
            lambda ref=ref: ref.tell("x"),  # type: ignore[misc]  # see below
            lambda ref=ref: ref.ask("x"),  # type: ignore[misc]  # see below
            lambda ref=ref: ref.ask("x", block=False).get(),  # type: ignore[misc]  # mypy does not infer lambdas with defaults
        ]
    refused = 0
    for use in uses:
        try:
            use()
        except SystemForkedError:
            refused += 1
    system.close()
    with ActorSystem() as own:  # one that was made after the fork works
        assert own.start(Echo).ask(1) == 1
    return f"{refused} refused, closed"
