"""A chat in the browser: answers stream, a lost connection loses nothing, and there is a stop button.

`pip install starlette uvicorn`, then `python examples/web_chat.py [openai/gpt-4o-mini]`, and a browser at
http://127.0.0.1:8000/.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from intermission import (
    App,
    CancelScope,
    LlmAgent,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    SessionNotFoundError,
)
from intermission.models import Model, ModelRequest, ModelResponse
from intermission.testing import ScriptedModel, text

USER = "you"  # whom the service has logged in; never take it from the request
PING = 15.0  # seconds without an event until a comment keeps proxies from closing the connection

PAGE = r"""<!doctype html><meta charset=utf-8><title>Chat</title>
<style>body {font: 1rem sans-serif; max-width: 40rem; margin: 2rem auto} .user {color: #06c}</style>
<div id=talk></div><form><input name=text autofocus size=50> <button>Send</button>
<button type=button id=stop disabled>Stop</button></form>
<script>
const chat = location.hash ||= "#" + crypto.randomUUID(), path = "/chats/" + chat.slice(1);
const form = document.forms[0], stop = document.getElementById("stop");
let source, seen = 0, open = {};                    // the last number, and the paragraphs that still grow
function show(event) {
  const p = open[event.author] ??= talk.appendChild(document.createElement("p"));
  p.className = event.author;
  p.textContent = event.partial ? p.textContent + event.text : event.text;  // a final holds the whole
  if (!event.partial) delete open[event.author];
}
function take(id, data) {
  seen = +id || seen;
  const event = JSON.parse(data);
  if (event.text) show(event);
}
function end(status) {
  source?.close(); stop.disabled = true; open = {};
  if (status != "completed") show({author: "end", text: "[" + status + "]"});
}
async function say(body) {
  let ended = false, rest = "";
  stop.disabled = false;
  show({author: "user", text: body, partial: true});
  try {
    const answer = await fetch(path, {method: "POST", body});
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read; !(read = await reader.read()).done; ) {
      const messages = (rest + read.value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const {event, id, data} = Object.fromEntries(message.split("\n").map(line => line.split(/: (.*)/s)));
        if (event == "end") { ended = true; end(data); } else if (data) take(id, data);
      }
    }
  } finally { if (!ended) listen(); }               // the connection is lost, the run is not
}
function listen() {                                 // it connects again by itself, with Last-Event-ID
  source?.close(); stop.disabled = false;
  source = new EventSource(path + "/events?after=" + seen);
  source.onmessage = message => take(message.lastEventId, message.data);
  source.addEventListener("end", message => end(message.data));
  source.onerror = () => { stop.disabled = source.readyState == EventSource.CLOSED; };
}
form.onsubmit = submitted => { submitted.preventDefault(); say(form.text.value); form.reset(); };
stop.onclick = () => fetch(path + "/stop", {method: "POST"});
listen();
</script>"""


async def page(request: Request) -> Response:
    return HTMLResponse(PAGE)


async def say(request: Request) -> Response:
    """Answer a message. The run is nobody's, so who hangs up may come back; one with `?mine` ends then."""
    runner: Runner = request.app.state.runner
    run = runner.run(
        user_id=USER,
        session_id=request.path_params["chat"],
        message=(await request.body()).decode(errors="replace"),
        config=RunConfig(streaming=True),
    )
    if "mine" not in request.query_params:
        await run.astart()
    return StreamingResponse(sent(run), media_type="text/event-stream")


async def events(request: Request) -> Response:
    """Stream the events after a number: the stored ones, then those of the run under way, to its end."""
    runner: Runner = request.app.state.runner
    after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
    try:
        viewer = await runner.aattach(user_id=USER, session_id=request.path_params["chat"], after=int(after))
    except ValueError:
        return Response("after must be a number, 0 or more", status_code=400)
    except SessionNotFoundError:
        return Response(status_code=204)  # there is nothing yet, and a browser is not to ask again
    return StreamingResponse(sent(viewer), media_type="text/event-stream")


async def sent(run: Run) -> AsyncGenerator[str]:
    """Write a run's events as the browser wants them; only stored ones have a number to go on after."""
    stream = aiter(run)
    step = None
    try:
        while True:
            # Not `wait_for`: it would cancel the step, and with it the reader's place in the stream.
            step = step or asyncio.ensure_future(anext(stream, None))
            if not (await asyncio.wait({step}, timeout=PING))[0]:
                yield ": still here\n\n"
                continue
            event, step = step.result(), None
            if event is None:
                break
            shown = {"author": event.author, "text": event.text, "partial": event.partial}
            number = "" if event.seq is None else f"id: {event.seq}\n"
            yield f"{number}data: {json.dumps(shown)}\n\n"
    except Exception as error:  # noqa: BLE001 - the run has failed, as its status says
        print(f"{run!r}: {error!r}", file=sys.stderr)
    finally:
        if step is not None:
            step.cancel()  # the reader has gone
    if run.status is not RunStatus.INTERRUPTED:  # that one will be gone on with: the browser is to come back
        yield f"event: end\ndata: {run.status}\n\n"


async def stop(request: Request) -> Response:
    """End the run under way, whoever reads it."""
    runner: Runner = request.app.state.runner
    receipt = await runner.acancel(
        user_id=USER, session_id=request.path_params["chat"], reason="the stop button"
    )
    return JSONResponse({"outcome": receipt.outcome})


def web_app(model: Model | str, log: str) -> Starlette:
    """Make the service."""

    @asynccontextmanager
    async def lifespan(web: Starlette) -> AsyncGenerator[None]:
        agent = LlmAgent("friend", model, instruction="Be brief.")
        app = App("chat", agent, resumability_config=ResumabilityConfig(is_resumable=True))
        async with Runner(app, log=log) as web.state.runner:
            # Requests need not wait until what the last process has left is done.
            recovery = asyncio.create_task(web.state.runner.arecover_all())
            yield
        await recovery

    routes = [
        Route("/", page),
        Route("/chats/{chat}", say, methods=["POST"]),
        Route("/chats/{chat}/events", events),
        Route("/chats/{chat}/stop", stop, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class Typist(ScriptedModel):
    """No key: it is scripted, and takes its time between two words."""

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        scope = CancelScope.current()
        for response in super().generate(request):
            if scope is not None:
                scope.sleep(0.2)  # the stop button ends this at once
            yield response


if __name__ == "__main__":
    words = [f"{word} " for word in ["Reload", "the", "page,", "or", "stop", "me;", "all", "is", "kept."]]
    chosen = sys.argv[1] if len(sys.argv) > 1 else Typist(default=text(*words))
    # Streams are open as long as browsers look: a server that ends waits two seconds for them, no longer.
    uvicorn.run(web_app(chosen, "web_chat.lmdb"), timeout_graceful_shutdown=2)
