import threading

import pytest

import scale
from intermission.errors import IntermissionError
from intermission.kernel.waits import ReentrantRunError, WaitsFor

ROUNDS = scale.rounds(50, 500)


def test_who_waits_for_itself_is_told_so_at_once() -> None:
    waits = WaitsFor()
    with pytest.raises(ReentrantRunError) as caught, waits.waiting("A", "A"):
        raise AssertionError("the block began")

    assert caught.value.chain == ("A", "A")
    assert isinstance(caught.value, IntermissionError)


def test_a_wait_that_closes_a_circle_is_refused_and_the_chain_named() -> None:
    waits = WaitsFor()
    with waits.waiting("A", "B"), waits.waiting("B", "C"):
        with pytest.raises(ReentrantRunError, match=r"C → A → B → C.*start\(\)") as caught:
            waits.begin("C", "A")

        assert caught.value.chain == ("C", "A", "B", "C")
        assert len(waits) == 2


def test_a_wait_that_has_ended_closes_no_circle() -> None:
    waits = WaitsFor()
    with waits.waiting("A", "B"):
        pass
    with waits.waiting("B", "A"):
        assert len(waits) == 1
    assert len(waits) == 0


def test_a_wait_that_ends_with_an_exception_is_forgotten() -> None:
    waits = WaitsFor()
    with pytest.raises(KeyError), waits.waiting("A", "B"):
        raise KeyError
    assert len(waits) == 0


def test_two_waits_of_one_for_one_both_have_to_end() -> None:
    waits = WaitsFor()
    first, second = waits.begin("A", "B"), waits.begin("A", "B")
    waits.end(first)
    waits.end(first)
    with pytest.raises(ReentrantRunError):
        waits.begin("B", "A")

    waits.end(second)
    waits.end(waits.begin("B", "A"))
    assert len(waits) == 0


def test_many_may_wait_for_one_and_one_for_many() -> None:
    waits = WaitsFor()
    held = [waits.begin(waiter, target) for waiter in "ABC" for target in "XYZ"]
    assert len(waits) == 3
    for wait in held:
        waits.end(wait)
    assert len(waits) == 0


def test_a_chain_may_be_longer_than_the_stack_of_python() -> None:
    waits = WaitsFor()
    for number in range(20_000):
        waits.begin(number, number + 1)
    with pytest.raises(ReentrantRunError) as caught:
        waits.begin(20_000, 0)
    assert len(caught.value.chain) == 20_002


def test_of_waits_that_begin_at_once_and_would_make_a_circle_one_is_refused() -> None:
    names = "ABC"
    for _ in range(ROUNDS):
        waits, refused = WaitsFor(), list[str]()
        start, end = threading.Barrier(3), threading.Barrier(3)

        def wait(
            index: int,
            waits: WaitsFor = waits,
            refused: list[str] = refused,
            start: threading.Barrier = start,
            end: threading.Barrier = end,
        ) -> None:
            start.wait(30)
            try:
                with waits.waiting(names[index], names[(index + 1) % 3]):
                    end.wait(30)
            except ReentrantRunError:
                refused.append(names[index])
                end.wait(30)

        threads = [threading.Thread(target=wait, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(refused) == 1
        assert len(waits) == 0
