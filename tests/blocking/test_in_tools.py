import socket
import threading
from contextlib import ExitStack
from queue import Queue

import pytest

from apps import KEY, app_with
from intermission import CancelScope, Runner, ToolContext, blocking
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from waiting import WAITS, Wait, until_still


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.name)
def test_a_tool_that_waits_ends_with_its_run_and_nothing_of_it_is_left(wait: Wait) -> None:
    threads: list[threading.Thread] = []
    begun = threading.Event()

    with ExitStack() as stack:
        waiter = wait.begin(stack)

        def look_up() -> str:
            """Look something up."""
            threads.append(threading.current_thread())
            begun.set()
            waiter()
            return "never"

        model = ScriptedModel(calls(("look_up", {})))
        with Runner(app_with(model, look_up), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hello").start()
            assert begun.wait(30)
            until_still(*threads)
            assert run.cancel("enough", wait=True, timeout=30).accepted
            assert run.result(30).status == "cancelled"
            assert runner.residual() == []


def test_a_call_that_is_cancelled_ends_its_wait_and_the_run_goes_on() -> None:
    items: Queue[str] = Queue()
    threads: list[threading.Thread] = []
    begun = threading.Event()
    ids: list[str] = []

    def look_up(tool_context: ToolContext) -> str:
        """Look something up."""
        ids.append(tool_context.function_call_id)
        threads.append(threading.current_thread())
        begun.set()
        return blocking.get(items)

    model = ScriptedModel(calls(("look_up", {})), "Never mind.")
    with Runner(app_with(model, look_up), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hello").start()
        assert begun.wait(30)
        until_still(*threads)
        run.cancel_call(ids[0], "too slow")
        assert run.answer(30) == "Never mind."
        assert run.wait_terminated(30)


def test_a_thread_that_a_tool_starts_is_given_the_scope() -> None:
    items: Queue[str] = Queue()
    begun, ended = threading.Event(), threading.Event()

    def look_up(tool_context: ToolContext) -> str:
        """Look something up."""

        def helper() -> None:
            assert CancelScope.current() is None
            begun.set()
            try:
                blocking.get(items, scope=tool_context.cancellation)
            finally:
                ended.set()

        thread = threading.Thread(target=helper)
        thread.start()
        blocking.join(thread)
        return "never"

    model = ScriptedModel(calls(("look_up", {})))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", print)  # the helper lets `Cancelled` pass
        with Runner(app_with(model, look_up), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hello").start()
            assert begun.wait(30)
            run.cancel()
            assert run.wait_terminated(30)
            assert ended.wait(30)


def test_closing_a_runner_ends_the_waits_of_its_tools() -> None:
    ours, theirs = socket.socketpair()
    begun = threading.Event()

    def look_up() -> str:
        """Look something up."""
        with blocking.sock_guard(ours):
            begun.set()
            return ours.recv(1).decode()

    with ours, theirs:
        runner = Runner(app_with(ScriptedModel(calls(("look_up", {}))), look_up), log=MemoryEventLog())
        run = runner.run(**KEY, message="hello").start()
        assert begun.wait(30)
        runner.close(grace=0, runs="cancel")
        assert run.result(30).status == "cancelled"
        assert run.wait_terminated(30)


def test_a_tool_that_computes_and_looks_now_and_then_ends_with_its_run() -> None:
    begun = threading.Event()

    def count(tool_context: ToolContext) -> int:
        """Count for ever."""
        number = 0
        while True:
            number += 1
            if number % 1000 == 0:
                tool_context.cancellation.check()
                begun.set()

    model = ScriptedModel(calls(("count", {})))
    with Runner(app_with(model, count), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hello").start()
        assert begun.wait(30)
        run.cancel()
        assert run.wait_terminated(30)
