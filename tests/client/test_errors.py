import asyncio
import concurrent.futures
import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import intermission
import intermission_storage
from intermission import Cancelled, IntermissionError, ModelError, ModelErrorKind, RunTimeoutError
from intermission.client import CancelledError, LlmError
from intermission.client.errors import is_cancellation, is_recoverable, kind_of
from intermission_storage import StorageError

ROOTS = (IntermissionError, StorageError)
OF_THE_COMMAND_LINE = "intermission.cli"  # a client cannot meet them


def load(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(("__main__", "tool_child")):
            importlib.import_module(module.name)


def below(error: type[Exception]) -> Iterator[type[Exception]]:
    for each in error.__subclasses__():
        yield each
        yield from below(each)


def of_the_library() -> list[type[Exception]]:
    load(intermission)
    load(intermission_storage)
    found = [error for root in ROOTS for error in below(root)]
    ours = [error for error in found if error.__module__.partition(".")[0].startswith("intermission")]
    assert len(ours) > 50
    return ours


def test_an_error_comes_whole_out_of_a_pool_of_processes() -> None:
    for kind in of_the_library():
        error = kind.__new__(kind, "what has happened")
        error.attribute = "of its own"  # type: ignore[attr-defined]  # whatever it is made of
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(again), again.args, vars(again)) == (kind, error.args, vars(error))
    failure = LlmError(ModelError("too many", kind=ModelErrorKind.RATE_LIMIT, retry_after=3.0))
    again = pickle.loads(pickle.dumps(failure))
    assert (str(again), again.kind, again.retry_after) == (str(failure), ModelErrorKind.RATE_LIMIT, 3.0)
    assert isinstance(again.error, ModelError)


def test_each_error_of_the_library_is_of_a_kind() -> None:
    ours = of_the_library()
    met = [error for error in ours if not error.__module__.startswith(OF_THE_COMMAND_LINE)]
    own_kind = (ModelError, LlmError)
    unsorted = [
        error.__name__
        for error in met
        if not issubclass(error, own_kind) and kind_of(error.__new__(error)) is not KINDS[error.__name__]
    ]
    assert unsorted == []


KINDS = {
    **dict.fromkeys(["CancelledError", "UnrequestedCancelError"], ModelErrorKind.CANCELLED),
    **dict.fromkeys(["RunTimeoutError", "AskTimeoutError"], ModelErrorKind.TIMEOUT),
    **dict.fromkeys(
        ["OverloadedError", "SessionBusyError", "CallGivenUpError", "ConflictError"], ModelErrorKind.SERVICE
    ),
    **dict.fromkeys(
        [
            *("ValidationError", "AlreadyConsumedError", "AmbiguousResumeError", "InvalidAnswerError"),
            *("MissingCallIdError", "NothingToResumeError", "SessionExistsError", "SessionNotFoundError"),
            *("UnknownCallError", "AskCycleError", "ReentrantRunError"),
        ],
        ModelErrorKind.VALIDATION,
    ),
    **dict.fromkeys(
        [
            *("AgentDepthError", "AgentNotFoundError", "AgentTreeChangedError", "HookResultError"),
            *("InstructionError", "NotResumableError", "ReadOnlyContextError", "UnguardedScriptError"),
            "UnknownToolError",
        ],
        ModelErrorKind.CONFIGURATION,
    ),
    **dict.fromkeys(
        [
            *("ActorDeadError", "ClientClosedError", "ListenerError", "LlmCallsLimitExceededError"),
            *("RecoveryLimitError", "RunInterruptedError", "SessionClosedError", "ToolFailedError"),
            *("SystemClosedError", "SystemForkedError", "ToolArgumentError", "ToolProcessError"),
            *("ToolRaisedError", "ToolResultError", "ClaimedError", "EncodingError", "LogBusyError"),
            *("LogClosedError", "LogCorruptError", "LogForkedError", "LogFullError", "LogReadOnlyError"),
            *("LogVersionError", "StaleClaimError"),
        ],
        ModelErrorKind.OTHER,
    ),
}


@pytest.mark.parametrize("kind", ModelErrorKind)
def test_what_may_pass_by_itself_is_recoverable_and_nothing_else(kind: ModelErrorKind) -> None:
    passing = {"rate_limit", "timeout", "network", "service"}
    error = ModelError("no", kind=kind)
    assert kind_of(error) is kind
    assert is_recoverable(error) is (kind in passing)


def test_errors_that_are_nobodys_have_a_kind_too() -> None:
    assert kind_of(TimeoutError()) is ModelErrorKind.TIMEOUT
    assert kind_of(ConnectionResetError()) is ModelErrorKind.NETWORK
    assert kind_of(KeyError("x")) is ModelErrorKind.OTHER
    assert is_recoverable(RunTimeoutError("e-1", 3.0))


@pytest.mark.parametrize(
    "error",
    [
        Cancelled("enough"),
        CancelledError("enough"),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        ModelError("enough", kind=ModelErrorKind.CANCELLED),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_a_cancellation_is_known_by_itself_and_as_a_cause(error: BaseException) -> None:
    other = ValueError("x")
    assert is_cancellation(error)
    assert not is_cancellation(other)
    other.__cause__ = error
    assert is_cancellation(other)
    error.__cause__ = other  # a circle, which ends all the same
    assert is_cancellation(other)
