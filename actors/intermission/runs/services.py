"""`Services`: what the runs of one runner share."""

from dataclasses import dataclass, field

from intermission.agents.plugins import Plugins
from intermission.isolation.children import Children
from intermission.kernel.clock import Clock
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.loops import ToolLoops
from intermission.kernel.scope import ScopeHost
from intermission.kernel.system import ActorSystem
from intermission.kernel.timer import Timer
from intermission.kernel.waits import WaitsFor
from intermission.kernel.workers import Workers
from intermission.runs.counts import Counts

__all__ = ["Services"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Services:
    """What the runs of one runner share.

    Attributes:
        system: Where actors run.
        dispatcher: Its threads; what must not happen inside a finaliser is scheduled there.
        workers: Threads for what may block: agents, models, tools, hooks.
        timer: The one timer of all deadlines.
        waits: Which session waits for which.
        clock: Where events' times come from.
        scopes: What the scopes of runs use: the same timer and workers.
        loops: Where async tools run.
        children: Processes for the tools that have one.
        plugins: The app's plugins.
        counts: What becomes of them.
    """

    system: ActorSystem
    dispatcher: Dispatcher
    workers: Workers
    timer: Timer
    waits: WaitsFor
    clock: Clock
    scopes: ScopeHost
    loops: ToolLoops
    children: Children
    plugins: Plugins
    counts: Counts = field(default_factory=Counts)
