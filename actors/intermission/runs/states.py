"""`RunState`: how far a run is."""

__all__ = ["RunState"]


class RunState:
    """The states of a run, in their order."""

    CREATED = "created"
    QUEUED = "queued"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
