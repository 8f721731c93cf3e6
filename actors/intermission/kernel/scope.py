"""`CancelScope`: what a cancel reaches, as a tree. The canceller's thread goes down to the leaves.

No lock anywhere: a signal handler or a finaliser may cancel a scope while its thread is inside one of the
scope's methods. Instead each step is one that Python does as a whole (`dict.setdefault`, `pop`, setting an
item or an attribute), and who adds something and who cancels each write first and look at the other's
writing then. Every step can be repeated: an interrupt may hit between any two.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, Token, copy_context
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from intermission.kernel.cancel_hooks import CancelHandle, Cancelled, Force, ScopeHost, timer_of
from intermission.kernel.gates import hold, new_gate, open_gate, refuse_in_loop
from intermission.kernel.timer import Timer, TimerHandle

__all__ = ["CancelHandle", "CancelScope", "Cancelled", "Force", "ScopeHost"]

_CAUSE = "cause"  # key of the write-once slot among a scope's links


class _Cause(NamedTuple):
    reason: str
    source: str | None


_Links = dict[object, _Cause | None]


class _Shield:
    __slots__ = ("alarm", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.alarm: TimerHandle | None = None


class CancelScope:
    """Covers some work, so that others can ask it to end; a context manager, and a node in a tree.

    A scope made inside the `with` block of another, on the same thread or in the same task, is its child: a
    cancel of the parent reaches it. The first cause wins and stays. Leaving the block, by `Cancelled` too,
    which passes, takes the scope out of the tree.

    Args:
        timeout: Seconds after which the scope is cancelled, with source `"deadline"`. None: never.
        shield: Whether the scope is none of its surroundings' business: no cancel from outside reaches it,
            and it begins uncancelled inside a scope that is cancelled. The way to go on on purpose.
    """

    __slots__ = (
        "__weakref__",
        "_cause",
        "_deadline",
        "_entered",
        "_host",
        "_links",
        "_parent",
        "_shielded",
    )

    def __init__(self, *, timeout: float | None = None, shield: bool = False) -> None:
        parent = _current.get()
        self._begin(None if parent is None else parent._host)
        if timeout is not None:
            self.expire_in(timeout)
        if parent is not None and not shield:
            self.link(parent)

    @classmethod
    def child_of(
        cls, parent: "CancelScope | None", *, timeout: float | None = None, host: ScopeHost | None = None
    ) -> Self:
        """Return a child of `parent`, or without one a root, whatever scope is current.

        Args:
            parent: The scope above.
            timeout: Seconds, as for a new scope.
            host: What this scope and those below it use instead of what their parent does.
        """
        scope = cls.__new__(cls)
        scope._begin(parent._host if host is None and parent is not None else host)
        if timeout is not None:
            scope.expire_in(timeout)
        if parent is not None:
            scope.link(parent)
        return scope

    @staticmethod
    def current() -> "CancelScope | None":
        """Return the innermost scope whose `with` block this code runs in."""
        return _current.get()

    def _begin(self, host: ScopeHost | None) -> None:
        # What is seen of a cancel, and what was asked for: between the two stands a shield.
        self._cause: _Cause | None = None
        # Children, hooks and shields as keys, in their order, and the cause once there is one.
        self._links: _Links = {}
        self._parent: CancelScope | None = None
        self._host = host
        self._deadline: TimerHandle | None = None
        self._entered: Token[CancelScope | None] | None = None
        self._shielded = False

    def link(self, parent: "CancelScope") -> None:
        """Make this scope, which has no parent yet, a child of `parent`."""
        self._parent = parent
        parent._links[self] = None
        cause = parent._cause
        if cause is not None:
            self._links.setdefault(_CAUSE, cause)
            self._spread()

    def expire_in(self, seconds: float) -> None:
        """Cancel this scope in `seconds`, with source `"deadline"`, unless it is closed before.

        Raises:
            ValueError: `seconds` is not a number.
        """
        if seconds <= 0:
            self._expire(seconds)
        else:
            self._deadline = timer_of(self._host).call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        self.cancel(f"the time limit of {seconds:g} s has passed", source="deadline")

    def close(self) -> None:
        """Take this scope out of the tree, and its deadline back. Leaving the `with` block does it."""
        parent = self._parent
        if parent is not None:
            parent._links.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def cover(self) -> "Token[CancelScope | None]":
        """Make this scope the current one for code that neither begins nor ends it, until `uncover`."""
        return _current.set(self)

    @staticmethod
    def uncover(covered: "Token[CancelScope | None]") -> None:
        """Make the scope current again that was before `cover`."""
        _current.reset(covered)

    def __enter__(self) -> Self:
        """Make this scope the current one."""
        if self._entered is not None:
            raise RuntimeError("this scope is entered already; make a scope for each block")
        self._entered = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the one before current again, and close this one."""
        entered, self._entered = self._entered, None
        if entered is not None:
            try:
                _current.reset(entered)
            except ValueError:  # a generator that is closed where others have driven it
                if _current.get() is self:
                    _current.set(None if entered.old_value is Token.MISSING else entered.old_value)
        self.close()

    @property
    def cancelled(self) -> bool:
        """Whether the scope is cancelled. It stays so."""
        return self._cause is not None

    @property
    def reason(self) -> str:
        """What the canceller said, or nothing."""
        return "" if self._cause is None else self._cause.reason

    @property
    def source(self) -> str | None:
        """Who cancelled, if that was said."""
        return None if self._cause is None else self._cause.source

    @property
    def timer(self) -> Timer:
        """What counts the time of this scope's deadlines and sleeps."""
        return timer_of(self._host)

    def check(self) -> None:
        """Raise `Cancelled` if the scope is cancelled. Costs next to nothing if not."""
        if self._cause is not None:
            raise Cancelled(*self._cause)

    def cancel(self, reason: str = "", *, source: str | None = None) -> bool:
        """Cancel this scope and those below it, before this returns. The first cause wins.

        May be called anywhere: from any thread, a signal handler, a finaliser, a hook. Called again, it does
        again whatever an interrupt kept the first call from, and nothing else.

        Args:
            reason: For people.
            source: Who cancels; None is nobody in particular.

        Returns:
            Whether this was the first.
        """
        cause = _Cause(reason, source)
        first = self._links.setdefault(_CAUSE, cause) is cause
        self._spread()
        return first

    def _spread(self) -> None:
        # With a list of its own: trees can be deeper than Python's stack.
        todo: list[CancelScope] = [self]
        while todo:
            scope = todo.pop()
            cause = scope._links.get(_CAUSE)
            if cause is None or (scope._cause is None and scope._shielded and scope._is_held()):
                continue
            if scope._cause is None:
                scope._cause = cause
            for link in _keys(scope._links):
                if isinstance(link, CancelHandle):
                    link.fire()
                elif isinstance(link, CancelScope):
                    link._links.setdefault(_CAUSE, cause)
                    todo.append(link)

    def escalate(self, force: Force, name: str) -> None:
        """A step of force was taken against work that this scope covers. For the runtime, from any thread."""
        if self._host is not None and self._host.owner is not None:
            self._host.owner.escalate(force, name)

    def on_cancel(self, hook: Callable[[], object]) -> CancelHandle:
        """Run `hook` when the scope is cancelled; at once, if it is.

        Each hook runs on a thread of its own, with the context variables of this moment: one that blocks or
        raises delays no other, nor the canceller. What it raises is logged. While hundreds are stuck, a hook
        is not run, and that is logged.

        Returns:
            Its `remove` takes the hook away.
        """
        return self._add(hook, copy_context())

    def on_cancel_now(self, hook: Callable[[], object]) -> CancelHandle:
        """Run `hook` as `on_cancel` does, but before `cancel` goes on and on its thread.

        For the runtime: the hook must not block, and takes no lock that a finaliser could find taken. If an
        interrupt hits in its midst, a repeated cancel runs it once more.
        """
        return self._add(hook, None)

    def _add(self, hook: Callable[[], object], context: Context | None) -> CancelHandle:
        handle = CancelHandle(self._links, self._host, hook, context)
        self._links[handle] = None
        if self._cause is not None:
            handle.fire()
        return handle

    @contextmanager
    def shield(self, seconds: float = 5.0) -> Generator[None]:
        """Keep a cancel away from a short section that must finish.

        A cancel that comes within becomes visible, to hooks and children too, right after the section, or
        when its bound passes. One that was visible before stays so; nothing is raised by leaving.

        Args:
            seconds: The bound.
        """
        timer = timer_of(self._host)
        shield = _Shield(timer.clock.monotonic() + seconds)
        try:
            self._shielded = True
            self._links[shield] = None
            if self._cause is None and _CAUSE in self._links and not self._is_held(besides=shield):
                # It came before the section, and its canceller may not have seen the shield.
                self._links.pop(shield, None)
                self._spread()
            yield
        finally:
            self._links.pop(shield, None)
            if shield.alarm is not None:
                shield.alarm.cancel()
            if self._cause is None and _CAUSE in self._links:
                self._spread()

    def _is_held(self, besides: _Shield | None = None) -> bool:
        shields = [link for link in _keys(self._links) if isinstance(link, _Shield) and link is not besides]
        if not shields:
            return False
        last = max(shields, key=lambda shield: shield.until)
        timer = timer_of(self._host)
        left = last.until - timer.clock.monotonic()
        if left > 0 and besides is None and last.alarm is None:
            # When the bound has passed the same cause is found again, and goes on from here.
            last.alarm = timer.call_later(left, self._spread)
            if last not in self._links:
                last.alarm.cancel()
        return left > 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a cancel, as `threading.Event.wait`, and return whether the scope is cancelled.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Raises:
            RuntimeError: This thread runs an event loop, which would freeze; await `asleep` there.
        """
        refuse_in_loop("wait")
        if self._cause is None:
            gate = new_gate()
            handle = self.on_cancel_now(partial(open_gate, gate))
            try:
                hold(gate, timeout, self.timer)
            finally:
                handle.remove()
        return self._cause is not None

    def sleep(self, seconds: float) -> None:
        """Sleep, as `time.sleep`; what is negative counts as nothing.

        Raises:
            Cancelled: The scope is cancelled, or was before the time had passed.
            RuntimeError: This thread runs an event loop, which would freeze; await `asleep` there.
        """
        if self.wait(seconds):
            self.check()

    async def asleep(self, seconds: float) -> None:
        """Sleep, as `asyncio.sleep`; what is negative counts as nothing.

        Raises:
            Cancelled: The scope is cancelled, or was before the time had passed.
        """
        self.check()
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = partial(_wake, loop, woken)
        timer = timer_of(self._host)
        handle = self.on_cancel_now(wake)
        if timer.is_steered:
            alarm: TimerHandle | asyncio.TimerHandle = timer.call_later(seconds, wake)
        else:
            alarm = loop.call_later(max(0.0, seconds), _settle, woken)
        try:
            await woken
        except asyncio.CancelledError:
            self.check()  # whoever cancels a call cancels its task, too, and the sleeper is told by the scope
            raise
        finally:
            handle.remove()
            alarm.cancel()
        self.check()


_current: ContextVar[CancelScope | None] = ContextVar("intermission_scope", default=None)


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop is closed, and with it who slept there
        loop.call_soon_threadsafe(_settle, woken)


def _settle(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _keys(links: _Links) -> list[object]:
    # A copy, since hooks add and remove; a finaliser that does so while it is made is the only trouble.
    while True:
        with suppress(RuntimeError):
            return list(links)
