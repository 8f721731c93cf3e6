"""A session outlives its runner: another one opens the log and goes on where the first left off."""

from intermission import App, LlmAgent, Runner
from intermission.testing import ScriptedModel

model = ScriptedModel("Nice to meet you, Ada.", "Your name is Ada.")
app = App("memory", LlmAgent("friend", model))

with Runner(app, log="memory.lmdb") as runner:
    print(runner.run(user_id="u1", session_id="s1", message="I am Ada.").answer())

with Runner(app, log="memory.lmdb") as runner:
    print(runner.run(user_id="u1", session_id="s1", message="Who am I?").answer())
    for event in runner.sessions.events(user_id="u1", session_id="s1"):
        print(event.seq, event.author, event.text)

print([content.text for content in model.requests[-1].contents])
