"""The models of `intermission demo`: one that a server has, or scripted ones on this machine."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from intermission.cli.witness import ScriptedWitness, SlotsWitness, Witness
from intermission.models import ChatCompletions
from intermission.models.base import Model
from intermission.testing import Gate, ModelServer, calls, text

__all__ = ["model_at", "model_to_talk_to", "models_of_the_office"]

_SCRIPTED = "scripted"
_ORDER = {"order_id": "1042"}


def model_at(url: str, name: str) -> ChatCompletions:
    """Return a model that says the same each time, and not too much."""
    return ChatCompletions(name, base_url=url, options={"temperature": 0, "max_tokens": 400})


@contextmanager
def model_to_talk_to(
    url: str | None, name: str | None, *, paced: bool
) -> Generator[tuple[Model, str, Witness]]:
    """Give the model at an address, or a scripted one; its address; and who saw what its server saw.

    Args:
        url: The address; `None` for a scripted one.
        name: The model's name there.
        paced: Whether a scripted one takes its time between the words.
    """
    if url is not None and name is not None:
        yield model_at(url, name), url, SlotsWitness(url)
        return
    pause = _Pause(0.05 if paced else 0.0)
    with ModelServer(
        calls(("order_status", _ORDER)),
        text(*_spoken("Your order 1042 has shipped. It was last seen in Lisbon.", pause)),
        text(*_spoken("It is in Lisbon now.", pause)),
        calls(("refund", _ORDER)),
        text(*_spoken("You get 42 euros back.", pause)),
        text(*_spoken("Once upon a time there was", pause), Gate(), "an end."),  # that nobody waits for
    ) as server:
        yield ChatCompletions(_SCRIPTED, base_url=server.url), server.url, ScriptedWitness(server)


@contextmanager
def models_of_the_office(url: str | None, name: str | None) -> Generator[tuple[str, str, str]]:
    """Give the addresses of the cashier's model and of the clerk's, and their name.

    Scripted ones have a server each, since nobody knows which of the two is asked first.
    """
    if url is not None and name is not None:
        yield url, url, name
        return
    with (
        ModelServer(calls(("charge", _ORDER)), "You were charged 42 euros.") as cashiers,
        ModelServer(calls(("write_invoice", _ORDER)), "Your invoice is written.") as clerks,
    ):
        yield cashiers.url, clerks.url, _SCRIPTED


class _Pause(Gate):
    """Stands between the words of the scripted model, which would else speak faster than a person sees."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float = 0.0) -> None:
        threading.Event().wait(self._seconds)


def _spoken(sentence: str, pause: Gate) -> Iterator[str | Gate]:
    for word in sentence.split():
        yield word + " "
        yield pause
