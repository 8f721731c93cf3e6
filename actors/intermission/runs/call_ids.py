"""`CallIds`: our ids for the calls of one model response, the same in each partial and in the whole."""

from collections.abc import Iterable
from dataclasses import replace

from intermission.content import Content, FunctionCall, Part
from intermission.ids import new_hex

__all__ = ["CallIds"]


class CallIds:
    """Gives each call of a response an id that is unique in the session, once, when it is first seen.

    Providers repeat ids and leave them out, so a call is told from others by its id in the response and,
    among those with the same, by its place. An id that was given here is kept: what a hook makes of a
    response may hold calls of it.
    """

    __slots__ = ("_given", "_ours")

    def __init__(self) -> None:
        self._ours: dict[tuple[str, int], str] = {}
        self._given: set[str] = set()

    def content(self, content: Content) -> Content:
        """Return what a model said with our ids; the same object if it calls nothing."""
        if type(content.parts) is tuple and not content.function_calls:
            return content
        return Content(content.role, tuple(self._parts(content.parts)))

    def _parts(self, parts: Iterable[Part]) -> Iterable[Part]:
        seen: dict[str, int] = {}
        for part in parts:
            call = part.function_call
            if call is None:
                yield part
                continue
            place = seen.get(call.id, 0)
            seen[call.id] = place + 1
            yield replace(part, function_call=FunctionCall(self._id(call.id, place), call.name, call.args))

    def _id(self, theirs: str, place: int) -> str:
        if place == 0 and theirs in self._given:
            return theirs
        key = (theirs, place)
        ours = self._ours.get(key)
        if ours is None:
            ours = self._ours[key] = f"call-{new_hex()}"
            self._given.add(ours)
        return ours
