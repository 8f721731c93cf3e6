"""Code that takes the signal of a cancel and goes on as if nothing had happened: the run's slot decides."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps import KEY, app_with, records
from hooks import app_plugged, plugin
from intermission import App, CancelScope, Content, LlmAgent, Runner, RunStatus
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE

SAID = "all is well"


def sleep_for_ever() -> None:
    """Sleep in the current scope."""
    scope = CancelScope.current()
    assert scope is not None
    scope.sleep(3600)


class Swallowing:
    """Bodies that say when they begin, are cancelled, and say that all is well."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def catches(self) -> str:
        """Catch everything."""
        self.begun.set()
        try:
            sleep_for_ever()
        except BaseException:  # noqa: BLE001 - it is what must do no harm
            return SAID
        return "never"

    def returns_in_finally(self) -> str:
        """Return in a `finally`, which drops the exception."""
        self.begun.set()
        try:
            sleep_for_ever()
        finally:
            return SAID  # noqa: B012 - it is what must do no harm

    def goes_on(self) -> str:
        """Catch everything, again and again, and go on."""
        self.begun.set()
        for _ in range(50):
            try:
                sleep_for_ever()
            except BaseException:  # noqa: BLE001 - it is what must do no harm
                continue
        return SAID

    def makes_an_error_of_it(self) -> str:
        """Turn it into an error like any other."""
        self.begun.set()
        try:
            sleep_for_ever()
        except BaseException as error:
            raise ValueError(SAID) from error
        return "never"

    async def catches_on_the_loop(self) -> str:
        """Catch everything."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException:  # noqa: BLE001 - it is what must do no harm
            return SAID
        return "never"

    async def returns_in_finally_on_the_loop(self) -> str:
        """Return in a `finally`."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            return SAID  # noqa: B012 - it is what must do no harm

    async def goes_on_on_the_loop(self) -> str:
        """Take the cancel of the task back, and go on for some turns of the loop."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        for _ in range(50):
            await asyncio.sleep(0)
        return SAID

    async def makes_an_error_of_it_on_the_loop(self) -> str:
        """Turn it into an error like any other."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            raise ValueError(SAID) from error
        return "never"


class Stubborn:
    """A model that takes the cancel of its call for a reason to answer; it answers "ok" later on."""

    name = "stubborn"

    def __init__(self, body: Callable[[], str]) -> None:
        self.body = body
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model`."""
        self.requests.append(request)
        yield ModelResponse(content=Content.model(self.body() if len(self.requests) == 1 else "ok"))


BODIES = [
    Swallowing.catches,
    Swallowing.returns_in_finally,
    Swallowing.goes_on,
    Swallowing.makes_an_error_of_it,
]
ON_THE_LOOP = [
    Swallowing.catches_on_the_loop,
    Swallowing.returns_in_finally_on_the_loop,
    Swallowing.goes_on_on_the_loop,
    Swallowing.makes_an_error_of_it_on_the_loop,
]


def cancelled_in(app: App, body: Swallowing, asked: Callable[[], list[ModelRequest]], made: int) -> None:
    """Cancel a run in the body, and assert that what came of that changes nothing, then or later."""
    log = MemoryEventLog()
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert body.begun.wait(PATIENCE)
        assert run.cancel("enough").accepted
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)
        assert len(asked()) == made
        assert [one.kind for one in records(log)][-2:] == ["cancel_requested", "run_ended"]
        assert runner.residual() == []
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert SAID not in str([record.data for record in records(log)])
    assert SAID not in str(asked()[-1].contents)


@pytest.mark.scenario("A15")
@pytest.mark.parametrize("body", [*BODIES, *ON_THE_LOOP], ids=lambda body: body.__name__)
def test_a_tool_that_swallows_the_signal_of_a_cancel_changes_nothing(body: Callable[..., Any]) -> None:
    one = Swallowing()
    tool = body.__get__(one)
    model = ScriptedModel(calls((body.__name__, {})), default="ok")
    cancelled_in(app_with(model, tool), one, lambda: model.requests, 1)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_model_that_swallows_the_signal_of_a_cancel_changes_nothing(body: Callable[..., str]) -> None:
    one = Swallowing()
    model = Stubborn(body.__get__(one))
    cancelled_in(app_with(model), one, lambda: model.requests, 1)


@pytest.mark.parametrize("body", [*BODIES, *ON_THE_LOOP], ids=lambda body: body.__name__)
def test_a_hook_that_swallows_the_signal_of_a_cancel_changes_nothing(body: Callable[..., Any]) -> None:
    one, model, times = Swallowing(), ScriptedModel(default="ok"), list[int]()

    def before_the_agent(**_: Any) -> Any:
        times.append(1)
        if len(times) > 1:
            return None
        came = body(one)
        return _as_content(came) if asyncio.iscoroutine(came) else Content.model(came)

    app = app_plugged(LlmAgent("agent", model), plugin(before_agent_callback=before_the_agent))
    cancelled_in(app, one, lambda: model.requests, 0)


async def _as_content(came: Any) -> Content:
    return Content.model(await came)
