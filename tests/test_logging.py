"""Log lines: what they never hold, whom they name, and that nobody is made to listen."""

import asyncio
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from apps import KEY, app_of
from hooks import app_plugged, plugin
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    LlmAgent,
    RunConfig,
    Runner,
    ToolContext,
)
from intermission.agents.effects import Steps
from intermission.config import ToolExecution
from intermission.models import ChatCompletions
from intermission.testing import FaultyLog, Gate, ModelServer, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog, StorageError
from loops import PATIENCE
from pools import until
from tree import module_name, modules, read, run

SECRETS = ("in-a-prompt", "in-an-instruction", "in-arguments", "in-a-result", "in-the-state", "in-an-answer")
OWN = "in-an-exception"  # of the user's code: only where the exception itself is


class OwnError(Exception):
    """An error of the user's code."""


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """All that is logged from INFO on, by whatever logger."""
    found: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Keeping(logging.INFO)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield found
    root.setLevel(before)
    root.removeHandler(handler)


def raising(*_: object, **__: object) -> None:
    """Raise an error of the user's."""
    raise OwnError(OWN)


def plain_tool(word: str, tool_context: ToolContext) -> dict[str, str]:
    """Return and keep secrets."""
    tool_context.state["kept"] = "in-the-state"
    return {"found": "in-a-result"}


def failing_tool(word: str) -> None:
    """Raise."""
    raising()


async def failing_async_tool(word: str) -> None:
    """Raise."""
    await asyncio.sleep(0)
    raising()


def unstorable_tool(word: str) -> object:
    """Return what nothing can be made of."""
    return {"in-a-result": iter(["in-a-result"])}


def wrong_state_tool(word: str, tool_context: ToolContext) -> str:
    """Keep what cannot be stored."""
    tool_context.state["x"] = {"y": {"in-the-state", "in-a-result"}}
    return "in-a-result"


def typed_tool(number: int) -> int:
    """Get arguments that do not fit."""
    return number


TOOLS = (plain_tool, failing_tool, failing_async_tool, unstorable_tool, wrong_state_tool, typed_tool)


@pytest.mark.parametrize("name", [*(tool.__name__ for tool in TOOLS), "unknown_tool"])
@pytest.mark.parametrize("streaming", [True, False])
def test_a_turn_of_tools_logs_neither_prompt_nor_arguments_nor_results(
    name: str, streaming: bool, lines: list[logging.LogRecord]
) -> None:
    args = {"number": "in-arguments"} if name == "typed_tool" else {"word": "in-arguments"}
    model = ScriptedModel(calls((name, args)), default=text("in-an", "-answer"))
    agent = LlmAgent("agent", model, instruction="in-an-instruction", tools=TOOLS, output_schema=int)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="in-a-prompt", config=RunConfig(streaming=streaming))
        run.result(PATIENCE)
    assert_clean(lines)
    expected = name not in {"plain_tool", "typed_tool", "unknown_tool"}
    assert any(line.levelno == logging.ERROR for line in lines) is expected


def test_an_error_of_a_service_that_quotes_the_prompt_is_not_logged(lines: list[logging.LogRecord]) -> None:
    quoting = "you said in-a-prompt and in-an-instruction"
    with ModelServer(error("service", quoting), error("validation", quoting)) as server:
        model = ChatCompletions("m", base_url=server.url, api_key="in-arguments")
        agent = LlmAgent("agent", model, instruction="in-an-instruction")
        with Runner(app_of(agent), log=MemoryEventLog()) as runner:
            assert runner.run(**KEY, message="in-a-prompt").result(PATIENCE).status == "failed"
    assert_clean(lines)
    assert [line.levelname for line in lines] == ["INFO"]  # of the second try


class Closing(BaseAgent):
    """Raises when it is left."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            yield context.event(self.name, content=Content.model("in-an-answer"))
            while True:
                yield context.event(self.name, content=Content.model("more"))
        finally:
            raising()


def test_each_error_of_user_code_that_no_run_takes_note_of_is_logged_with_its_run(
    lines: list[logging.LogRecord],
) -> None:
    invocations = [*hooks_that_raise(), closing_agent(), late_calls(), late_async_call(), refused_end()]
    swallowed = [line for line in lines if is_own(line)]
    assert {(line.levelno, getattr(line, "session", None)) for line in swallowed} == {(logging.ERROR, "s")}
    assert {getattr(line, "invocation", None) for line in swallowed} == set(invocations)
    found = {re.sub(r"e-[-0-9a-f]+", "…", line.getMessage()) for line in swallowed}
    assert found == {
        "raising raised",  # the hook of the plugin
        "a hook on a cancelled scope failed",
        "a subscriber raised",
        "agent closing raised while it was closed",
        "tool failing_late failed",
        "tool failing_late_async failed",
        "tool hooked raised after it was given up",
        "the end of run … could not be stored",
    }
    assert_clean(lines)


def is_own(line: logging.LogRecord) -> bool:
    """Whether a line is about an error of the user's."""
    return bool(line.exc_info) and isinstance(line.exc_info[1], OwnError)  # type: ignore[index]  # asked before


def hooks_that_raise() -> list[str | None]:
    """Hooks of a plugin, on a cancel, and of a subscriber."""

    def hooked(tool_context: ToolContext) -> None:
        tool_context.cancellation.on_cancel(raising)
        begun.set()
        tool_context.cancellation.wait()

    begun = threading.Event()
    agent = LlmAgent("agent", ScriptedModel(calls(("hooked", {}))), tools=[hooked])
    with Runner(app_plugged(agent, plugin(on_run_end=raising)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="in-a-prompt")
        run.subscribe(lambda _: None, on_finally=raising)
        assert begun.wait(PATIENCE)
        run.cancel(wait=True, timeout=PATIENCE)
        until(lambda: min(runner.metrics()["hooks_failed_total"].values()) == 1)
        return [run.invocation_id]


def closing_agent() -> str | None:
    """An agent that raises when its generator is closed."""
    with Runner(app_of(Closing("closing")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="in-a-prompt")
        for event in run:
            if event.author == "closing":
                break
        assert run.wait_terminated(PATIENCE)
        return run.invocation_id


def late_calls() -> str | None:
    """Calls that raise after they were given up."""
    gate = Gate()

    def failing_late() -> None:
        gate.wait()
        raising()

    def hooked() -> None:
        """Has a callback before it."""

    def before(tool: Any, args: Any, tool_context: ToolContext) -> None:
        if tool.name == "hooked":
            gate.wait()
            raising()

    model = ScriptedModel(calls(("failing_late", {}), ("hooked", {})))
    agent = LlmAgent("agent", model, tools=[failing_late, hooked], before_tool_callback=before)
    config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    with Runner(app_of(agent), log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="in-a-prompt").start()
        gate.arrived(2)
        run.cancel()
        run.result(PATIENCE)
        gate.open()
        assert run.wait_terminated(PATIENCE)
        return run.invocation_id


def late_async_call() -> str | None:
    """An async call that raises when it is cancelled."""
    waiting = threading.Event()

    async def failing_late_async() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            raising()

    agent = LlmAgent("agent", ScriptedModel(calls(("failing_late_async", {}))), tools=[failing_late_async])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="in-a-prompt").start()
        assert waiting.wait(PATIENCE)
        run.cancel()
        assert run.wait_terminated(PATIENCE)
        return run.invocation_id


def refused_end() -> str | None:
    """A run that an error of the user's fails, and whose end the log refuses."""

    class Failing(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield context.event(self.name, content=Content.model("in-an-answer"))
            raising()

    log = FaultyLog()
    with Runner(app_of(Failing("failing")), log=log) as runner:
        log.refuse("run_ended", StorageError("no room"))
        run = runner.run(**KEY, message="in-a-prompt")
        assert run.result(PATIENCE).status == "failed"
        return run.invocation_id


def assert_clean(lines: list[logging.LogRecord]) -> None:
    """Assert that the lines are ours, and hold no secret, those of the user's errors as such aside."""
    for line in lines:
        assert line.name.split(".")[0] == "intermission", line.name
        said = line.getMessage()
        fields = {key: value for key, value in vars(line).items() if key not in {"exc_info", "exc_text"}}
        for secret in (*SECRETS, OWN):
            assert secret not in said
            assert secret not in repr(fields)
        if line.exc_info and line.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(line.exc_info[1]))
            for secret in SECRETS:
                assert f"{secret}" not in re.sub(r"^\s+(File |raise |return ).*$", "", trace, flags=re.M)


def test_every_logger_is_one_of_intermission() -> None:
    made = re.compile(r"getLogger\(([^)]*)\)")
    names = {
        module_name(path) if given == "__name__" else given.strip('"')
        for path in modules()
        for given in made.findall(read(path))
    }
    assert {name.split(".")[0] for name in names} == {"intermission"}


def test_the_log_alone_writes_to_no_stream_either_unless_the_program_listens() -> None:
    program = "import logging, intermission_storage\nlogging.getLogger('intermission.storage.x').error('x')"
    finished = run(sys.executable, "-c", program)
    finished.check()
    assert finished.output == ""
