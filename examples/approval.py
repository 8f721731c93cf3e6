"""A run waits for an approval, which another process gives. No key: the models are scripted."""

import subprocess
import sys

from intermission import App, FunctionTool, LlmAgent, ResumabilityConfig, Runner
from intermission.testing import ScriptedModel, calls

LOG = "refunds.lmdb"
refunded: list[str] = []  # stands for a bank


def refund(order_id: str, euros: int) -> dict[str, int]:
    """Pay the money for an order back.

    Args:
        order_id: Which order.
        euros: How much.
    """
    refunded.append(order_id)
    return {"refunded": euros}


def large(order_id: str, euros: int) -> bool:
    """Tell whether a refund needs leave."""
    return euros > 20


def app_with(model: ScriptedModel) -> App:
    """The app, as each process makes it."""
    tool = FunctionTool(refund, require_confirmation=large)
    agent = LlmAgent("clerk", model, instruction="Refund what is asked for.", tools=[tool])
    return App("refunds", agent, resumability_config=ResumabilityConfig(is_resumable=True))


def ask() -> None:
    """The first process: a customer asks, the run pauses, and the process ends."""
    app = app_with(ScriptedModel(calls(("refund", {"order_id": "1042", "euros": 42}))))
    with Runner(app, log=LOG) as runner:
        result = runner.run(user_id="ada", session_id="s1", message="Refund 1042, please.").result()
        print(result.status, flush=True)


def approve() -> None:
    """The second process, perhaps days later: somebody looks at what is pending, and approves."""
    with Runner(app_with(ScriptedModel("You get 42 euros back.")), log=LOG) as runner:
        waiting = runner.pending(user_id="ada", session_id="s1")
        for call in waiting:
            print(f"{call.tool} of {call.arguments['euros']} euros, asked by {call.agent}")
        answers = [call.approve(answered_by="eve") for call in waiting]
        run = runner.resume(user_id="ada", session_id="s1", answers=answers)
        print(run.answer())
        again = runner.resume(user_id="ada", session_id="s1", answers=answers)
        print(again.result().status, "again, refunds made:", len(refunded))


if __name__ == "__main__":
    if sys.argv[1:] == ["ask"]:
        ask()
    elif sys.argv[1:] == ["approve"]:
        approve()
    else:
        for step in ("ask", "approve"):
            subprocess.run([sys.executable, __file__, step], check=True)
