"""A chat in the terminal: answers stream; Ctrl-C stops one, says what is left of it, and the chat goes on."""

from intermission import App, LlmAgent, RunConfig, Runner
from intermission.testing import ScriptedModel, text

# No key: the model is scripted. For a real one:
# from intermission.models import ChatCompletions; model = ChatCompletions("gpt-4o-mini")
model = ScriptedModel(default=text("I ", "am ", "listening."))
agent = LlmAgent("friend", model, instruction="Be brief.")


def say(runner: Runner, line: str) -> None:
    run = runner.run(user_id="you", session_id="terminal", message=line, config=RunConfig(streaming=True))
    try:
        for piece in run.text_stream():
            print(piece, end="", flush=True)
        print()
    except KeyboardInterrupt:
        receipt = run.cancel("Ctrl-C", wait=True, timeout=5)
        print(f"\n[{run.status}: stored up to record {receipt.last_seq}]")
        for work in receipt.still_running:
            print(f"[still running: {work.what} {work.name}]")


with Runner(App("chat", agent), log="chat.lmdb") as runner:
    while True:
        try:
            line = input("> ")
        except (EOFError, KeyboardInterrupt):
            break
        say(runner, line)
