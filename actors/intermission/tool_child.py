"""The program of a child that runs tools with `isolation="process"`: started by `isolation.ToolProcess`.

It imports no more of Intermission than the tool does, for that would take longer than most tools: a tool that
neither takes the call's context nor imports the runtime does without it. What is said goes over a socket, as
msgpack behind its length, so whatever the tool prints is its own affair:

    parent   the setting, which is no msgpack; calls; at most once [reason, source]: the call is cancelled
    child    one of these for each call; `clean` says whether it can take another

        value      response, clean
        raised     type, message, traceback, clean
        arguments  what is wrong with them, for the model, clean
        result     why it cannot be passed on, for the model, clean
        cancelled  reason, source, clean
        missing    why there is no such function to be called, clean

The function runs on the main thread. A cancel sets its scope, from the thread that listens; then comes a
SIGTERM, which raises `Cancelled` in the function as Ctrl-C would raise `KeyboardInterrupt`, once, and not
while one is on its way already. The parent kills the group when its patience is over.
"""

import fcntl
import importlib
import math
import os
import select
import signal
import sys
import threading
import types
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn

__all__ = ["Ended", "Program", "Refusal"]

_FEW_LEVELS = 50  # of lists and dicts; for more, the runtime's own check is imported
_MANY_BYTES = 2**20  # likewise
_HALF = 2**15  # characters of the beginning of an error's text, and of its end; what is between is left out
_PLAIN = frozenset({str, int, bool, type(None)})
_HEARD = 0.1  # seconds for the listener to hear why a SIGTERM has come
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: who has lost its parent becomes a child of this process
_LOADING = "intermission_is_loading"  # see `isolation.setting.LOADING`, which would have to be imported


class Ended(BaseException):
    """Stands for `Cancelled` in a function that has not imported the runtime."""


class Refusal(Exception):
    """The answer is no result of the function.

    Attributes:
        kind: Of the answer.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Program:
    """One call after another, until the parent hangs up or cancels one.

    Args:
        connection: The descriptor of the socket to the parent.
    """

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._inode = os.fstat(connection).st_ino
        self._is_copy = False
        self._calls: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._heard = threading.Event()
        self._cause: tuple[str, str | None] | None = None  # reason and source
        self._scope: Any = None
        self._interruptible = False
        self._is_at_work = False
        self._main: tuple[str, str] = ("", "")
        self._ordinary: tuple[object, ...] = ()

    def run(self) -> None:
        """Serve until the parent hangs up."""
        signal.signal(signal.SIGTERM, self._interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the parent may have it blocked
        os.register_at_fork(after_in_child=self._copied)
        setting = self._read()
        if setting is None:
            return
        kind, place, count, *rest = (os.fsdecode(part) for part in setting.split(b"\0"))
        self._main = kind, place
        sys.argv[:], sys.path[:] = rest[: int(count)], rest[int(count) :]
        listener = threading.Thread(target=self._listen, name="intermission-listener", daemon=True)
        listener.start()
        self._ordinary = self._surroundings()
        while self._cause is None and (call := self._calls.get()) is not None:
            self._is_at_work = True
            answer = self._answer(call)
            if self._is_copy:
                return  # to end as any program does
            self._is_at_work = False
            _flush()
            self._say([*answer, self._cause is None and self._surroundings() == self._ordinary])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _answer(self, call: dict[str, Any]) -> list[Any]:
        try:
            try:
                self._interruptible = True
                return self._outcome(call)
            finally:
                self._interruptible = False
        except BaseException as error:
            if self._is_copy:
                raise
            return self._told(error)

    def _outcome(self, call: dict[str, Any]) -> list[Any]:
        function = self._find(call["module"], call["name"])
        args: dict[str, Any] = call["args"]
        if call["check"]:
            from intermission.tools.in_child import checked

            args = checked(function, args)
        if call["context"] is None and "intermission.kernel.scope" not in sys.modules:
            return ["value", _response(function(**args))]

        from intermission.kernel.scope import CancelScope
        from intermission.tools.in_child import context_of

        with CancelScope.child_of(None) as scope:
            self._scope = scope
            if self._cause is not None:
                scope.cancel(self._cause[0], source=self._cause[1])
            scope.check()
            if call["context"] is not None:
                args[call["context_name"]] = context_of(call["context"], scope)
            return ["value", _response(function(**args))]

    def _told(self, error: BaseException) -> list[Any]:
        if isinstance(error, Refusal):
            return [error.kind, str(error)]
        where, name = type(error).__module__, type(error).__qualname__
        if isinstance(error, Ended) or (where, name) == ("intermission.kernel.cancel_hooks", "Cancelled"):
            return ["cancelled", *error.args]
        if where == "intermission.tools.base":
            kinds = {"ToolArgumentError": "arguments", "ToolResultError": "result"}
            if name in kinds:
                return [kinds[name], str(error)]
        import traceback

        try:
            message = str(error)
        except Exception as worse:  # noqa: BLE001 - an error that cannot be shown is one all the same
            message = f"<its text cannot be had: {type(worse).__name__}>"
        kind = name if where == "builtins" else f"{where}.{name}"
        return ["raised", kind, _printable(message), _printable("".join(traceback.format_exception(error)))]

    # How a function is found.

    def _find(self, module: str, name: str) -> Any:
        found: Any = getattr(self._module(module), name, None)
        if found is None:
            raise Refusal("missing", f"module {module!r} has no {name!r} in the tool's process")
        function = found if isinstance(found, types.FunctionType) else getattr(found, "func", None)
        if not callable(function):
            raise Refusal(
                "missing", f"{name!r} of module {module!r} is of type {type(found).__name__}, and no function"
            )
        return function

    def _module(self, name: str) -> object:
        loaded = sys.modules.get("__mp_main__" if name == "__main__" else name)
        if loaded is not None:
            return loaded
        kind, place = self._main
        what = place if name == "__main__" else name
        main = sys.modules["__main__"]
        setattr(main, _LOADING, what)
        try:
            return self._load_main(kind, place) if name == "__main__" else importlib.import_module(name)
        except Exception as error:
            import traceback

            traceback.print_exc()
            why = f"{type(error).__name__}: {_printable(str(error))}"
            raise Refusal("missing", f"{what} cannot be loaded in the tool's process: {why}") from error
        except SystemExit as error:
            why = f"{what} ends its process while it is loaded ({error.code!r})"
            advice = "put what it does when it is run under `if __name__ == '__main__':`"
            raise Refusal("missing", f"{why}: {advice}") from error
        finally:
            delattr(main, _LOADING)
            self._ordinary = self._surroundings()  # a module may start threads, and so on

    def _load_main(self, kind: str, place: str) -> types.ModuleType:
        """Load the parent's main module under the name that `multiprocessing` gives it."""
        import runpy

        if kind == "module":
            content = runpy.run_module(place, run_name="__mp_main__", alter_sys=True)
        else:
            content = runpy.run_path(place, run_name="__mp_main__")
        main = types.ModuleType("__mp_main__")
        main.__dict__.update(content)
        sys.modules["__mp_main__"] = sys.modules["__main__"] = main
        return main

    # What comes from the parent, and goes to it.

    def _listen(self) -> None:
        while (message := self._read()) is not None:
            import msgpack  # not above: the parent says where everything is that is not Python's own

            said: Any = msgpack.unpackb(message)
            given: object = said
            if isinstance(given, list):
                self._cancel(*said)
            else:
                self._calls.put(said)
        if self._is_at_work:
            _end_group()  # the parent is gone, and its other pipe did not tell the system
        self._calls.put(None)

    def _cancel(self, reason: str, source: str | None) -> None:
        self._cause = reason, source
        if self._scope is not None:
            self._scope.cancel(reason, source=source)
        self._heard.set()

    def _interrupted(self, _number: int, _frame: types.FrameType | None) -> None:
        if not self._is_at_work:
            sys.exit(0)
        if self._cause is None and not self._heard.wait(_HEARD):
            self._cancel("its process was told to end, by SIGTERM", None)
        assert self._cause is not None
        if not self._interruptible:
            return
        scope = self._scope
        if scope is not None and not scope.cancelled:
            # A shield keeps it away for now.
            scope.on_cancel_now(_interrupt_again)
            return
        cancelled: Any = getattr(sys.modules.get("intermission.kernel.cancel_hooks"), "Cancelled", None)
        handled: BaseException | None = sys.exc_info()[1]
        while handled is not None:
            if isinstance(handled, Ended) or (cancelled is not None and isinstance(handled, cancelled)):
                return  # it is on its way, and what cleans up behind it is not disturbed
            handled = handled.__context__
        self._interruptible = False
        raise (Ended if cancelled is None else cancelled)(*self._cause)

    def _read(self) -> bytes | None:
        header = self._receive(4)
        return None if header is None else self._receive(int.from_bytes(header, "big"))

    def _receive(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            read = b""
            with suppress(OSError):
                read = os.read(self._connection, size - len(data))
            if not read:
                return None
            data += read
        return bytes(data)

    def _say(self, answer: list[Any]) -> None:
        message = _packed(answer)
        rest = memoryview(len(message).to_bytes(4, "big") + message)
        try:
            if os.fstat(self._connection).st_ino != self._inode:  # a file of the tool has its number now
                os._exit(1)
            while rest:
                rest = rest[os.write(self._connection, rest) :]
        except OSError:  # nobody is there to hear it, or the tool has closed it
            os._exit(1)

    def _copied(self) -> None:
        """Go on as a process that the tool has forked, which has nothing to say to the parent."""
        self._is_copy = True
        if signal.getsignal(signal.SIGTERM) == self._interrupted:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _surroundings(self) -> tuple[object, ...]:
        """Return what a call must leave as it was, if another is to come after it."""
        threads = frozenset(
            thread for thread in threading.enumerate() if not thread.name.startswith("intermission-")
        )
        alarm = any(signal.getitimer(signal.ITIMER_REAL))
        handler = signal.getsignal(signal.SIGTERM) == self._interrupted
        return threads, _children(), _directory(), dict(os.environ), alarm, handler


def _response(result: Any) -> dict[str, Any]:
    if hasattr(result, "__await__"):
        with suppress(AttributeError):
            result.close()
        raise Refusal("result", "it is an awaitable; await it in the tool, by asyncio.run(...) for example")
    if result is None:
        return {}
    given: object = result  # narrowed, the type checkers would not agree on what is in it
    response: dict[str, Any] = result if type(given) is dict else {"result": result}
    try:
        if _is_plain(response, 0) and len(_packed(response)) <= _MANY_BYTES:
            return response
    except (TypeError, ValueError, OverflowError):
        pass
    from intermission.tools.in_child import response_of

    return response_of(result)


def _is_plain(value: Any, depth: int) -> bool:
    given: object = value
    kind = type(given)
    if kind in _PLAIN:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth > _FEW_LEVELS:
        return False
    if kind is list:
        return all(_is_plain(item, depth + 1) for item in value)
    return kind is dict and all(
        type(key) is str and _is_plain(item, depth + 1) for key, item in value.items()
    )


def _packed(value: object) -> bytes:
    import msgpack  # as above

    return msgpack.packb(value, strict_types=True)


def _printable(text: str) -> str:
    if len(text) > 2 * _HALF:
        text = f"{text[:_HALF]} […] {text[-_HALF:]}"
    return text.encode(errors="backslashreplace").decode()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _interrupt_again() -> None:
    from intermission.kernel.timer import default_timer

    # By another thread: a hook of a scope is no place to raise in.
    default_timer().call_soon(os.kill, os.getpid(), signal.SIGTERM)


def _children() -> tuple[str, ...]:
    found = list[str]()
    with suppress(OSError):  # not on this system
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
                found += file.read().split()
    return tuple(sorted(found))


def _directory() -> str | None:
    with suppress(OSError):  # somebody has deleted it
        return os.getcwd()
    return None


def _end_group() -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _end_with(life: int) -> None:
    """Have the system kill this group when nobody holds the other end of a pipe any more."""
    with suppress(OSError, AttributeError):  # not on this system; then it is only the listener who does
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | fcntl.FASYNC)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):  # it was too late for that
        _end_group()


def _collect_orphans() -> None:
    with suppress(Exception):  # then who left the group and lost its parent is not found
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    _connection, _life = int(sys.argv[1]), int(sys.argv[2])
    for _number in (_connection, _life):
        os.set_inheritable(_number, False)
    _end_with(_life)
    _collect_orphans()
    Program(_connection).run()
