"""Agents one after another, each with what the one before has left in the state."""

from intermission import App, LlmAgent, Runner, SequentialAgent
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

draft_model = ScriptedModel("Tea grows in hills.")
check_model = ScriptedModel("Tea grows in hills, mostly.")
translate_model = ScriptedModel("Thee groeit in heuvels, meestal.")

writer = LlmAgent("writer", draft_model, instruction="Write one sentence.", output_key="draft")
checker = LlmAgent("checker", check_model, instruction="Make it true: {draft}", output_key="checked")
translator = LlmAgent("translator", translate_model, instruction="Say it in Dutch: {checked}")
desk = SequentialAgent("desk", sub_agents=[writer, checker, translator])

with Runner(App("desk", desk), log=MemoryEventLog()) as runner:
    for event in runner.run(user_id="u1", session_id="s1", message="Tea?"):
        print(f"{event.author}: {event.text}")

print(translate_model.requests[0].instruction.splitlines()[0])
