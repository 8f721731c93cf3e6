"""A process is killed in the middle of a tool, and another one goes on. No key: the model is scripted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from intermission import App, LlmAgent, ResumabilityConfig, Runner, ToolContext
from intermission.testing import ScriptedModel, calls

receipts = Path("receipts")  # stands for the shop's database


def reserve(order_id: str) -> str:
    """Reserve the goods of an order."""
    print("reserve")
    return "reserved"


def charge(order_id: str, tool_context: ToolContext) -> dict[str, str]:
    """Charge an order to the card. Whoever calls again with the same call id is given the first receipt."""
    print("charge")
    receipt = receipts / tool_context.function_call_id
    if not receipt.exists():
        receipt.write_text(f"receipt {len(list(receipts.iterdir())) + 1}")
        if "dies" in sys.argv:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)  # charged, and nobody knows
    return {"receipt": receipt.read_text()}


def ship(order_id: str) -> str:
    """Have an order shipped."""
    print("ship")
    return "shipped"


order = {"order_id": "1042"}
turn = calls(("reserve", order), ("charge", order), ("ship", order))
model = ScriptedModel(turn, "Paid and shipped.") if "dies" in sys.argv else ScriptedModel("Paid and shipped.")
agent = LlmAgent("shop", model, tools=[reserve, charge, ship])
app = App("shop", agent, resumability_config=ResumabilityConfig(is_resumable=True))

receipts.mkdir(exist_ok=True)
if "dies" not in sys.argv:
    child = subprocess.run([sys.executable, __file__, "dies"], check=False)
    print("the first process ended with", child.returncode)

with Runner(app, log="shop.lmdb") as runner:
    if "dies" in sys.argv:
        runner.run(user_id="ada", session_id="s1", message="Pay order 1042.").result()
    for run in runner.recover():
        print(run.answer())
    print([path.read_text() for path in receipts.iterdir()])
