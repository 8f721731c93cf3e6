"""Hooks on cancel scopes: each runs once, on the canceller's thread or on one of its own."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from enum import StrEnum
from typing import Any, Protocol

from intermission.kernel.timer import Timer, default_timer
from intermission.kernel.workers import Budget, Workers

__all__ = [
    "CancelHandle",
    "Cancelled",
    "Force",
    "ScopeHost",
    "ScopeOwner",
    "default_host",
    "hook_name",
    "timer_of",
]

logger = logging.getLogger(__name__)

_SENT, _BEGUN = "sent", "begun"  # keys of a hook's two write-once slots
_REMOVED = object()


class Force(StrEnum):
    """A step of force: what is done to work that does not end by being asked."""

    HOOK_REJECTED = "hook_rejected"
    """A user's hook on a cancel was not run: too many are stuck."""
    TERMINATED = "terminated"
    """A child process and its group were sent SIGTERM."""
    KILLED = "killed"
    """A child process and its group were sent SIGKILL."""


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


class ScopeOwner(Protocol):
    """Whose work scopes cover: a run, which is told what becomes of it; on any thread, and quick.

    Attributes:
        extra: What log lines say of it.
    """

    extra: Mapping[str, Any]

    def track(self, hook: Callable[[], object]) -> tuple[Callable[[], object], Callable[[], object]]:
        """A user's hook is about to run; return what is called now, and what is called when it has ended."""
        ...

    def hook_failed(self) -> None:
        """A user's hook has raised."""
        ...

    def escalate(self, force: Force, name: str) -> None:
        """A step of force was taken against something of that name."""
        ...


class ScopeHost:
    """What scopes need from the runtime that they belong to; a child has its parent's.

    Args:
        timer: For deadlines, and for what must not run in a signal handler. If its clock is steered, sleeps
            follow it, too.
        workers: Run the users' hooks, on `Budget.ABORT`.
        owner: Whose work they cover, if that is somebody's.
    """

    __slots__ = ("owner", "timer", "workers")

    def __init__(self, timer: Timer, workers: Workers, owner: ScopeOwner | None = None) -> None:
        self.timer = timer
        self.workers = workers
        self.owner = owner


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
            with suppress(RuntimeError):  # not here: logging takes locks, and this may be a signal handler
                timer_of(self._host).call_soon(self._failed, error)
        except BaseException:
            if self._once.get(slot) is mine:
                self._once.pop(slot, None)
            raise

    def _send(self) -> None:
        # Over the timer, since handing a job to a pool takes a lock.
        try:
            if self._owner is not None:
                begin, self._over = self._owner.track(self._hook)
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

    @property
    def _owner(self) -> ScopeOwner | None:
        return None if self._host is None else self._host.owner

    def _reject(self) -> None:
        owner = self._owner
        logger.error(
            "a hook on a cancelled scope was not run: too many are stuck, or the runtime is closed",
            extra=None if owner is None else owner.extra,
        )
        if owner is not None:
            owner.escalate(Force.HOOK_REJECTED, hook_name(self._hook))
        self._tell_over()

    def _failed(self, error: BaseException) -> None:
        owner = self._owner
        extra = None if owner is None else owner.extra
        logger.error("a hook on a cancelled scope failed", exc_info=error, extra=extra)
        if owner is not None and self._context is not None:
            owner.hook_failed()


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
