"""A plugin that bills every run, whatever its end: completed, failed, cancelled, cut off with its process."""

from intermission import App, LlmAgent, Plugin, Run, RunConfig, Runner, RunRecord, RunResult
from intermission.testing import Gate, ScriptedModel, error, text


class Billing(Plugin):
    """Writes a bill for each run. It may be told of one twice, so the run's id is the number of the bill."""

    def __init__(self) -> None:
        super().__init__("billing")
        self.bills: dict[str, str] = {}

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        tokens = result.usage.total_tokens
        more = "" if result.usage.complete else " or more"  # a call that was given up has cost tokens, too
        self.bills[run.invocation_id or ""] = f"{run.user_id}: {tokens} tokens{more}, {result.status}"


rest = Gate()  # holds the model back until eve has gone
model = ScriptedModel("In Utrecht.", error("network", "the line is dead"), text("In ", rest, "Delft."))
billing = Billing()
app = App("shop", LlmAgent("support", model), plugins=[billing])

with Runner(app, log="shop.lmdb", config=RunConfig(streaming=True)) as runner:
    runner.run(user_id="ada", session_id="s1", message="Where is 1042?").result()
    runner.run(user_id="ben", session_id="s2", message="Where is 1043?").result()
    for _ in runner.run(user_id="eve", session_id="s3", message="Where is 1044?"):
        break  # she has gone, and the run is cancelled
    rest.open()

for bill in sorted(billing.bills.values()):  # the runner has waited for the hooks
    print(bill)
