import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from races import at_once
from waiting import Attempt, until_still

ROUNDS = scale.rounds(50, 500)


@pytest.fixture
def scope() -> CancelScope:
    return CancelScope.child_of(None)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = stack.enter_context(closing(socket.create_connection(server.getsockname())))
        theirs = stack.enter_context(closing(server.accept()[0]))
    return ours, theirs


def two_of_a_pair(_: ExitStack) -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def tls_pair(stack: ExitStack) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """The same with TLS; nobody shows a certificate."""
    ours, theirs = pair(stack)
    served = Attempt(tls, theirs, server=True)
    client = tls(ours, server=False)
    server = served.ended()
    assert isinstance(server, ssl.SSLSocket)
    stack.enter_context(closing(client))
    stack.enter_context(closing(server))
    return client, server


def tls(sock: socket.socket, *, server: bool) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context.wrap_socket(sock, server_side=server)


def cancelled(attempt: Attempt, scope: CancelScope) -> bool:
    until_still(attempt.thread)
    scope.cancel()
    return isinstance(attempt.ended(), Cancelled)


@pytest.mark.parametrize("timeout", [None, 1000.0])
@pytest.mark.parametrize("kind", [pair, tls_pair, two_of_a_pair])
def test_a_cancel_ends_a_read_and_a_write_whatever_the_socket(
    kind: Callable[[ExitStack], tuple[socket.socket, socket.socket]],
    timeout: float | None,
    stack: ExitStack,
    scope: CancelScope,
) -> None:
    for write in (False, True):
        ours, theirs = kind(stack)
        ours.settimeout(timeout)
        scope = CancelScope.child_of(None)

        def use(ours: socket.socket = ours, scope: CancelScope = scope, write: bool = write) -> None:
            with blocking.sock_guard(ours, scope=scope):
                if write:
                    ours.sendall(b"x" * 50_000_000)
                else:
                    ours.recv(1)

        assert cancelled(Attempt(use), scope)
        ours.close()
        theirs.close()


def test_a_cancel_ends_an_accept(scope: CancelScope) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with blocking.sock_guard(server, scope=scope):
                server.accept()

        assert cancelled(Attempt(accept), scope)


def test_a_cancel_ends_a_connect_to_who_does_not_answer(stack: ExitStack, scope: CancelScope) -> None:
    server = stack.enter_context(socket.socket())
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    for _ in range(3):  # its queue is full now, and nobody is answered any more
        filler = stack.enter_context(socket.socket())
        filler.setblocking(False)
        filler.connect_ex(server.getsockname())
    client = stack.enter_context(socket.socket())

    def connect() -> None:
        with blocking.sock_guard(client, scope=scope):
            client.connect(server.getsockname())

    assert cancelled(Attempt(connect), scope)


def test_a_cancel_just_before_a_connect_ends_it_or_what_comes_after(scope: CancelScope) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:

        def connect() -> None:
            with blocking.sock_guard(client, scope=scope):
                scope.cancel()  # there is nothing to shut down yet
                client.connect(server.getsockname())
                client.recv(1)

        assert isinstance(Attempt(connect).ended(), Cancelled)


def test_a_cancel_ends_a_handshake(stack: ExitStack, scope: CancelScope) -> None:
    ours, _theirs = pair(stack)

    def shake_hands() -> None:
        with blocking.sock_guard(ours, scope=scope):
            tls(ours, server=False)

    assert cancelled(Attempt(shake_hands), scope)


def test_what_looks_like_the_end_of_a_stream_is_the_cancel(stack: ExitStack, scope: CancelScope) -> None:
    ours, theirs = pair(stack)
    theirs.sendall(b"half of ")
    read: list[bytes] = []

    def read_to_the_end() -> None:
        with blocking.sock_guard(ours, scope=scope), ours.makefile("rb") as stream:
            read.append(stream.read())

    assert cancelled(Attempt(read_to_the_end), scope)
    assert read == [b"half of "], "the library saw a clean end"


def test_an_error_that_a_library_makes_of_it_is_the_cancel_and_kept_as_its_context(
    stack: ExitStack, scope: CancelScope
) -> None:
    ours, _ = pair(stack)

    def use() -> None:
        with blocking.sock_guard(ours, scope=scope):
            if not ours.recv(1):
                raise LookupError("no answer")

    attempt = Attempt(use)
    assert cancelled(attempt, scope)
    assert isinstance(attempt.outcome, Cancelled)
    assert isinstance(attempt.outcome.__context__, LookupError)


def test_an_error_without_a_cancel_is_the_blocks_own(stack: ExitStack, scope: CancelScope) -> None:
    ours, _ = pair(stack)
    with pytest.raises(LookupError), blocking.sock_guard(ours, scope=scope):
        raise LookupError


def test_after_the_block_no_cancel_touches_the_socket(stack: ExitStack, scope: CancelScope) -> None:
    ours, theirs = pair(stack)
    for _ in range(20):
        with blocking.sock_guard(ours, scope=scope):
            ours.sendall(b"x")
    scope.cancel()
    ours.sendall(b"y")
    while (data := theirs.recv(100)) and not data.endswith(b"y"):
        pass
    assert data.endswith(b"y")


def test_a_result_that_meets_the_cancel_stands_if_the_socket_was_not_shut_down(stack: ExitStack) -> None:
    for _ in range(ROUNDS):
        ours, theirs = map(stack.enter_context, socket.socketpair())
        scope = CancelScope.child_of(None)

        def send(theirs: socket.socket = theirs) -> None:
            with suppress(BrokenPipeError):
                theirs.sendall(b"x")

        def read(ours: socket.socket = ours, scope: CancelScope = scope) -> bytes:
            with blocking.sock_guard(ours, scope=scope):
                return ours.recv(1)

        attempt = Attempt(read)
        at_once(send, scope.cancel)
        if isinstance(attempt.ended(), Cancelled):
            with pytest.raises(OSError, match="Broken pipe"):
                ours.sendall(b"y")
        else:
            assert attempt.outcome == b"x"
            ours.sendall(b"y")
            assert theirs.recv(1) == b"y"
        ours.close()
        theirs.close()


def test_a_cancel_shuts_down_one_connection_and_its_neighbours_live(stack: ExitStack) -> None:
    scopes = [CancelScope.child_of(None) for _ in range(3)]
    ends = [pair(stack) for _ in scopes]

    def read(number: int) -> bytes:
        with blocking.sock_guard(ends[number][0], scope=scopes[number]):
            return ends[number][0].recv(1)

    attempts = [Attempt(read, number) for number in range(3)]
    assert cancelled(attempts[1], scopes[1])
    for number in (0, 2):
        ends[number][1].sendall(b"x")
        assert attempts[number].ended() == b"x"


def test_a_default_time_limit_does_not_change_a_socket_without_one(
    stack: ExitStack, scope: CancelScope
) -> None:
    ours, _ = pair(stack)
    socket.setdefaulttimeout(1000)
    try:

        def read() -> None:
            with blocking.sock_guard(ours, scope=scope):
                ours.recv(1)

        assert cancelled(Attempt(read), scope)
    finally:
        socket.setdefaulttimeout(None)


def test_a_library_on_top_of_the_socket_ends(stack: ExitStack, scope: CancelScope) -> None:
    ours, theirs = pair(stack)
    connection = http.client.HTTPConnection("server")
    connection.sock = ours

    def ask() -> None:
        with blocking.sock_guard(ours, scope=scope):
            connection.request("GET", "/")
            connection.getresponse()

    attempt = Attempt(ask)
    assert theirs.recv(1) == b"G"
    assert cancelled(attempt, scope)


@pytest.mark.parametrize("scoped", [True, False])
def test_a_socket_of_datagrams_is_refused(scoped: bool, scope: CancelScope) -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        pytest.raises(TypeError, match="stream sockets"),
        blocking.sock_guard(sock, scope=scope if scoped else None),
    ):
        raise AssertionError("the block has begun")


def test_without_a_scope_it_changes_nothing(stack: ExitStack) -> None:
    ours, theirs = pair(stack)
    theirs.sendall(b"x")
    with blocking.sock_guard(ours):
        assert ours.recv(1) == b"x"
