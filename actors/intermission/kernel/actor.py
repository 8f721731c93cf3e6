"""`Actor`: a Pykka actor on a daemon thread of its own, whose crash stops nobody else."""

from typing import Any

import pykka

__all__ = ["Actor", "ActorCrashError"]


class ActorCrashError(Exception):
    """Stands for a `BaseException` that left an actor's handler; `__cause__` is that exception."""


class Actor(pykka.ThreadingActor):
    """Base of all actors: handles one message at a time, in the order in which they came.

    An actor's thread is a daemon: a process that ends without `Runner.close()` does not hang on it.
    """

    use_daemon_thread = True

    def _handle_receive(self, message: Any) -> Any:
        # Pykka takes a BaseException for the end of the process and stops every actor in it.
        try:
            return super()._handle_receive(message)
        except Exception:
            raise
        except BaseException as error:
            raise ActorCrashError(f"{type(error).__name__} in {self}") from error
