"""A model that is asked on a thread of its own, as a run asks it."""

import contextvars
import threading
from collections.abc import Callable

from intermission.models import Model, ModelRequest, ModelResponse
from intermission.testing import Gate

__all__ = ["Asked"]

_PATIENCE = 30.0  # seconds


class Asked(threading.Thread):
    """Asks `model` in the context of the thread that made this, and keeps what comes of it.

    Attributes:
        responses: What came so far.
        outcome: What was raised, if anything was.
    """

    def __init__(self, model: Model, request: ModelRequest, then: Callable[[], object] | None = None) -> None:
        super().__init__(daemon=True)
        self._context = contextvars.copy_context()
        self._model = model
        self._request = request
        self._then = then
        self._came = Gate()
        self._came.open()
        self.responses: list[ModelResponse] = []
        self.outcome: BaseException | None = None
        self.start()

    def run(self) -> None:
        self._context.run(self._ask)

    def _ask(self) -> None:
        try:
            for response in self._model.generate(self._request):
                self.responses.append(response)
                self._came.wait()
        except BaseException as error:  # noqa: BLE001 - it is for the test to judge
            self.outcome = error.with_traceback(None)
        finally:
            del self._model
            if self._then is not None:
                self._then()

    def first(self) -> None:
        """Wait for the first response."""
        self._came.arrived()

    def has(self, count: int) -> None:
        """Wait until there are so many responses."""
        self._came.arrived(count)

    def ended(self) -> BaseException | None:
        """Wait for the end, and return the outcome."""
        self.join(_PATIENCE)
        assert not self.is_alive(), "the model is still being asked"
        return self.outcome

    @property
    def text(self) -> str:
        """What was shown."""
        return "".join(response.content.text for response in self.responses if response.partial)
