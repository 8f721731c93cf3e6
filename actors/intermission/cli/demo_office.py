"""The app that `intermission demo` kills. As a program it is the process that is killed.

It says its run's id, and a line more when a tool has done half of its work; then it waits for its death.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from intermission.agents import App, LlmAgent, ParallelAgent
from intermission.cli.demo_models import model_at
from intermission.config import ResumabilityConfig
from intermission.runner import Runner
from intermission.tools import ToolContext

__all__ = ["CASHIER", "CLERK", "INVOICE", "ORDER", "SESSION", "USER", "Office"]

USER, SESSION = "you", "invoices"
ORDER = "Please charge and invoice my order 1042."
CASHIER, CLERK = "cashier", "clerk"
INVOICE = ("Invoice for an order", "1 lighthouse, small, 40 euros", "postage, 2 euros", "paid: 42 euros")
_HALF = len(INVOICE) // 2


class Office:
    """Two agents at the same time, each with a tool that leaves a trace in a folder: what ran, and how often.

    Args:
        folder: Where.
        models: The addresses of the models of the cashier and of the clerk, and their name.
        half_done: Called when half of an invoice is written.
    """

    def __init__(
        self, folder: Path, models: tuple[str, str, str], half_done: Callable[[], object] = bool
    ) -> None:
        self._folder = folder
        self._half_done = half_done
        cashiers, clerks, name = models
        cashier = LlmAgent(
            CASHIER,
            model_at(cashiers, name),
            instruction="You charge orders. Use the tool to charge one.",
            tools=[self.charge],
        )
        clerk = LlmAgent(
            CLERK,
            model_at(clerks, name),
            instruction="You write invoices. Use the tool to write one.",
            tools=[self.write_invoice],
        )
        self.app = App(
            "demo",
            ParallelAgent("office", sub_agents=[cashier, clerk]),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )

    def charge(self, order_id: str, tool_context: ToolContext) -> dict[str, Any]:
        """Charge the price of an order."""
        self._note("charge", tool_context)
        return {"order_id": order_id, "charged": "42 euros"}

    def write_invoice(self, order_id: str, tool_context: ToolContext) -> dict[str, Any]:
        """Write the invoice of an order."""
        self._note("write_invoice", tool_context)
        # Named after the call, and begun anew each time: whoever makes the call again leaves one invoice.
        with self._invoice(tool_context.function_call_id).open("w") as file:
            for number, line in enumerate(INVOICE):
                tool_context.cancellation.check()
                if number == _HALF:
                    file.flush()
                    self._half_done()
                file.write(f"{line}\n")
        return {"order_id": order_id, "invoice": "written"}

    def lines(self, call_id: str) -> int:
        """Return how many lines there are of the invoice of a call."""
        invoice = self._invoice(call_id)
        return len(invoice.read_text().splitlines()) if invoice.exists() else 0

    def ran(self) -> list[tuple[str, str]]:
        """Return the name and the call id of each tool that ran, in whichever process, oldest first."""
        lines = (self._folder / "ran").read_text().splitlines()
        return [(name, call_id) for name, _, call_id in (line.partition(" ") for line in lines)]

    def _invoice(self, call_id: str) -> Path:
        return self._folder / f"invoice-{call_id}.txt"

    def _note(self, tool: str, context: ToolContext) -> None:
        with (self._folder / "ran").open("a") as file:
            file.write(f"{tool} {context.function_call_id}\n")


def _be_killed() -> None:
    _say("half done")
    threading.Event().wait()


def _say(what: str) -> None:
    os.write(1, f"{what}\n".encode())


def _end_with_parent() -> None:
    """End this process when its parent has: nobody else holds the other end of the pipe."""
    os.read(0, 1)
    os._exit(1)


def _main(log: str, folder: str, cashiers: str, clerks: str, name: str) -> None:
    """Begin the run, and be killed in it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    office = Office(Path(folder), (cashiers, clerks, name), _be_killed)
    with Runner(office.app, log=log) as runner:
        run = runner.run(user_id=USER, session_id=SESSION, message=ORDER).start()
        _say(str(run.invocation_id))
        run.result()


if __name__ == "__main__":
    _main(*sys.argv[1:])
