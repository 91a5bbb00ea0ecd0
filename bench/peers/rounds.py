"""Turns the runs of all rounds into rows: medians with their range, and what was invalid.

An invalid run has no figures, but is not forgotten: the row says how many there were and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Outcome", "Row", "Spread", "rows_of"]


@dataclass(slots=True, frozen=True)
class Outcome:
    """What one run came to: figures, or the reason why it is invalid."""

    group: str
    workload: str
    contender: str
    figures: dict[str, float]
    invalid: str = ""


@dataclass(slots=True, frozen=True)
class Spread:
    """A figure over all valid rounds."""

    median: float
    lowest: float
    highest: float


@dataclass(slots=True, frozen=True)
class Row:
    """One workload on one contender, over all rounds."""

    group: str
    workload: str
    contender: str
    rounds: int
    figures: dict[str, Spread]
    invalid: tuple[str, ...] = ()
    """The reason of each round that was invalid."""

    @property
    def remark(self) -> str:
        """What is to be said about invalid rounds; empty if there were none."""
        if not self.invalid:
            return ""
        return f"{len(self.invalid)} of {self.rounds} rounds invalid: {self.invalid[0]}"


def rows_of(outcomes: Iterable[Outcome]) -> list[Row]:
    """One row for each workload and contender, in the order of their first runs."""
    runs: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        runs.setdefault((outcome.group, outcome.workload, outcome.contender), []).append(outcome)
    return [_row(found) for found in runs.values()]


def _row(runs: Sequence[Outcome]) -> Row:
    valid = [each.figures for each in runs if not each.invalid]
    names = list(valid[0]) if valid else []
    figures = {name: _spread([each[name] for each in valid]) for name in names}
    reasons = tuple(each.invalid for each in runs if each.invalid)
    return Row(runs[0].group, runs[0].workload, runs[0].contender, len(runs), figures, reasons)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))
