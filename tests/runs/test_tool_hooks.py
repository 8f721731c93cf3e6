"""Who is asked about a tool call: plugins' hooks and agents' callbacks, plain and async."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apps import APP, KEY, app_of
from intermission import (
    AgentContext,
    App,
    BaseAgent,
    Cancelled,
    Content,
    HookResultError,
    LlmAgent,
    Plugin,
    RunConfig,
    Runner,
    RunStatus,
    UnrequestedCancelError,
)
from intermission.agents.callbacks import Callbacks
from intermission.agents.effects import Steps, call_tools
from intermission.config import ToolExecution
from intermission.content import FunctionCall
from intermission.testing import ScriptedModel, calls
from intermission.tools import FunctionTool, ToolArgumentError, ToolResultError, UnknownToolError
from intermission_storage import MemoryEventLog
from turns import PATIENCE, answers, responses

FAILED = {"status": "error", "message": "The tool failed."}
KINDS = ["plain", "async"]
WAYS = ["raises", "returns text", "returns nonsense", "cancels itself", "cancels itself by a scope"]


def look(where: str) -> str:
    """Look."""
    return where


async def look_later(where: str) -> str:
    """Look later."""
    await asyncio.sleep(0)
    return where


def fail(where: str) -> str:
    """Fail."""
    raise ValueError(where)


async def fail_later(where: str) -> str:
    """Fail later."""
    await asyncio.sleep(0)
    raise ValueError(where)


def told(
    *tools: Callable[..., Any],
    args: Any = None,
    plugins: tuple[Plugin, ...] = (),
    name: str = "",
    before: Callbacks = None,
    after: Callbacks = None,
    failed: Callbacks = None,
) -> dict[str, Any]:
    """What a model is told of one call of the first tool, which has these callbacks and plugins."""
    model = ScriptedModel(
        calls((name or tools[0].__name__, {"where": "here"} if args is None else args)), "done"
    )
    agent = LlmAgent(
        "agent",
        model,
        tools=tools,
        before_tool_callback=before,
        after_tool_callback=after,
        on_tool_error_callback=failed,
    )
    with Runner(App(APP, agent, plugins=plugins), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
        assert runner.residual() == []
    (response,) = responses(model)
    return response


def of_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A callback that does what a function does, plain or async."""
    if kind == "plain":
        return function

    async def later(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    return later


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", [look, look_later])
def test_what_a_callback_before_changes_the_tool_and_the_callback_after_see(
    kind: str, tool: Callable[..., Any]
) -> None:
    seen: list[Any] = []

    def before(tool: FunctionTool, args: dict[str, Any], context: Any) -> None:
        seen.append((tool.name, dict(args), context.function_call_id))
        args["where"] = "there"

    def after(tool: FunctionTool, args: dict[str, Any], context: Any, response: dict[str, Any]) -> None:
        seen.append((tool.name, dict(args), context.function_call_id, response))

    assert told(tool, before=of_kind(kind, before), after=of_kind(kind, after)) == {"result": "there"}
    (name, args, call_id), (*same, response) = seen
    assert (name, args) == (tool.__name__, {"where": "here"})
    assert same == [name, {"where": "there"}, call_id]
    assert response == {"result": "there"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", [look, look_later])
def test_a_dict_of_a_callback_before_takes_the_calls_place_and_the_callback_after_sees_it(
    kind: str, tool: Callable[..., Any]
) -> None:
    seen: list[Any] = []
    ran: list[str] = []

    def before(tool: Any, args: Any, context: Any) -> dict[str, Any]:
        return {"cached": 1}

    def after(tool: Any, args: Any, context: Any, response: Any) -> None:
        seen.append(response)

    def never(where: str) -> None:
        ran.append(where)

    for one in (tool, never):
        assert told(one, before=of_kind(kind, before), after=of_kind(kind, after)) == {"cached": 1}
    assert seen == [{"cached": 1}] * 2
    assert ran == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", [look, look_later])
def test_a_dict_of_a_callback_after_takes_the_results_place(kind: str, tool: Callable[..., Any]) -> None:
    def after(tool: Any, args: Any, context: Any, response: Any) -> dict[str, Any]:
        return {"was": response["result"]}

    assert told(tool, after=of_kind(kind, after)) == {"was": "here"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", [fail, fail_later])
def test_a_dict_of_a_callback_on_errors_takes_the_errors_place_and_the_callback_after_sees_it(
    kind: str, tool: Callable[..., Any]
) -> None:
    seen: list[Any] = []

    def failed(tool: Any, args: Any, context: Any, error: Exception) -> dict[str, Any]:
        seen.append((args, type(error), str(error)))
        return {"sorry": 1}

    def after(tool: Any, args: Any, context: Any, response: Any) -> None:
        seen.append(response)

    assert told(tool, failed=of_kind(kind, failed), after=of_kind(kind, after)) == {"sorry": 1}
    assert seen == [({"where": "here"}, ValueError, "here"), {"sorry": 1}]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_that_no_callback_answers_is_what_it_was_and_nobody_is_asked_after_it(kind: str) -> None:
    asked: list[str] = []

    def failed(tool: Any, args: Any, context: Any, error: Exception) -> None:
        asked.append("failed")

    def after(*args: Any) -> None:
        asked.append("after")

    assert told(fail, failed=[of_kind(kind, failed)] * 2, after=after) == FAILED
    assert asked == ["failed", "failed"]


class Notes(Plugin):
    """Writes down what it is asked about, and gives what it has in place of it."""

    def __init__(self, name: str, notes: list[Any], **gives: dict[str, Any]) -> None:
        super().__init__(name)
        self.notes = notes
        self.gives = gives

    def before_tool_callback(self, **asked: Any) -> Any:
        """See `Plugin`."""
        self._note("before", asked, asked["tool_context"].session_id)
        return self.gives.get("before")

    async def after_tool_callback(self, **asked: Any) -> Any:
        """See `Plugin`."""
        await asyncio.sleep(0)
        self._note("after", asked, asked["result"])
        return self.gives.get("after")

    def on_tool_error_callback(self, **asked: Any) -> Any:
        """See `Plugin`."""
        self._note("error", asked, type(asked["error"]))
        return self.gives.get("error")

    def _note(self, what: str, asked: dict[str, Any], more: Any) -> None:
        assert asked["tool_context"].function_call_id
        self.notes.append((self.name, what, asked["tool"].name, dict(asked["tool_args"]), more))


def test_plugins_are_asked_first_in_their_order_then_the_agents_callbacks() -> None:
    notes: list[Any] = []

    def before(*args: Any) -> None:
        notes.append("mine")

    def after(*args: Any) -> None:
        notes.append("mine")

    plugins = (Notes("one", notes), Notes("two", notes))
    assert told(look, plugins=plugins, before=[before, before], after=after) == {"result": "here"}
    args = {"where": "here"}
    assert notes == [
        *[(name, "before", "look", args, "s") for name in ("one", "two")],
        *["mine", "mine"],
        *[(name, "after", "look", args, {"result": "here"}) for name in ("one", "two")],
        "mine",
    ]


def test_who_has_an_answer_is_the_last_that_is_asked() -> None:
    notes: list[Any] = []

    def never(*args: Any) -> None:
        notes.append("never")

    plugins = (
        Notes("one", notes, before={"a": 1}, after={"b": 2}),
        Notes("two", notes),
    )
    assert told(look, plugins=plugins, before=never, after=never) == {"b": 2}
    assert [note[:2] for note in notes] == [("one", "before"), ("one", "after")]

    notes.clear()
    plugins = (Notes("one", notes, error={"c": 3}), Notes("two", notes))
    assert told(fail, plugins=plugins, failed=never) == {"c": 3}
    assert [note[:2] for note in notes if note[1] == "error"] == [("one", "error")]


@pytest.mark.parametrize(
    ("name", "args", "tool", "error"),
    [
        ("smell", {"where": "here"}, "smell", UnknownToolError),
        ("look", {}, "look", ToolArgumentError),
        ("look", "nonsense", "look", ToolArgumentError),
        ("odd", {}, "odd", ToolResultError),
    ],
)
def test_hooks_are_asked_about_calls_that_no_tool_can_take(
    name: str, args: Any, tool: str, error: type[Exception]
) -> None:
    def odd() -> Any:
        return object()

    notes: list[Any] = []
    response = told(look, odd, name=name, args=args, plugins=(Notes("one", notes),))
    assert response["status"] == "error"
    given: dict[str, Any] = {} if isinstance(args, str) else args
    assert notes == [("one", "before", tool, given, "s"), ("one", "error", tool, given, error)]
    notes.clear()
    assert told(look, odd, name=name, args=args, plugins=(Notes("one", notes, error={"a": 1}),)) == {"a": 1}


def test_what_a_tool_does_to_its_arguments_the_callback_after_does_not_see() -> None:
    seen: list[Any] = []

    def take(items: Any) -> int:
        items.clear()
        return 0

    def after(tool: Any, args: Any, context: Any, response: Any) -> None:
        seen.append(args)

    told(take, args={"items": ["box"]}, after=after)

    assert seen == [{"items": ["box"]}]


def test_a_callback_after_may_change_the_response_in_place() -> None:
    def after(tool: Any, args: Any, context: Any, response: Any) -> None:
        response["seen"] = True

    assert told(look, after=after) == {"result": "here", "seen": True}


def loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """The loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@pytest.mark.parametrize("tool", [look, look_later])
def test_plain_hooks_and_tools_never_run_on_a_loop_and_async_ones_always_do(tool: Any) -> None:
    where: dict[str, list[Any]] = {"plain": [], "async": [], "tool": []}

    def plain(*args: Any) -> None:
        where["plain"].append(loop_of_this_thread())

    async def later(*args: Any) -> None:
        where["async"].append(loop_of_this_thread())

    def blocking(where_to: str) -> None:
        where["tool"].append(loop_of_this_thread())

    for hooks in ([plain, later, plain], [later, plain]):
        told(tool, before=hooks, after=hooks)
        told(blocking, args={"where_to": "here"}, before=hooks, after=hooks)

    assert set(where["plain"]) == {None}
    assert len(where["plain"]) == 12
    assert None not in where["async"]
    assert where["tool"] == [None, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["before", "after", "failed"])
@pytest.mark.parametrize("what", WAYS)
def test_a_hook_that_fails_fails_the_run_and_the_other_calls_are_answered(
    kind: str, which: str, what: str
) -> None:
    def hook(tool: FunctionTool, *args: Any) -> Any:
        if tool.name == "look":
            return None
        if what == "raises":
            raise LookupError("no such hook")
        if what == "cancels itself":
            raise asyncio.CancelledError
        if what == "cancels itself by a scope":
            raise Cancelled
        return "text" if what == "returns text" else {"hook": object()}

    keyword = "on_tool_error_callback" if which == "failed" else f"{which}_tool_callback"
    callbacks: dict[str, Any] = {keyword: of_kind(kind, hook)}
    broken = fail if which == "failed" else look_later
    model = ScriptedModel(
        calls(*[(one.__name__, {"where": "here"}) for one in (look, broken, look)]), "again"
    )
    agent = LlmAgent("agent", model, tools=[look, broken], **callbacks)
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
    with Runner(app_of(agent), log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="hi")
        expected = {
            "raises": LookupError,
            "returns text": HookResultError,
            "returns nonsense": ToolResultError,
            "cancels itself": UnrequestedCancelError,
            "cancels itself by a scope": UnrequestedCancelError,
        }[what]
        with pytest.raises(expected, match=r"hook|later"):
            run.answer(PATIENCE)
        assert run.status is RunStatus.FAILED
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "again"

    first, second, third = answers(run.result())
    assert first == {"result": "here"}
    assert (second["status"], second["outcome"]) == ("error", "unknown")
    assert third["outcome"] == "not_started"


def test_of_an_agent_of_ones_own_only_plugins_are_asked_unless_it_names_who_else() -> None:
    notes: list[Any] = []

    def before(tool: Any, args: Any, context: Any) -> None:
        notes.append("mine")

    inner = LlmAgent("inner", ScriptedModel(), before_tool_callback=before)

    class Own(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            tools = {"look": FunctionTool(look)}
            for number, agent in enumerate((None, inner)):
                call = FunctionCall(f"c{number}", "look", {"where": "here"})
                yield context.event(self.name, content=Content.model(calls=[call]))
                yield from call_tools([call], tools, agent)

    app = App(APP, Own("own"), plugins=[Notes("one", notes)])
    with Runner(app, log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").result(PATIENCE).status is RunStatus.COMPLETED

    assert [note if note == "mine" else note[1] for note in notes] == [
        *["before", "after"],
        *["before", "mine", "after"],
    ]
