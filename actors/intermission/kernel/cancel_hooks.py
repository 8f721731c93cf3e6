"""Hooks on cancel scopes: each runs once, on the canceller's thread or on one of its own."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

from intermission.kernel.timer import Timer, default_timer
from intermission.kernel.workers import Budget, Workers

__all__ = [
    "CancelHandle",
    "Cancelled",
    "Escalate",
    "Force",
    "ScopeHost",
    "Track",
    "default_host",
    "hook_name",
    "timer_of",
]

logger = logging.getLogger(__name__)

_SENT, _BEGUN = "sent", "begun"  # keys of a hook's two write-once slots
_REMOVED = object()

Track: TypeAlias = Callable[[Callable[[], object]], tuple[Callable[[], object], Callable[[], object]]]
"""Given a hook that is about to run, returns what is called now, and what is called when it has ended."""


class Force(StrEnum):
    """A step of force: what is done to work that does not end by being asked."""

    HOOK_REJECTED = "hook_rejected"
    """A user's hook on a cancel was not run: too many are stuck."""
    TERMINATED = "terminated"
    """A child process and its group were sent SIGTERM."""
    KILLED = "killed"
    """A child process and its group were sent SIGKILL."""


Escalate: TypeAlias = Callable[[Force, str], None]
"""Called with each step of force and what it was done to, on the thread that does it; quick."""


class Cancelled(BaseException):
    """The work that a scope covers was cancelled; let it pass. No `Exception`, so few catch it by accident.

    Attributes:
        reason: What the canceller said.
        source: Who cancelled, for example `"caller"` or `"deadline"`, if that was said.
    """

    def __init__(self, reason: str = "", source: str | None = None) -> None:
        super().__init__(reason, source)
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        """Return the reason, or what happened if there is none."""
        return self.reason or (f"cancelled by {self.source}" if self.source else "cancelled")


class ScopeHost:
    """What scopes need from the runtime that they belong to; a child has its parent's.

    Args:
        timer: For deadlines, and for what must not run in a signal handler. If its clock is steered, sleeps
            follow it, too.
        workers: Run the users' hooks, on `Budget.ABORT`.
        track: Given a user's hook that is about to run, returns what is called now, and when it has ended.
        escalate: Is told of each step of force.
    """

    __slots__ = ("escalate", "timer", "track", "workers")

    def __init__(
        self, timer: Timer, workers: Workers, track: Track | None = None, escalate: Escalate | None = None
    ) -> None:
        self.timer = timer
        self.workers = workers
        self.track = track
        self.escalate = escalate


class CancelHandle:
    """A hook on a scope, until it is removed or has run."""

    __slots__ = ("_context", "_hook", "_host", "_links", "_once", "_over")

    def __init__(
        self,
        links: dict[Any, Any],
        host: ScopeHost | None,
        hook: Callable[[], object],
        context: Context | None,
    ) -> None:
        self._links = links
        self._host = host
        self._hook = hook
        self._context = context  # None: an internal hook, which runs on the canceller's thread
        self._once: dict[str, object] = {}
        self._over: Callable[[], object] | None = None

    def remove(self) -> bool:
        """Take the hook away. Return whether it has not begun; then it never will."""
        self._links.pop(self, None)
        return self._once.setdefault(_BEGUN, _REMOVED) is _REMOVED  # not itself, which would be a circle

    def fire(self) -> None:
        """Run the hook, or see to it, if nobody has. For the scope."""
        self._only_once(_SENT, self._run if self._context is None else self._send)
        self._links.pop(self, None)

    def _run(self) -> None:
        try:
            self._only_once(_BEGUN, self._hook)
        finally:
            self._tell_over()

    def _tell_over(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()

    def _only_once(self, slot: str, step: Callable[[], object]) -> None:
        # The slot is given back if an interrupt kept the step from its end: whoever cancels again takes it.
        mine = object()
        try:
            if self._once.setdefault(slot, mine) is mine:
                step()
        except (Exception, Cancelled) as error:  # noqa: BLE001 - one bad hook must not cost the others their turn
            self._report("a hook on a cancelled scope failed", error)
        except BaseException:
            if self._once.get(slot) is mine:
                self._once.pop(slot, None)
            raise

    def _send(self) -> None:
        # Over the timer, since handing a job to a pool takes a lock.
        track = None if self._host is None else self._host.track
        try:
            if track is not None:
                begin, self._over = track(self._hook)
                begin()
            timer_of(self._host).call_soon(self._submit)
        except BaseException:
            self._tell_over()
            raise

    def _submit(self) -> None:
        for host in (self._host or _default_host, _default_host):
            # The workers of a parent process refuse; those of a runtime that is closed call `_reject`.
            with suppress(RuntimeError):
                host.workers.submit(
                    self._run, refused=self._reject, budget=Budget.ABORT, context=self._context
                )
                return
        self._reject()

    def _reject(self) -> None:
        logger.error("a hook on a cancelled scope was not run: too many are stuck, or the runtime is closed")
        if self._host is not None and self._host.escalate is not None:
            self._host.escalate(Force.HOOK_REJECTED, hook_name(self._hook))
        self._tell_over()

    def _report(self, text: str, error: BaseException) -> None:
        # Logging takes locks, and this may be a signal handler.
        with suppress(RuntimeError):
            timer_of(self._host).call_soon(partial(logger.error, text, exc_info=error))


def hook_name(hook: Callable[[], object]) -> str:
    """Return what a hook is called, for people."""
    return getattr(hook, "__name__", type(hook).__name__)


def timer_of(host: ScopeHost | None) -> Timer:
    """Return the timer of a scope's host. Work that outlives its runtime still has deadlines."""
    return default_timer() if host is None or host.timer.is_closed else host.timer


def default_host() -> ScopeHost:
    """Return the host of what belongs to no runtime, or outlives its own. It is never closed."""
    return _default_host


def _new_default() -> ScopeHost:
    timer = default_timer()
    return ScopeHost(timer, Workers(timer=timer, idle=0.5, name="intermission-abort"))


def _after_fork() -> None:
    global _default_host
    _default_host = _new_default()


# For scopes that belong to no runtime. It has no thread while there is nothing to do.
_default_host = _new_default()
os.register_at_fork(after_in_child=_after_fork)
