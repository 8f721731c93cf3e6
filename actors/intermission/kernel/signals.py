"""`SignalClose`: SIGINT and SIGTERM that hand in a close, and do nothing else inside the handler."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Any

__all__ = ["SignalClose"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalClose:
    """Closes something at the first signal, on a thread of its own; a second signal ends the process at once.

    When the close is done, the signal takes the course that it had before: KeyboardInterrupt in the main
    thread for SIGINT, the end of the process for SIGTERM. In a forked child it takes that course at once.

    Args:
        close: What is called, once. Its end is told by `finish`, whoever has called it.

    Raises:
        ValueError: This is not the main thread, the only one that can install handlers.
    """

    def __init__(self, close: Callable[[], object]) -> None:
        self._close = close
        self._pid = os.getpid()
        # Its put takes no lock that the main thread could hold when the handler comes.
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._first: int | None = None
        self._over = False
        self._before: dict[int, Any] = {}
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        self._helper = threading.Thread(target=self._wait, name="intermission-signals", daemon=True)
        self._helper.start()

    def finish(self) -> None:
        """End the helper, and take the handlers away if this is the main thread."""
        self._over = True
        self._asked.put(None)
        if threading.current_thread() is threading.main_thread():
            self._restore()
        if threading.current_thread() is not self._helper:
            self._helper.join(5.0)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        ours = os.getpid() == self._pid
        if self._first is None and not self._over and ours:
            self._first = number
            self._asked.put(number)
            return
        over = self._over or not ours
        self._restore()
        if not over:
            signal.signal(number, signal.SIG_DFL)  # the second one: nobody waits for the close any more
        os.kill(os.getpid(), number)
        if os.getpid() == 1 and signal.getsignal(number) == signal.SIG_DFL:
            # The system does not let its first process, as in a container, die of a signal.
            os._exit(128 + number)

    def _wait(self) -> None:
        number = self._asked.get()
        if number is None:
            return
        try:
            self._close()
        finally:
            self._over = True
            with contextlib.suppress(OSError):
                os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if before is None else before)
