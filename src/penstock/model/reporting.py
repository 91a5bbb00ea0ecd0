"""How long work tells a person how far it has come: the interface that all rooms share, and one that stays quiet."""

from __future__ import annotations

from typing import Protocol

__all__ = ["QuietReporter", "Reporter"]


class Reporter(Protocol):
    """Tells a person how far a long run has come."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin the next part of the run, of some known number of steps."""

    def advance(self, steps: int = 1) -> None:
        """Some steps of the stage are done."""

    def note(self, text: str) -> None:
        """Something the person should know."""


class QuietReporter:
    """Tells nothing: for tests, and for callers who watch something else."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Ignore it."""

    def advance(self, steps: int = 1) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""
