import threading

import pytest

from intermission.testing import Gate, ManualClock, Sequencer


def test_a_gate_holds_until_it_is_opened() -> None:
    gate, passed = Gate(), threading.Event()

    def walk() -> None:
        gate.wait()
        passed.set()

    walker = threading.Thread(target=walk)
    walker.start()
    gate.arrived()
    assert not passed.is_set()
    gate.open()
    walker.join(30)

    assert passed.is_set()
    assert gate.arrivals == 1


def test_an_open_gate_stops_nobody() -> None:
    gate = Gate()
    gate.open()
    gate.wait(timeout=0)


def test_a_gate_that_nobody_opens_or_reaches_is_a_timeout() -> None:
    gate = Gate()
    with pytest.raises(TimeoutError, match="0 of 1 arrived"):
        gate.arrived(timeout=0)
    with pytest.raises(TimeoutError, match="not opened within 0 s"):
        gate.wait(timeout=0)


def test_a_sequencer_runs_steps_of_several_threads_in_their_order() -> None:
    sequencer, done = Sequencer(), list[int]()

    def step(position: int) -> None:
        with sequencer(position):
            done.append(position)

    threads = [threading.Thread(target=step, args=(position,)) for position in reversed(range(5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert done == [0, 1, 2, 3, 4]


def test_a_step_that_fails_gives_its_turn_to_the_next() -> None:
    sequencer = Sequencer()
    with pytest.raises(ValueError, match="failed"), sequencer(0):
        raise ValueError("failed")
    with sequencer(1, timeout=0):
        pass


def test_a_position_is_used_once_and_waits_for_the_ones_before_it() -> None:
    sequencer = Sequencer()
    with pytest.raises(TimeoutError, match="the turn of 1 did not come"), sequencer(1, timeout=0):
        pass
    with pytest.raises(ValueError, match="position 1 was used before"), sequencer(1):
        pass


def test_a_manual_clock_moves_only_when_it_is_told_to() -> None:
    clock = ManualClock(start=50)
    assert (clock.time(), clock.monotonic()) == (50, 0)
    clock.advance(2.5)
    assert (clock.time(), clock.monotonic()) == (52.5, 2.5)


def test_a_manual_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="-1"):
        ManualClock().advance(-1)
