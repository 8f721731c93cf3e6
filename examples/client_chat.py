"""A chat with the blocking client: Ctrl-C ends an answer, not the chat; /again goes on with that answer."""

from intermission import Event
from intermission.client import AgentClient, TurnResult
from intermission.testing import ScriptedModel, text

# No key: the model is scripted. For a real one: model = "openai/gpt-4o-mini"
model = ScriptedModel(default=text("I ", "am ", "listening."))


class Screen:
    """Shows what is said, piece by piece, and how it ended."""

    def on_event(self, event: Event) -> None:
        print(event.delta, end="", flush=True)

    def on_complete(self, turn: TurnResult) -> None:
        print()

    def on_error(self, error: Exception) -> None:
        print(f"\n[{error}]")


def say(client: AgentClient, line: str) -> None:
    if line == "/again":
        begun = client.stream_recover("terminal", Screen())
    else:
        begun = client.stream("terminal", line, Screen())
    stream = begun.get_or_none()
    if stream is None:
        print(begun.error)
        return
    try:
        stream.result()
    except KeyboardInterrupt:
        stream.cancel("Ctrl-C")
        stream.result()


with AgentClient(model, instruction="Be brief.", streaming=True, log="chat.lmdb") as client:
    while True:
        try:
            line = input("> ")
        except (EOFError, KeyboardInterrupt):
            break
        say(client, line)
