"""An agent with a tool, on a session that is still there tomorrow. No key: the model is scripted."""

from intermission import App, LlmAgent, RunConfig, Runner
from intermission.testing import ScriptedModel, calls, text


def order_status(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"status": "shipped", "city": "Utrecht"}


model = ScriptedModel(
    calls(("order_status", {"order_id": "1042"})),
    text("It is ", "in ", "Utrecht."),
)
agent = LlmAgent("support", model, instruction="Answer questions about orders.", tools=[order_status])

with Runner(App("shop", agent), log="shop.lmdb") as runner:
    run = runner.run(
        user_id="u1", session_id="s1", message="Where is 1042?", config=RunConfig(streaming=True)
    )
    for event in run:
        print(event.delta, end="", flush=True)
    print(f"\n{run.result().status}")
