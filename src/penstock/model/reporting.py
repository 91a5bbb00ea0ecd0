"""Progress reports of long-running work: the interface that all rooms share, and an implementation that stays quiet."""

from __future__ import annotations

from typing import Protocol

__all__ = ["QuietReporter", "Reporter"]


class Reporter(Protocol):
    """Reports the progress of a long run to a person."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin the next stage of the run, with its number of steps if known."""

    def advance(self, steps: int = 1) -> None:
        """Count some steps of the stage as done."""

    def note(self, text: str) -> None:
        """Tell the person something they should know."""


class QuietReporter:
    """Reports nothing: for tests, and for callers that watch something else."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Ignore it."""

    def advance(self, steps: int = 1) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""
