"""After whatever ended a run, a service that refuses illegal histories takes the session's next request."""

import pytest

from intermission import App, LlmAgent, Runner
from intermission.models import ChatCompletions
from intermission.testing import Cut, Gate, ModelServer, calls, silent, stream
from intermission_storage import MemoryEventLog


@pytest.mark.scenario("B1")
def test_a_session_whose_run_was_cancelled_in_a_tool_goes_on() -> None:
    gate = Gate()

    def look() -> str:
        """Look."""
        gate.wait()
        return "too late"

    with ModelServer(calls(("look", {}), text="One moment"), "Here I am.") as server:
        app = App("looks", LlmAgent("agent", ChatCompletions("any", base_url=server.url), tools=[look]))
        with Runner(app, log=MemoryEventLog()) as runner:
            run = runner.run(user_id="u", session_id="s", message="Look").start()
            gate.arrived()
            run.cancel("enough")
            assert run.result().status == "cancelled"
            answer = runner.run(user_id="u", session_id="s", message="And now?").answer()
            gate.open()

    assert answer == "Here I am."
    *_, called, answered, user = server.requests[-1]["messages"]
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert user == {"role": "user", "content": "And now?"}


@pytest.mark.parametrize(
    "reply", [silent("answer"), stream("half", Gate())], ids=["before the answer", "within it"]
)
def test_a_session_whose_run_was_cancelled_in_a_model_call_goes_on(reply: object) -> None:
    with ModelServer(reply, "Here I am.") as server:  # type: ignore[arg-type]  # one of the server's replies
        app = App("talks", LlmAgent("agent", ChatCompletions("any", base_url=server.url)))
        with Runner(app, log=MemoryEventLog()) as runner:
            run = runner.run(user_id="u", session_id="s", message="Hello").start()
            server.wait_requests()
            run.cancel("enough")
            server.wait_aborted()
            assert run.result().status == "cancelled"
            assert runner.run(user_id="u", session_id="s", message="And now?").answer() == "Here I am."


def test_a_session_whose_model_broke_off_goes_on() -> None:
    with ModelServer(stream("half", Cut.CLOSE), "Here I am.") as server:
        model = ChatCompletions("any", base_url=server.url, max_retries=0)
        with Runner(App("talks", LlmAgent("agent", model)), log=MemoryEventLog()) as runner:
            assert runner.run(user_id="u", session_id="s", message="Hello").result().status == "failed"
            assert runner.run(user_id="u", session_id="s", message="And now?").answer() == "Here I am."
