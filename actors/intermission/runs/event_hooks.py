"""`EventGate`: plugins look at a run's events, one after another, before anybody is shown them."""

import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from intermission.errors import OverloadedError
from intermission.events import Event
from intermission.kernel.promise import Promise
from intermission.kernel.workers import Budget
from intermission.runs.calls import Blocking, OpenCall, Outcome
from intermission.runs.environment import Environment
from intermission.runs.hooks import first_answer, hook_calls, shown_of
from intermission.runs.result import CancelSource
from intermission.runs.signals import RunOver
from intermission.runs.stream import Author, Own

__all__ = ["EventGate"]


@dataclass(slots=True)
class _Item:
    """An event on its way; with what makes a consumer's own of it, and who waits until it is shown."""

    event: Event
    own: Own | None = None
    stored: Promise[Event | None] | None = None


class EventGate:
    """Has the events of one run looked at, in their order, and shows what comes of it.

    One event at a time, on a worker; an async hook goes on as a task, and no thread waits for it. Nobody is
    held up but who waits for the event: the strand that has it stored goes on when it is shown.

    Args:
        environment: Of the run.
        told: Called with each stored event when it is shown.
    """

    def __init__(self, environment: Environment, told: Callable[[Event], None]) -> None:
        self._environment = environment
        self._run = environment.run
        self._told = told
        self._context = environment.context()
        self._lock = threading.RLock()  # a signal handler may end the run inside of it
        self._items: deque[_Item] = deque()
        self._steps: Generator[Blocking, Any, None] | None = None  # while an event is looked at
        # Of messages that are not whole yet, the text of their partials: as it came, and as it was shown.
        self._partials: dict[Author, tuple[str, str]] = {}
        self._run.through = self.put

    def put(self, event: Event, own: Own | None = None, stored: Promise[Event | None] | None = None) -> None:
        """Show an event when those before it are shown, and then answer `stored`."""
        with self._lock:
            self._items.append(_Item(event, own, stored))
            if self._steps is not None:
                return
            self._steps = self._look()
        self._submit(Outcome())

    def _look(self) -> Generator[Blocking, Any, None]:
        while (item := self._next()) is not None:
            keywords = {"invocation_context": self._context, "event": item.event}
            hooks = hook_calls(self._environment.plugins, "on_event_callback", keywords)
            answer: Event | None = yield from first_answer(hooks, Event)
            self._show(item, answer)

    def _next(self) -> _Item | None:
        with self._lock:
            if self._items:
                return self._items.popleft()
            self._steps = None
            return None

    def _show(self, item: _Item, answer: Event | None) -> None:
        event, seq = item.event, item.event.seq
        author = (event.author, event.branch)
        came, seen = self._partials.pop(author, ("", ""))
        if seq is None:
            self._partials[author] = (came + event.text, seen + (answer or event).text)
        own = event if item.own is None else item.own(event.shown)
        if answer is None and (seq is None or came == seen):
            told = own
            self._run.show_now(event, item.own)
        else:
            # Who does not say what partials have shown shows the whole again, as without plugins.
            told = answer or own
            shown = shown_of(seen, told.text) if event.shown else 0
            told = replace(told, seq=seq, partial=event.partial, shown=shown)
            self._run.show_now(told, None, True)
        if seq is not None:
            self._told(told)
        if item.stored is not None:
            item.stored.keep(event)

    # On which thread.

    def _submit(self, outcome: Outcome) -> None:
        self._environment.submit(self._drive, outcome, refused=self._refused, budget=Budget.HOOKS)

    def _drive(self, outcome: Outcome | None) -> None:
        while outcome is not None:
            steps = self._steps
            if steps is None or self._environment.scope.cancelled:
                self._leave()
                return
            try:
                value, error = outcome
                blocking = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            except Exception as raised:  # noqa: BLE001 - it is the run's
                self._run.fail(raised)  # before who waits for an event finds out that it is over
                self._leave()
                return
            call = OpenCall(
                self._run,
                self._environment.services,
                self._environment.scope,
                blocking,
                go_on=self._submit,
                leave=self._leave,
            )
            outcome = call.perform()

    def _leave(self) -> None:
        """Show nothing more: the run is over."""
        with self._lock:
            items, self._items = list(self._items), deque()
        for item in items:
            if item.stored is not None:
                item.stored.fail(RunOver())

    def _refused(self) -> None:
        error = OverloadedError(
            "no worker was free in time to look at an event, so the run was ended. What was stored before is "
            "kept. Start fewer runs at once, or give the runner more workers."
        )
        self._run.cancel(CancelSource.OVERLOAD, "no worker was free in time", error=error)
        self._leave()
