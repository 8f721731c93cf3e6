"""Signals within a run. They are no errors, and agents do not get to see them."""

__all__ = ["RunOver", "RunPaused", "RunStopped"]


class RunOver(BaseException):
    """The run has ended meanwhile, and whoever still works for it leaves."""


class RunPaused(BaseException):
    """A call waits for an answer from outside, and there is nothing else to do here."""


class RunStopped(BaseException):
    """A stop was asked for, and the next step is not taken."""
