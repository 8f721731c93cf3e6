"""Runs: the caller's handle, and the actor that drives one run."""

from intermission.runs.result import CancelSource, RunResult, RunStatus
from intermission.runs.run import Run

__all__ = ["Run", "RunResult", "RunStatus"]
