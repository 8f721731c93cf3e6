"""A stream that breaks off after something was shown: the run fails, and nobody hears anything twice."""

import threading
from contextlib import closing

import pytest

from apps import KEY, app_with, kinds, records
from intermission import Event, RunConfig, Runner, RunResult, RunStatus
from intermission.models import ChatCompletions
from intermission.testing import Cut, ModelServer, stream, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

PIECES = ("All ", "is ", "well.")


class Reader:
    """A subscriber that keeps what it would show: the pieces of each message, until its final comes."""

    def __init__(self) -> None:
        self.pieces, self.finals, self.errors = list[str](), list[str](), list[Exception]()
        self.over = threading.Event()

    def on_event(self, event: Event) -> None:
        """Show it."""
        self.pieces.append(event.delta)
        if not event.partial:
            self.finals.append(event.text)

    def end(self, _: RunResult) -> None:
        """Nothing more comes."""
        self.over.set()


@pytest.mark.scenario("G1")
@pytest.mark.parametrize("cut", [Cut.RESET, Cut.CLOSE, Cut.END])
def test_a_stream_that_breaks_after_three_pieces_fails_its_run_and_the_next_one_shows_the_whole_once(
    cut: Cut,
) -> None:
    log = MemoryEventLog()
    with (
        ModelServer(stream(*PIECES, cut), text(*PIECES)) as server,
        closing(ChatCompletions("small", base_url=server.url, api_key="key")) as model,
        Runner(app_with(model), log=log, config=RunConfig(streaming=True)) as runner,
    ):
        readers = list[Reader]()
        for message in ("Is all well?", "Once more?"):
            reader = Reader()
            readers.append(reader)
            run = runner.run(**KEY, message=message)
            run.subscribe(reader.on_event, reader.errors.append, on_finally=reader.end)
            assert reader.over.wait(PATIENCE)
            if reader is readers[0]:
                assert run.status is RunStatus.FAILED
                assert len(server.requests) == 1  # it is not asked again behind the reader's back
        first, second = readers
        assert run.answer(PATIENCE) == "All is well."
    assert ("".join(first.pieces), first.finals, len(first.errors)) == ("All is well.", [], 1)
    assert ("".join(second.pieces), second.finals, second.errors) == ("All is well.", ["All is well."], [])
    said = [message["content"] for message in server.requests[1]["messages"]]
    assert said == ["Is all well?", "Once more?"]  # nothing of the half
    assert [one.data["author"] for one in records(log) if one.kind == "event"] == ["user", "user", "agent"]
    assert "cancel_requested" not in kinds(log)
