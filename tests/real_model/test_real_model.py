"""The runtime against a real language model: `python tests/real_model/tour.py --pytest`.

The model is tiny and its words depend on the processor, so the tests assert how an answer comes and what is
stored of it, not what it says.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps import KEY
from intermission import (
    App,
    Content,
    FunctionTool,
    LlmAgent,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.cli.demo_kill import kill_and_recover
from intermission.cli.terminal import Screen
from intermission.cli.witness import SlotsWitness
from intermission.models import Anthropic, ChatCompletions, ModelRequest
from intermission.models.http_model import HttpModel

pytestmark = pytest.mark.real_model

SERVE = Path(__file__).with_name("serve.py")
# Seconds that anything may take; a busy machine is slow.
WITHIN = 180.0
STREAMING = RunConfig(streaming=True)


# llama.cpp's server speaks the protocols of both.
PROVIDERS = {"openai": ChatCompletions, "anthropic": Anthropic}


@pytest.fixture(params=PROVIDERS)
def make(request: pytest.FixtureRequest) -> Callable[..., HttpModel]:
    url = os.environ.get("INTERMISSION_MODEL_URL")
    if not url:
        pytest.fail("INTERMISSION_MODEL_URL is not set: python tests/real_model/tour.py --pytest sets it")
    name = os.environ.get("INTERMISSION_MODEL", "smollm2")
    base_url = url if request.param == "openai" else url.removesuffix("/v1")
    return partial(PROVIDERS[request.param], name, base_url=base_url, first_token_timeout=WITHIN)


@pytest.fixture
def model(make: Callable[..., HttpModel]) -> HttpModel:
    return make(options={"temperature": 0, "max_tokens": 120})


def order_status(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"order_id": order_id, "status": "shipped", "city": "Lisbon"}


def app_of(model: HttpModel, *tools: Callable[..., Any]) -> App:
    instruction = "You answer questions about orders. Use the tool to look an order up." if tools else ""
    return App("real", LlmAgent("support", model, instruction=instruction, tools=tools))


def test_the_partials_of_a_streamed_answer_join_to_its_text(model: HttpModel, tmp_path: Path) -> None:
    with Runner(app_of(model), log=tmp_path / "log") as runner:
        run = runner.run(**KEY, message="Tell me a story about a lighthouse.", config=STREAMING)
        shown = list(run)
        result = run.result(WITHIN)
        stored = runner.sessions.events(**KEY)

    partials = [event for event in shown if event.partial]
    assert result.status is RunStatus.COMPLETED
    assert len(partials) > 1
    assert result.text
    assert "".join(event.text for event in partials) == result.text
    assert "".join(event.delta for event in shown) == result.text
    assert [(event.author, event.text) for event in stored] == [
        ("user", "Tell me a story about a lighthouse."),
        ("support", result.text),
    ]
    assert result.usage.output_tokens >= len(partials)


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
def test_a_tool_is_called_and_its_result_is_stored_in_order(
    model: HttpModel, tmp_path: Path, streaming: bool
) -> None:
    with Runner(app_of(model, order_status), log=tmp_path / "log") as runner:
        run = runner.run(**KEY, message="Where is my order 1042?", config=RunConfig(streaming=streaming))
        shown = [event for event in run if not event.partial]
        result = run.result(WITHIN)
        stored = runner.sessions.events(**KEY)

    assert result.status is RunStatus.COMPLETED
    assert [event.author for event in stored] == ["user", "support", "support", "support"]
    question, asked, answered, told = stored
    assert question.text == "Where is my order 1042?"
    [call] = asked.function_calls
    assert (call.name, dict(call.args)) == ("order_status", {"order_id": "1042"})
    [response] = answered.function_responses
    assert (response.id, response.name) == (call.id, "order_status")
    assert dict(response.response) == order_status("1042")
    assert told.text == result.text != ""
    assert shown == [asked, answered, told]


def test_another_runner_finds_the_session_and_the_model_is_told_of_it(
    model: HttpModel, tmp_path: Path
) -> None:
    with Runner(app_of(model, order_status), log=tmp_path / "log") as runner:
        first = runner.run(**KEY, message="Where is my order 1042?", config=STREAMING).result(WITHIN)
        before = runner.sessions.events(**KEY)
    with Runner(app_of(model, order_status), log=tmp_path / "log") as runner:
        assert runner.sessions.events(**KEY) == before
        run = runner.run(**KEY, message="Thank you!", config=STREAMING)
        second = run.result(WITHIN)
        after = runner.sessions.events(**KEY)

    assert (first.status, second.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
    assert after[: len(before)] == before
    assert [(event.author, event.text) for event in after[len(before) :]] == [
        ("user", "Thank you!"),
        ("support", second.text),
    ]
    assert second.text
    # The request held the first turn: it was longer than the longest request of that turn.
    told_last = before[-1].usage
    assert told_last is not None
    assert second.usage.input_tokens > told_last.input_tokens


def refund(order_id: str) -> dict[str, str]:
    """Pay the money for an order back."""
    return {"order_id": order_id, "refunded": "42 euros"}


def test_a_call_waits_for_leave_and_another_runner_goes_on_with_it(model: HttpModel, tmp_path: Path) -> None:
    def app() -> App:
        instruction = "You refund orders. Use the tool to refund one."
        tool = FunctionTool(refund, require_confirmation=True)
        agent = LlmAgent("clerk", model, instruction=instruction, tools=[tool])
        return App("real", agent, resumability_config=ResumabilityConfig(is_resumable=True))

    with Runner(app(), log=tmp_path / "log") as runner:
        first = runner.run(**KEY, message="Please refund my order 1042.", config=STREAMING).result(WITHIN)
    with Runner(app(), log=tmp_path / "log") as runner:
        [call] = runner.pending(**KEY)
        run = runner.resume(**KEY, answers=[call.approve()], config=STREAMING)
        [told] = [one for event in run for one in event.function_responses]
        second = run.result(WITHIN)

    assert (first.status, second.status) == (RunStatus.PAUSED, RunStatus.COMPLETED)
    assert (call.tool, dict(call.arguments)) == ("refund", {"order_id": "1042"})
    assert dict(told.response) == refund("1042")
    assert second.text


def test_what_a_killed_process_was_doing_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, name = os.environ["INTERMISSION_MODEL_URL"], os.environ.get("INTERMISSION_MODEL", "smollm2")

    assert kill_and_recover(url, name, tmp_path / "log", Screen())
    made = [line.split()[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("ran ")]
    assert ["charge", "once,"] in made
    assert ["write_invoice", "twice,"] in made


def test_after_a_cancel_the_servers_slot_is_free_at_once(
    make: Callable[..., HttpModel], tmp_path: Path
) -> None:
    url = os.environ["INTERMISSION_MODEL_URL"]
    endless = make(options={"temperature": 0, "ignore_eos": True})
    app = App("real", LlmAgent("teller", endless))
    with Runner(app, log=tmp_path / "log") as runner:
        run = runner.run(**KEY, message="Tell me a long story about a lighthouse.", config=STREAMING)
        heard = 0
        for heard, _ in enumerate(run, 1):
            if heard == 20:
                break  # this loses the consumer, which cancels the run
        cancelled = time.monotonic()
        assert run.result(WITHIN).status is RunStatus.CANCELLED
        assert run.wait_terminated(WITHIN)
        told = SlotsWitness(url).told(cancelled)
        assert runner.sessions.events(**KEY)[-1].author == "user"
        assert runner.residual() == []
    assert heard == 20  # of as many as fit into the slot, since the model is not allowed to end
    assert "works on nothing any more" in told


@contextmanager
def server() -> Generator[tuple[subprocess.Popen[str], str]]:
    """A server of the test's own, ready to answer, and its address."""
    with subprocess.Popen(
        [sys.executable, SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            word, _, address = process.stdout.readline().strip().partition(" ")
            assert word == "READY"
            yield process, address
        finally:
            process.kill()


def close_input(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def terminate(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="the model's server is elsewhere")
@pytest.mark.parametrize("end", [close_input, terminate])
def test_the_server_ends_in_the_middle_of_an_answer_when_told_and_with_its_parent(
    end: Callable[[subprocess.Popen[str]], None],
) -> None:
    question = Content.user("Tell me a long story about a lighthouse.")
    with server() as (process, address):
        answer = ChatCompletions("smollm2", base_url=address).generate(
            ModelRequest(contents=(question,), streaming=True)
        )
        with closing(answer):
            assert next(answer).partial
            end(process)
            assert process.wait(WITHIN) == 0
