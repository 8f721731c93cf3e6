"""An actor beside the sessions: it adds up what a user's runs cost, and stops the run that costs too much."""

from intermission import Actor, App, EventStored, LlmAgent, Runner, SessionSystem, Stop
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog


class Budget(Actor):
    """Watches the events of all sessions; each user may spend so many tokens."""

    def __init__(self, sessions: SessionSystem, tokens: int) -> None:
        super().__init__()
        self.sessions = sessions
        self.tokens = tokens
        self.spent: dict[str, int] = {}

    def on_receive(self, message: object) -> None:
        if isinstance(message, EventStored) and message.event.usage is not None:
            user = message.user_id
            self.spent[user] = self.spent.get(user, 0) + message.event.usage.total_tokens
            if self.spent[user] > self.tokens:
                session = self.sessions.session(user_id=user, session_id=message.session_id)
                session.tell(Stop("the budget is spent", message.event.invocation_id))


def search(query: str) -> str:
    """Search the web."""
    return f"nothing about {query}"


model = ScriptedModel(default=calls(("search", {"query": "more"})))  # it never has enough
app = App("demo", LlmAgent("researcher", model, tools=[search]))

with Runner(app, log=MemoryEventLog()) as runner:
    budget = runner.system.start(Budget, runner.system, tokens=500)
    runner.system.subscribe(budget, EventStored)
    result = runner.run(user_id="ada", session_id="s1", message="Find out everything.").result()
    print(f"{result.status}: {result.reason}")
