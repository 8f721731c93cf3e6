"""After whatever ended a run, a service that refuses illegal histories takes the session's next request."""

import json
from collections.abc import Callable

import pytest

from apps import KEY
from intermission import App, EventsCompactionConfig, LlmAgent, Runner
from intermission.models.http_model import HttpModel
from intermission.testing import Cut, Gate, ModelServer, calls, silent, stream
from intermission.testing.server_state import AnyReply
from intermission_storage import MemoryEventLog
from providers import PROVIDERS, Provider


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


def model(provider: Provider, server: ModelServer) -> HttpModel:
    return provider.make(server, api_key="any", max_retries=0)


@pytest.mark.scenario("B1")
def test_a_session_whose_run_was_cancelled_in_a_tool_goes_on(provider: Provider) -> None:
    gate = Gate()

    def look() -> str:
        """Look."""
        gate.wait()
        return "too late"

    with ModelServer(calls(("look", {}), text="One moment"), "Here I am.") as server:
        app = App("looks", LlmAgent("agent", model(provider, server), tools=[look]))
        with Runner(app, log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="Look").start()
            gate.arrived()
            run.cancel("enough")
            assert run.result().status == "cancelled"
            answer = runner.run(**KEY, message="And now?").answer()
            gate.open()

    assert answer == "Here I am."
    told = json.dumps(server.requests[-1])
    assert (
        told.index("One moment") < told.index("may or may not have had its effect") < told.index("And now?")
    )


# Each test has a gate of its own: a server opens those of its replies when it closes.
@pytest.mark.parametrize(
    "reply",
    [lambda: silent("answer"), lambda: stream("half", Gate())],
    ids=["before the answer", "within it"],
)
def test_a_session_whose_run_was_cancelled_in_a_model_call_goes_on(
    provider: Provider, reply: Callable[[], AnyReply]
) -> None:
    with ModelServer(reply(), "Here I am.") as server:
        app = App("talks", LlmAgent("agent", model(provider, server)))
        with Runner(app, log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="Hello").start()
            server.wait_requests()
            run.cancel("enough")
            server.wait_aborted()
            assert run.result().status == "cancelled"
            assert runner.run(**KEY, message="And now?").answer() == "Here I am."


def test_a_session_whose_model_broke_off_goes_on(provider: Provider) -> None:
    with ModelServer(stream("half", Cut.CLOSE), "Here I am.") as server:
        app = App("talks", LlmAgent("agent", model(provider, server)))
        with Runner(app, log=MemoryEventLog()) as runner:
            assert runner.run(**KEY, message="Hello").result().status == "failed"
            assert runner.run(**KEY, message="And now?").answer() == "Here I am."


def test_calls_of_tools_that_are_unknown_or_cancelled_among_others_are_all_answered(
    provider: Provider,
) -> None:
    gate = Gate()

    def look(where: str) -> str:
        """Look somewhere."""
        if where == "here":
            gate.wait()
        return f"nothing {where}"

    first = calls(("look", {"where": "there"}), ("look", {"where": "here"}), ("größe now", {}))
    with ModelServer(first, "Here I am.", "Still here.") as server:
        app = App("looks", LlmAgent("agent", model(provider, server), tools=[look]))
        with Runner(app, log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="Look").start()
            gate.arrived()
            asked = next(event for event in runner.sessions.events(**KEY) if event.function_calls)
            run.cancel_call(asked.function_calls[1].id, "enough")
            assert run.answer() == "Here I am."
            gate.open()
            assert runner.run(**KEY, message="And now?").answer() == "Still here."

    told = json.dumps(server.requests[1])
    assert told.index("nothing there") < told.index("stopped")
    assert "gr__e_now" in told


@pytest.mark.scenario("B7")
def test_a_session_that_is_told_in_short_goes_on(provider: Provider) -> None:
    def look() -> str:
        """Look."""
        return "a lighthouse"

    replies = calls(("look", {})), "Done.", "In short: all is seen.", "Still here."
    with ModelServer(*replies, default="In short: nothing new.") as server:
        agent = LlmAgent("agent", model(provider, server), tools=[look])
        app = App("looks", agent, events_compaction_config=EventsCompactionConfig(1, 0))
        with Runner(app, log=MemoryEventLog()) as runner:
            assert runner.run(**KEY, message="Look").answer() == "Done."
            assert runner.run(**KEY, message="And now?").answer() == "Still here."

    told = json.dumps(server.requests[3])
    assert told.index("In short: all is seen.") < told.index("And now?")
    assert "a lighthouse" not in told
