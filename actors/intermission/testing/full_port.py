"""`unaccepted`: a port where every connection is begun and none ever stands."""

import errno
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

__all__ = ["unaccepted"]

_FILLING = 4  # connections; more than the shortest queue takes


@contextmanager
def unaccepted() -> Generator[str]:
    """Give the base address of a service whose host answers no attempt to connect, as behind a firewall."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(_FILLING):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            code = waiting.connect_ex(full.getsockname())
            if code not in {0, errno.EINPROGRESS}:
                raise OSError(code, "the queue of a port could not be filled")
        yield f"http://127.0.0.1:{full.getsockname()[1]}/v1"
