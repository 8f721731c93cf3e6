"""`AbortHandle` by itself, on a pair of sockets; and the moments that only a step by step view shows."""

import gc
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import requests

from asking import Asked
from certificates import ca_bundle, server_context
from intermission.content import Content
from intermission.errors import ModelError
from intermission.kernel.scope import Cancelled, CancelScope, ScopeHost
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
from intermission.models import ChatCompletions, ModelRequest, abort
from intermission.models.abort import AbortHandle
from intermission.models.limits import CallLimits, Limits
from intermission.testing import Gate, ManualClock, ModelServer, silent, stream, unaccepted

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peer = socket.socketpair()
    with ours, peer:
        yield ours, peer


def handle(**limits: float | None) -> AbortHandle:
    return AbortHandle(CallLimits(Limits(**limits), streaming=True))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_abort_ends_both_directions_of_the_socket(
    pair: tuple[socket.socket, socket.socket], scope: CancelScope
) -> None:
    ours, peer = pair
    with handle() as aborted:
        aborted.attach(ours)
        scope.cancel()
        assert (ours.recv(1), peer.recv(1)) == (b"", b"")
        assert aborted.stopped


def test_a_python_without_the_c_library_ends_them_too(
    pair: tuple[socket.socket, socket.socket], scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abort, "_shutdown", abort._shutdown_of(None))  # pyright: ignore[reportPrivateUsage]  # as it is there
    test_an_abort_ends_both_directions_of_the_socket(pair, scope)


def test_who_cancels_many_calls_does_not_give_pythons_lock_to_those_that_it_wakes() -> None:
    woken, waiting = list[int](), Gate()
    waiting.open()
    with ExitStack() as stack:
        scopes = [stack.enter_context(closing(CancelScope.child_of(None))) for _ in range(20)]

        def reads(number: int) -> None:
            ours, peer = socket.socketpair()
            with ours, peer, scopes[number], handle() as aborted:
                aborted.attach(ours)
                waiting.wait()
                ours.recv(1)
                woken.append(number)

        threads = [threading.Thread(target=reads, args=[number]) for number in range(len(scopes))]
        for thread in threads:
            thread.start()
        waiting.arrived(len(scopes))
        interval = sys.getswitchinterval()
        sys.setswitchinterval(60)  # seconds; whoever has the lock keeps it until he gives it away
        try:
            for scope in scopes:
                scope.cancel()
            meanwhile = len(woken)
        finally:
            sys.setswitchinterval(interval)
        for thread in threads:
            thread.join(30)
    assert meanwhile == 0
    assert sorted(woken) == list(range(len(scopes)))


def test_a_socket_that_comes_after_the_abort_is_shut_at_once(
    pair: tuple[socket.socket, socket.socket], scope: CancelScope
) -> None:
    ours, peer = pair
    with handle() as aborted:
        scope.cancel()
        with pytest.raises(ConnectionAbortedError):
            aborted.attach(ours)
    assert peer.gettimeout() is None


def test_a_socket_that_was_taken_back_is_out_of_reach(
    pair: tuple[socket.socket, socket.socket], scope: CancelScope
) -> None:
    ours, peer = pair
    with handle() as aborted:
        aborted.attach(ours)
        assert aborted.detach()
        scope.cancel()
        assert not aborted.detach()
        peer.send(b"x")
        assert ours.recv(1) == b"x"


def test_a_handle_is_dead_once_its_block_has_ended(
    pair: tuple[socket.socket, socket.socket], scope: CancelScope, clock: ManualClock
) -> None:
    ours, peer = pair
    before = descriptors()
    with handle(stream_total_timeout=5.0) as aborted:
        aborted.attach(ours)
        assert descriptors() == before + 1
    assert descriptors() == before
    clock.advance(10)
    scope.cancel()
    peer.send(b"x")

    assert ours.recv(1) == b"x"
    assert (aborted.stopped, aborted.expired) == (False, None)


def test_a_handle_leaves_no_circle_for_the_garbage_collection(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    gc.collect()
    gc.disable()
    try:
        with handle() as used:
            used.attach(pair[0])
        del used
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("timeout", [None, 0.0, 7.0])
def test_a_default_time_limit_of_sockets_does_not_change_the_mode_of_ours(
    pair: tuple[socket.socket, socket.socket], timeout: float | None
) -> None:
    ours, _ = pair
    ours.settimeout(timeout)
    before = os.get_blocking(ours.fileno())
    socket.setdefaulttimeout(3.0)
    try:
        with handle() as used:
            used.attach(ours)
    finally:
        socket.setdefaulttimeout(None)

    assert os.get_blocking(ours.fileno()) == before


def test_of_two_limits_the_earlier_is_the_one_that_has_passed(clock: ManualClock) -> None:
    with handle(gap_timeout=5.0, stream_total_timeout=3.0) as first:
        first.expect("gap_timeout")
        first.wait()
        clock.advance(10)
        assert first.expired == "stream_total_timeout"
    with handle(gap_timeout=3.0, stream_total_timeout=5.0) as second:
        second.expect("gap_timeout")
        second.wait()
        clock.advance(4)
        assert second.expired == "gap_timeout"


def test_a_shorter_limit_behind_a_longer_one_passes_in_its_time(clock: ManualClock) -> None:
    with handle(first_token_timeout=100.0, gap_timeout=2.0, stream_total_timeout=None) as used:
        used.expect("first_token_timeout")
        used.wait()
        clock.advance(50)
        used.waited()
        used.expect("gap_timeout")
        used.wait()
        clock.advance(1.5)
        assert used.expired is None
        clock.advance(1)
        assert used.expired == "gap_timeout"


def test_a_timer_that_is_closed_in_the_midst_of_a_call_fails_nothing() -> None:
    timer = Timer(ManualClock())
    host = ScopeHost(timer, Workers(timer=timer))
    with CancelScope.child_of(None, host=host), handle() as used:
        timer.close()
        used.expect("gap_timeout")
        used.wait()
        used.waited()
        assert used.expired is None


def test_a_cancel_between_the_hand_out_of_a_socket_and_its_connect_is_not_lost(
    scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = AbortHandle.attach

    def attach_and_cancel(handle: AbortHandle, sock: socket.socket) -> None:
        attach(handle, sock)
        scope.cancel("enough")

    monkeypatch.setattr(AbortHandle, "attach", attach_and_cancel)
    with unaccepted() as url:
        assert isinstance(Asked(ChatCompletions("small", base_url=url), STREAMED).ended(), Cancelled)


def test_a_cancel_at_the_end_of_an_answer_does_not_reach_whoever_has_its_connection_by_then(
    scope: CancelScope, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = Gate()
    others: list[Asked] = []

    def taken_over(answer: object) -> None:
        if not others:
            with CancelScope.child_of(None):
                others.append(Asked(model, STREAMED))
            others[0].first()
            scope.cancel("enough")

    monkeypatch.setattr("intermission.models.http.drain", taken_over)
    with ModelServer("one", stream("two ", gate, "three"), tls=server_context()) as server:
        model = ChatCompletions("small", base_url=server.url, ca_bundle=ca_bundle(tmp_path))
        with closing(model):
            with pytest.raises(Cancelled):
                list(model.generate(WHOLE))
            gate.open()
            assert others[0].ended() is None
            assert others[0].text == "two three"
            assert server.connections == 1


def requests_left() -> int:
    return sum(type(each) is requests.PreparedRequest for each in gc.get_objects())


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_call_that_ended_before_its_answer_leaves_its_request_to_no_garbage_collection(
    scope: CancelScope, how: str
) -> None:
    gc.collect()
    before = requests_left()
    gc.disable()
    try:
        with ModelServer(silent("answer")) as server:
            asked = Asked(ChatCompletions("small", base_url=server.url, max_retries=0), STREAMED)
            server.wait_held()
            if how == "cancelled":
                scope.cancel("enough")
            else:
                server.hang_up()
            assert isinstance(asked.ended(), Cancelled if how == "cancelled" else ModelError)
        asked.outcome = None
        assert requests_left() == before
    finally:
        gc.enable()
