"""An agent of one's own that keeps how far it has come, and goes on there when its run is gone on with."""

from intermission import AgentContext, App, BaseAgent, Content, ResumabilityConfig, Runner
from intermission.agents import Call, Emit, SaveState
from intermission.agents.effects import Steps
from intermission_storage import MemoryEventLog

sent: list[str] = []
line_is_cut = [True]  # only for the demonstration: the line fails once


def send(letter: str) -> None:
    """Send a letter."""
    if letter == "carol" and line_is_cut:
        line_is_cut.clear()
        raise ConnectionError("the line is cut")
    sent.append(letter)


class Mailer(BaseAgent):
    """Writes to each of some people, once."""

    def run(self, context: AgentContext) -> Steps:
        people = ["ada", "bob", "carol", "dora"]
        done = context.agent_state.get("done", 0)  # what the agent had kept, or nothing
        for number in range(done, len(people)):
            yield Call(send, people[number])
            yield SaveState({"done": number + 1})  # stored before it goes on
        yield Emit(context.event(self.name, content=Content.model(f"{len(people)} letters are sent.")))


app = App("mail", Mailer("mailer"), resumability_config=ResumabilityConfig(is_resumable=True))
with Runner(app, log=MemoryEventLog()) as runner:
    first = runner.run(user_id="u1", session_id="s1", message="Write to all.").result()
    print(first.status, sent)
    second = runner.resume(user_id="u1", session_id="s1", invocation_id=first.invocation_id).result()
    print(second.status, sent)
    print(second.text)
