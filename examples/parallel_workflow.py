"""Agents at the same time, each on a branch of its own, and one that joins what they have found."""

from intermission import App, LlmAgent, ParallelAgent, Runner, SequentialAgent
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

prices = LlmAgent("prices", ScriptedModel("Tea is 3 euros."), output_key="price")
stocks = LlmAgent("stocks", ScriptedModel("There are 7 boxes."), output_key="stock")
join_model = ScriptedModel("7 boxes of tea, 3 euros each.")
join = LlmAgent("join", join_model, instruction="Answer from: {price} {stock}")
research = ParallelAgent("research", sub_agents=[prices, stocks])

with Runner(
    App("shop", SequentialAgent("shop", sub_agents=[research, join])), log=MemoryEventLog()
) as runner:
    run = runner.run(user_id="u1", session_id="s1", message="Have you tea?")
    events = [event for event in run if event.text]

# Which of the two is stored first depends on who is first.
for event in sorted(events[:2], key=lambda event: event.author):
    print(f"{event.author} on {event.branch}: {event.text}")
print(f"{events[2].author}: {events[2].text}")
