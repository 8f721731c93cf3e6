"""`Topics`: actors that are told of what happens, by the type of the message."""

import threading

import pykka

from intermission.kernel.ref import ActorRef

__all__ = ["Topics"]


class Topics:
    """Who is told of which messages. Telling costs nothing while nobody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[type, tuple[ActorRef, ...]] = {}

    def subscribe(self, ref: ActorRef, *message_types: type) -> None:
        """Tell an actor of the messages of these types from now on, in the order in which they happen.

        An actor that has stopped is told no more.

        Raises:
            ValueError: There is no type.
        """
        if not message_types:
            raise ValueError("subscribe needs the types of the messages that are wanted")
        with self._lock:
            for kind in message_types:
                known = self._subscribers.get(kind, ())
                if ref not in known:
                    self._subscribers = {**self._subscribers, kind: (*known, ref)}

    def unsubscribe(self, ref: ActorRef) -> None:
        """Tell an actor of nothing any more."""
        with self._lock:
            self._subscribers = {
                kind: tuple(other for other in refs if other != ref)
                for kind, refs in self._subscribers.items()
            }

    def wanted(self, message_type: type) -> bool:
        """Return whether somebody wants to know of such messages, so that they are worth making."""
        return message_type in self._subscribers

    def publish(self, message: object) -> None:
        """Tell those who want to know."""
        for ref in self._subscribers.get(type(message), ()):
            try:
                ref.tell(message)
            except pykka.ActorDeadError:
                self.unsubscribe(ref)
