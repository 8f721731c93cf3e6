"""`AgentActor`: drives the agent of one run, and asks the session to store what it says."""

import pykka

from intermission.agents.base import AgentContext, BaseAgent
from intermission.events import Event
from intermission.kernel.actor import Actor, ActorCrashError
from intermission.messages import AgentDone, Append, Begin
from intermission.runs.driver import Driver
from intermission.runs.lifecycle import Lifecycle, RunOver

__all__ = ["AgentActor"]


class AgentActor(Actor):
    """The actor of one run: it handles one `Begin`, and stops when the agent is done.

    Model and tools are called on its thread; all that is stored, the session stores.
    """

    def __init__(
        self,
        run: Lifecycle,
        agent: BaseAgent,
        context: AgentContext,
        session: "pykka.ActorRef[Actor]",
    ) -> None:
        super().__init__()
        self._run = run
        self._session = session
        self._invocation_id = context.invocation_id
        self._driver = Driver(agent, context, show=run.show, store=self._store)

    def on_receive(self, message: object) -> None:
        """Handle `Begin`."""
        if not isinstance(message, Begin):
            raise TypeError(f"an agent actor takes Begin, not {message!r}")
        try:
            self._tell_session(AgentDone(self._invocation_id, self._drive()))
        except RunOver:
            pass  # the session has ended the run already, and knows all that there is to know
        finally:
            self.stop()

    def _drive(self) -> Exception | None:
        try:
            self._driver.drive()
        except RunOver:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must come to an end
            return error
        except BaseException as error:  # noqa: BLE001 - see the next line
            # A SystemExit of user code must not leave through the caller who reads the run's error.
            return ActorCrashError.of("user code", error)
        return None

    def _store(self, event: Event) -> Event:
        stored = self._run.promise()
        self._tell_session(Append(self._invocation_id, event, stored))
        return stored.wait()

    def _tell_session(self, message: Append | AgentDone) -> None:
        try:
            self._session.tell(message)
        except pykka.ActorDeadError:
            # A session ends its run before it stops, so there is nobody left to work for.
            raise RunOver from None
