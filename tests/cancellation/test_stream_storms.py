"""Very many streams of a service cancelled at once, beside sessions that go on."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from apps import Key, app_with, records
from intermission import Content, RunConfig, Runner, RunStatus
from intermission.models import ChatCompletions, Model, ModelRequest, ModelResponse
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until
from scale import rounds
from served import ServedModel

STREAMS = rounds(100, 500)
OTHERS = rounds(10, 50)
AT_ONCE = 10.0  # seconds, on a machine that does many other things; what is measured stands on the page
STREAM = "stream"


class Either:
    """Asks a service when the message says so, and answers at once when it does not."""

    name = "either"

    def __init__(self, model: Model) -> None:
        self._model = model

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        if request.contents[-1].text == STREAM:
            yield from self._model.generate(request)
        else:
            yield ModelResponse(content=Content.model("ok"))


def key(number: int) -> Key:
    """A session."""
    return {"user_id": "u", "session_id": str(number)}


@pytest.mark.slow
def test_a_storm_of_cancelled_streams_is_over_soon_and_the_service_sees_each_and_others_go_on(
    tmp_path: Path,
) -> None:
    answered, over = [0] * OTHERS, threading.Event()
    with ExitStack() as stack:
        server = stack.enter_context(ServedModel(tmp_path))
        model = stack.enter_context(closing(ChatCompletions("small", base_url=server.url, api_key="k")))
        log = MemoryEventLog()
        runner = stack.enter_context(Runner(app_with(Either(model)), log=log))
        server.enqueue("stalled", STREAMS)
        config = RunConfig(streaming=True)
        runs = [runner.run(**key(each), message=STREAM, config=config).start() for each in range(STREAMS)]
        server.wait_reached()

        def goes_on(number: int) -> None:
            while not over.is_set():
                runner.run(**key(STREAMS + number), message="hi").answer(PATIENCE)
                answered[number] += 1

        others = [threading.Thread(target=goes_on, args=[number]) for number in range(OTHERS)]
        for thread in others:
            stack.callback(thread.join, PATIENCE)
            thread.start()
        stack.callback(over.set)
        before, began = sum(answered), time.monotonic()
        for run in runs:
            assert run.cancel("a storm").accepted
        for run in runs:
            assert run.result(AT_ONCE).status is RunStatus.CANCELLED
            assert run.wait_terminated(AT_ONCE)
        assert server.wait_aborted(STREAMS) - began < AT_ONCE
        assert sum(answered) > before
        over.set()
        until(lambda: runner.residual() == [])
    for number in range(STREAMS):
        kinds = [record.kind for record in records(log, **key(number))]
        assert kinds[-2:] == ["cancel_requested", "run_ended"]
