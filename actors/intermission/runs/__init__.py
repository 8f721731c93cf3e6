"""Runs: the caller's handle, and the actor that drives one run."""

from intermission.runs.result import RunResult, RunStatus
from intermission.runs.run import Run

__all__ = ["Run", "RunResult", "RunStatus"]
