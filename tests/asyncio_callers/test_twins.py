"""Each public call that can wait has a twin for event loops, and says so where it blocks one."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from apps import KEY
from intermission import App, LlmAgent, ResumabilityConfig, Run, Runner, RunResult, Session
from intermission.kernel import loop_warnings
from intermission.sessions.catalog import Sessions
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from tree import read

AT_ONCE: Mapping[type, set[str]] = {
    Runner: {"run", "resume", "session", "active", "stop", "residual", "metrics", "close_on_signals"},
    Sessions: set(),
    Session: {"run", "resume", "active", "stop"},
    Run: {"begin", "listen", "raise_refusal", "subscribe", "stop", "cancel_call"},
    RunResult: {"raise_for_status", "without_records"},
}
"""The calls that wait for nobody, neither for the log nor for a worker; one has no twin."""

NAMED_OTHERWISE = {"wait_terminated": "aterminated"}
BLOCKS = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}
READS = {"events"}  # a property, of a result
NAME = r"`(?:\w+ )*(\w+)[^`]*`"


def twin_of(name: str) -> str:
    return NAMED_OTHERWISE.get(name) or BLOCKS.get(name) or f"a{name}"


def waiting(cls: type) -> set[str]:
    """The names of a class's calls that can wait: all that are not said to be done at once."""
    names = {name for name, value in inspect.getmembers(cls) if callable(value) and not name.startswith("_")}
    names |= {name for name in BLOCKS if hasattr(cls, name)}
    names |= {name for name in READS if isinstance(getattr(cls, name, None), property)}
    twins = {twin_of(name) for name in names}
    return names - twins - AT_ONCE[cls]


def signature_of(cls: type, name: str) -> tuple[list[Any], str]:
    found: Any = getattr(cls, name)
    signature = inspect.signature(getattr(found, "fget", found))
    parameters = [(one.name, one.kind, one.default, one.annotation) for one in signature.parameters.values()]
    return parameters, str(signature.return_annotation).replace("AsyncIterator", "Iterator")


PAIRS = [(cls, name) for cls in AT_ONCE for name in sorted(waiting(cls))]


@pytest.mark.parametrize("cls", AT_ONCE)
def test_each_call_that_can_wait_has_a_twin_of_the_same_signature_that_points_to_it(cls: type) -> None:
    for name in waiting(cls):
        twin = twin_of(name)
        assert hasattr(cls, twin), f"{cls.__name__}.{name} can wait and has no twin; is it done at once?"
        assert signature_of(cls, twin) == signature_of(cls, name)
        if name not in {"dispose", "__enter__", "__exit__"}:
            said = " ".join((getattr(cls, twin).__doc__ or "").split())
            assert said.startswith(f"As `{name}`, "), said
            assert "event loop" in said


def test_a_name_that_is_another_of_a_call_is_one_of_its_twin_too() -> None:
    assert vars(Run)["dispose"] is vars(Run)["cancel"]
    assert vars(Run)["adispose"] is vars(Run)["acancel"]


# What is said on a loop. Each call is made twice, and is warned of once.


def _in_block(block: Any) -> None:
    with block:
        pass


Calls = dict[tuple[type, str], Callable[[], object]]


class Caller:
    """Has something to call each call on."""

    def __init__(self) -> None:
        app = App(
            "app",
            LlmAgent("agent", ScriptedModel(default="ok")),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        self.runner = Runner(app, log=MemoryEventLog())
        self.others = [Runner(app, log=MemoryEventLog()) for _ in range(2)]

    def close(self) -> None:
        for runner in (self.runner, *self.others):
            runner.close()

    def runs(self, call: Callable[[Run], object]) -> Callable[[], object]:
        """Make a call on a new run that was started."""
        return lambda: call(self.begun())

    def begun(self) -> Run:
        run = self.runner.run(**KEY, message="hi")
        run.begin()
        return run

    def calls(self) -> Calls:
        runner, session, sessions = self.runner, self.runner.session(**KEY), self.runner.sessions
        new = iter(range(10))
        return {
            (Run, "start"): self.runs(Run.start),
            (Run, "result"): self.runs(Run.result),
            (Run, "answer"): self.runs(Run.answer),
            (Run, "wait_terminated"): self.runs(Run.wait_terminated),
            (Run, "cancel"): self.runs(lambda run: run.cancel(wait=True)),
            (Run, "dispose"): self.runs(lambda run: run.dispose(wait=True)),
            (Run, "text_stream"): self.runs(lambda run: list(run.text_stream())),
            (Run, "__iter__"): self.runs(list),
            (Run, "__enter__"): self.runs(_in_block),
            (Run, "__exit__"): self.runs(_in_block),
            (Runner, "attach"): lambda: runner.attach(**KEY),
            (Runner, "pending"): lambda: runner.pending(**KEY),
            (Runner, "cancel"): lambda: runner.cancel(**KEY, invocation_id="none"),
            (Runner, "recover"): runner.recover,
            (Runner, "recover_all"): runner.recover_all,
            (Sessions, "create"): lambda: sessions.create(user_id="u"),
            (Sessions, "get"): lambda: sessions.get(**KEY),
            (Sessions, "list"): sessions.list,
            (Sessions, "exists"): lambda: sessions.exists(**KEY),
            (Sessions, "events"): lambda: sessions.events(**KEY),
            (Sessions, "runs"): lambda: sessions.runs(**KEY),
            (Sessions, "set_state"): lambda: sessions.set_state(**KEY, delta={}),
            (Sessions, "delete"): lambda: sessions.delete(user_id="u", session_id="none"),
            (Session, "attach"): session.attach,
            (Session, "pending"): session.pending,
            (Session, "cancel"): lambda: session.cancel(invocation_id="none"),
            (Session, "info"): session.info,
            (Session, "state"): session.state,
            (Session, "exists"): session.exists,
            (Session, "create"): lambda: runner.session(user_id="u", session_id=f"{next(new)}").create(),
            (Session, "events"): session.events,
            (Session, "runs"): session.runs,
            (Session, "set_state"): lambda: session.set_state({}),
            (Session, "delete"): runner.session(user_id="u", session_id="none").delete,
            (Runner, "__enter__"): lambda: _in_block(self.others[1]),
            (Runner, "__exit__"): lambda: _in_block(self.others[1]),
            (Runner, "close"): self.others[0].close,
        }


SPELT = {"__iter__": "async for", "__enter__": "async with", "__exit__": "async with", "dispose": "acancel"}


def test_each_blocking_call_on_a_thread_with_a_loop_is_warned_of_once_by_the_name_of_its_twin(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller()
    result = caller.begun().result()
    calls: Calls = {**caller.calls(), (RunResult, "events"): lambda: result.events}
    assert sorted(calls, key=str) == sorted(PAIRS, key=str)

    async def main() -> None:
        for (cls, name), call in calls.items():
            monkeypatch.setattr(loop_warnings, "_warned", set[str]())
            caplog.clear()
            call()
            call()
            said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
            assert len(said) == 1, (cls, name, said)
            assert SPELT.get(name, twin_of(name)) in said[0], (cls, name, said)

    try:
        asyncio.run(main())
    finally:
        caller.close()


def test_no_twin_and_no_call_that_is_done_at_once_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_warnings, "_warned", set[str]())

    async def main() -> None:
        caller = Caller()
        runner, session = caller.runner, caller.runner.session(**KEY)
        async with runner.run(**KEY, message="hi") as run:
            async for _ in run:
                pass
        result = await run
        assert [event.text for event in await result.aevents()][:2] == ["hi", "ok"]
        twins: list[Awaitable[object]] = [
            *(runner.apending(**KEY), runner.aattach(**KEY), runner.acancel(**KEY), runner.arecover()),
            *(runner.arecover_all(), session.aexists(), session.ainfo(), session.astate()),
            *(session.aruns(), session.aevents(), run.acancel(wait=True)),
            *(run.aterminated(), run.adispose(), runner.sessions.alist()),
        ]
        await asyncio.wait_for(asyncio.gather(*twins), PATIENCE)
        assert await session.adelete()
        assert await run.aterminated(PATIENCE)
        assert (runner.active(), runner.residual(), run.cancel().already_ended) == ([], [], True)
        runner.stop(**KEY)
        assert "runs_active" in runner.metrics()
        for one in (runner, *caller.others):
            await one.aclose()

    asyncio.run(main())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_the_page_has_each_pair() -> None:
    """A row holds the calls, and the one beside it their twins in the same order."""
    table = [line.split("|")[2:4] for line in read(Path("docs/asyncio.md")).splitlines() if "| `" in line]
    pairs = {
        pair
        for calls, twins in table
        for pair in zip(
            re.findall(NAME, calls), re.findall(NAME, twins.replace(" or `await run`", "")), strict=True
        )
    }
    missing = {(name, twin_of(name)) for _, name in PAIRS if name not in BLOCKS} - pairs
    assert missing == set()
