"""The programs that `startup.py` times: what is imported, and one agent that answers one message.

They are text, since each runs where its own system is installed and no other.
"""

__all__ = ["PROGRAMS"]

_INTERMISSION = """
import tempfile
from intermission import App, Content, LlmAgent, Runner
from intermission.models import ModelResponse


class Model:
    name = "m"

    def generate(self, request):
        yield ModelResponse(content=Content.model("hello"))


with tempfile.TemporaryDirectory() as place:
    with Runner(App("app", LlmAgent("a", Model())), log=place + "/log") as runner:
        for event in runner.run(user_id="u", session_id="s", message="hi"):
            print("EVENT", event.text, flush=True)
"""

_GOOGLE_ADK = """
import asyncio
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="hello")]))


async def main():
    runner = InMemoryRunner(agent=LlmAgent(name="a", model=Model(model="m")), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        print("EVENT", event.content.parts[0].text, flush=True)


asyncio.run(main())
"""

_LANGGRAPH = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph


def model(state):
    return {"messages": [("ai", "hello")]}


graph = StateGraph(MessagesState)
graph.add_node("model", model)
graph.add_edge(START, "model")
graph.add_edge("model", END)
app = graph.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "t"}}
for event in app.stream({"messages": [("user", "hi")]}, config):
    print("EVENT", event["model"]["messages"][-1], flush=True)
"""

_OPENAI_AGENTS = """
import asyncio
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Hello(Model):
    async def get_response(self, *args, **kwargs):
        text = ResponseOutputText(text="hello", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="1", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


result = asyncio.run(Runner.run(Agent(name="a", model=Hello()), "hi"))
print("EVENT", result.final_output, flush=True)
"""

_DBOS = """
from dbos import DBOS, DBOSConfig

DBOS(config=DBOSConfig(name="app", system_database_url="sqlite:///app.sqlite", run_admin_server=False))


@DBOS.step()
def model(text):
    return "hello"


@DBOS.workflow()
def run(text):
    return model(text)


DBOS.launch()
print("EVENT", run("hi"), flush=True)
DBOS.destroy()
"""

PROGRAMS = {
    "nothing": ("", "print('EVENT', flush=True)"),
    "intermission": ("import intermission", _INTERMISSION),
    "google-adk": ("import google.adk.agents, google.adk.runners", _GOOGLE_ADK),
    "langgraph": ("import langgraph.graph, langgraph.checkpoint.memory", _LANGGRAPH),
    "openai-agents": ("import agents", _OPENAI_AGENTS),
    "dbos": ("import dbos", _DBOS),
}
"""What imports a system, and its whole program; each writes `EVENT` at the beginning of its first line."""
