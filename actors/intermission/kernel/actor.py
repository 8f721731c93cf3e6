"""`Actor`: a Pykka actor on a daemon thread of its own, whose crash stops nobody else."""

from typing import Any

import pykka

__all__ = ["Actor", "ActorCrashError", "text_of"]


class ActorCrashError(Exception):
    """Stands for a `BaseException` that left an actor's handler; `__cause__` is that exception."""

    @classmethod
    def of(cls, where: str, error: BaseException) -> "ActorCrashError":
        """Return the error that stands for one raised by `where`."""
        crash = cls(f"{where} raised {text_of(error)}")
        crash.__cause__ = error
        return crash


def text_of(error: BaseException) -> str:
    """Return an exception's type and text, for a log or a record, even if it cannot tell its text itself."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - somebody's __str__ must not decide whether a run ends
        return f"{type(error).__name__} (its text cannot be read)"
    # It can be of any size, and hold half a surrogate pair.
    return f"{type(error).__name__}: {text[:2000]}".encode("utf-8", "replace").decode()


class Actor(pykka.ThreadingActor):
    """Base of all actors: handles one message at a time, in the order in which they came.

    An actor's thread is a daemon: a process that ends without `Runner.close()` does not hang on it. It is
    not in Pykka's `ActorRegistry`: what others in the process do to all actors of Pykka is not meant for it.
    """

    use_daemon_thread = True

    def _start_actor_loop(self) -> None:
        pykka.ActorRegistry.unregister(self.actor_ref)
        super()._start_actor_loop()

    def _handle_receive(self, message: Any) -> Any:
        # Pykka takes a BaseException for the end of the process and stops every actor in it.
        try:
            return super()._handle_receive(message)
        except Exception:
            raise
        except BaseException as error:
            raise ActorCrashError.of(str(self), error) from error
