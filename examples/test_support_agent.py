"""Tests of an agent of one's own: `pytest test_support_agent.py`. No key, no network, no sleep."""

from intermission import App, LlmAgent, Runner, RunStatus
from intermission.testing import Gate, ScriptedModel, assert_nothing_left, calls, text
from intermission_storage import MemoryEventLog


def order_status(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"status": "shipped", "city": "Utrecht"}


def app_of(model: ScriptedModel) -> App:
    return App("shop", LlmAgent("support", model, tools=[order_status]))


def test_the_answer_comes_from_the_tool() -> None:
    model = ScriptedModel(calls(("order_status", {"order_id": "1042"})), text("It is in Utrecht."))
    with assert_nothing_left(), Runner(app_of(model), log=MemoryEventLog()) as runner:
        session = runner.session(user_id="u1", session_id="s1")
        assert session.run("Where is 1042?").answer() == "It is in Utrecht."
    [response] = model.requests[1].contents[-1].function_responses
    assert response.response == {"status": "shipped", "city": "Utrecht"}


def test_a_cancelled_answer_is_not_in_the_history() -> None:
    gate = Gate()
    model = ScriptedModel(text("Once upon", gate, " a time"), text("Yes?"))
    with assert_nothing_left(), Runner(app_of(model), log=MemoryEventLog()) as runner:
        session = runner.session(user_id="u1", session_id="s1")
        run = session.run("Tell me a story.").start()
        gate.arrived()  # the model is in the middle of its answer, and stays there
        run.cancel("enough")
        assert run.result(10).status is RunStatus.CANCELLED
        gate.open()
        assert session.run("Are you there?").answer() == "Yes?"
    assert [content.text for content in model.requests[1].contents] == ["Tell me a story.", "Are you there?"]
