"""`LlmClient`: asks a model, from any thread."""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from intermission.client.asking import Asked, ask, request_of
from intermission.client.errors import ClientClosedError
from intermission.client.result import LlmResult
from intermission.client.submitted import SubmittedCall
from intermission.errors import IntermissionError, ModelError, ModelErrorKind
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import default_timer
from intermission.kernel.workers import Budget, Workers
from intermission.models.base import Model, ModelRequest, ModelResponse
from intermission.sessions.settings import check_count

__all__ = ["LlmClient", "close_model", "model_of"]

logger = logging.getLogger(__name__)


class LlmClient:
    """Asks a model. Any number of threads may share one. A context manager.

    No call raises for trouble with the service, the network or its arguments: that is a failed result. A
    model that cannot be made is one, too, of each call. `KeyboardInterrupt` and `SystemExit` pass.

    Args:
        model: The model, or its name for `Model.from_name`, such as `"openai/gpt-4o-mini"`.
        workers: How many submitted calls are made at a time; others stand in line. Their threads come as
            they are needed.
    """

    def __init__(self, model: Model | str, *, workers: int = 64) -> None:
        self._broken: Exception | None = None
        self._model: Model | None = None
        try:
            check_count("workers", workers, 1)
            self._model = model_of(model)
        except (TypeError, ValueError, IntermissionError) as error:
            self._broken = error
        self._closed = False
        reserve = 1 if self._broken is not None else workers
        self._workers = Workers(timer=default_timer(), reserve=reserve, name="intermission-llm")
        self._submitted: dict[SubmittedCall, None] = {}

    def complete(
        self, asked: Asked, *, instruction: str = "", options: Mapping[str, Any] | None = None
    ) -> LlmResult[ModelResponse]:
        """Ask the model on this thread, and return its whole answer.

        The current `CancelScope` covers the call: a cancel of it, by another thread, a deadline or a signal
        handler, ends the call with a `CancelledError`, and so does each further call in that scope, without
        asking the model. To go on on purpose, call inside `CancelScope(shield=True)`.

        Args:
            asked: A user's text, a message, or a conversation, oldest message first.
            instruction: The system instruction.
            options: Further fields of the provider's request, such as `{"temperature": 0}`.
        """
        warn_of_blocking("LlmClient.complete", "asyncio.to_thread with it")
        try:
            model, request = self._checked(asked, instruction, options)
        except Exception as error:  # noqa: BLE001 - an argument may raise when it is looked at
            return LlmResult[ModelResponse].failure(error)
        with CancelScope() as scope:
            return ask(model, request, scope)

    def submit(
        self, asked: Asked, *, instruction: str = "", options: Mapping[str, Any] | None = None
    ) -> SubmittedCall:
        """As `complete`, on a thread of the client's; return at once. The context variables come along."""
        call = SubmittedCall(self._settled)
        self._submitted[call] = None
        try:
            model, request = self._checked(asked, instruction, options)
            call.watch()
            self._workers.submit(
                call.run,
                model,
                request,
                refused=lambda: call.settle(LlmResult[ModelResponse].failure(ClientClosedError())),
                budget=Budget.RESERVE,
                context=call.context,
            )
        except RuntimeError as error:  # this process is a fork of the one that made the client
            failure = ModelError(str(error), kind=ModelErrorKind.CONFIGURATION)
            call.settle(LlmResult[ModelResponse].failure(failure))
        except Exception as error:  # noqa: BLE001 - as in `complete`
            call.settle(LlmResult[ModelResponse].failure(error))
        return call

    def close(self, timeout: float = 5.0) -> None:
        """Take no more calls, cancel those that were submitted, close the model's connections. Idempotent.

        A call that another thread makes by `complete` goes on to its end.

        Args:
            timeout: Seconds to wait at most for the client's threads.
        """
        was_closed, self._closed = self._closed, True
        for call in list(self._submitted):
            call.cancel("the client was closed")
        try:
            self._workers.close(timeout)
        finally:  # a Ctrl-C in the wait
            if not was_closed:
                close_model(self._model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(
        self, asked: Asked, instruction: str, options: Mapping[str, Any] | None
    ) -> tuple[Model, ModelRequest]:
        request = request_of(asked, instruction, options)
        if self._model is None:
            assert self._broken is not None
            raise self._broken.with_traceback(None)
        if self._closed:
            raise ClientClosedError
        return self._model, request

    def _settled(self, call: SubmittedCall) -> None:
        self._submitted.pop(call, None)


def model_of(given: Model | str) -> Model:
    """Return a model, by its name if need be.

    Raises:
        ModelError: It is no model, or no provider is known for the name, or has what it needs.
    """
    try:
        model = Model.from_name(given) if isinstance(given, str) else given
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"the model cannot be made: {error}", kind=ModelErrorKind.CONFIGURATION) from error
    if isinstance(given, type) or not callable(getattr(model, "generate", None)):
        what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise ModelError(
            f"a client needs a Model, such as ChatCompletions(…), or its name, not {what}",
            kind=ModelErrorKind.CONFIGURATION,
        )
    return model


def close_model(model: object) -> None:
    """Close what a model keeps open, if it keeps something; what that raises is logged."""
    close = getattr(model, "close", None)
    if callable(close):
        try:
            close()
        except Exception:
            logger.exception("a model could not be closed")
