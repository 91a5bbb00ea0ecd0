"""Compares the figures of two versions that ran in turn: ratios with intervals, and which of them are regressions.

The two runs of a round are a pair, since they saw the same machine in the same minute. A figure's ratio is the median
of new/old over all pairs, its interval the smallest and the largest of them. A figure is a regression if its median is
more than 10 % worse and no pair contradicts it, so a single noisy round does not fail a check. By chance alone, n pairs
agree that a figure is worse once in 2 to the n: with two or three rounds on a busy machine, expect false alarms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Final, TypeAlias

__all__ = ["TOLERANCE", "Better", "Comparison", "Figures", "better_of", "compare", "not_compared"]

Figures: TypeAlias = dict[str, dict[str, float]]
"""The figures of one run, by benchmark and name, as ``python -m bench --json`` writes them."""

TOLERANCE: Final = 0.10
"""How much worse a figure may become."""
_RATES: Final = re.compile(r"(?:^|_)per_s(?:_|$)")
_TIMES: Final = re.compile(r"(?:^|_)(?:ns|us|ms)(?:_|$)")


class Better(Enum):
    """Which direction of a figure is an improvement."""

    HIGHER = "higher"
    LOWER = "lower"
    UNJUDGED = "unjudged"
    """Neither: a share of a processor, a count, a ratio to a baseline that varies by itself."""


@dataclass(slots=True, frozen=True)
class Comparison:
    """One figure of both versions."""

    bench: str
    figure: str
    old: float
    """Median of the old version."""
    new: float
    ratio: float
    """Median of new/old over the pairs."""
    lowest: float
    highest: float

    @property
    def is_regression(self) -> bool:
        """Whether the new version is worse beyond the tolerance, and worse in every pair."""
        match better_of(self.figure):
            case Better.HIGHER:
                return self._has_fallen
            case Better.LOWER:
                return self._has_risen
            case _:
                return False

    @property
    def verdict(self) -> str:
        """One word for the table; empty if the figure is not judged."""
        better = better_of(self.figure)
        if better is Better.UNJUDGED:
            return ""
        if self.is_regression:
            return "WORSE"
        return "better" if self._has_risen or self._has_fallen else "same"

    @property
    def _has_fallen(self) -> bool:
        return self.ratio < 1 - TOLERANCE and self.highest < 1

    @property
    def _has_risen(self) -> bool:
        return self.ratio > 1 + TOLERANCE and self.lowest > 1


def better_of(figure: str) -> Better:
    """The direction in which a figure improves, by the unit in its name."""
    if _RATES.search(figure):
        return Better.HIGHER
    if _TIMES.search(figure):
        return Better.LOWER
    return Better.UNJUDGED


def compare(pairs: Sequence[tuple[Figures, Figures]]) -> list[Comparison]:
    """Compare every figure that both versions have in every round; ``pairs`` holds (old, new) for each round."""
    return [
        _comparison(pairs, bench, figure) for bench, figure in _names(pairs[0][0]) if _is_whole(pairs, bench, figure)
    ]


def not_compared(pairs: Sequence[tuple[Figures, Figures]]) -> list[str]:
    """Figures that could not be compared: absent from a run, or zero in one, so that there is no ratio."""
    seen = dict.fromkeys(name for pair in pairs for run in pair for name in _names(run))
    return [f"{bench} {figure}" for bench, figure in seen if not _is_whole(pairs, bench, figure)]


def _comparison(pairs: Sequence[tuple[Figures, Figures]], bench: str, figure: str) -> Comparison:
    olds = [old[bench][figure] for old, _ in pairs]
    news = [new[bench][figure] for _, new in pairs]
    ratios = [new / old for old, new in zip(olds, news, strict=True)]
    return Comparison(bench, figure, median(olds), median(news), median(ratios), min(ratios), max(ratios))


def _names(run: Figures) -> list[tuple[str, str]]:
    return [(bench, figure) for bench, figures in run.items() for figure in figures]


def _is_whole(pairs: Sequence[tuple[Figures, Figures]], bench: str, figure: str) -> bool:
    return all(run.get(bench, {}).get(figure, 0.0) > 0 for pair in pairs for run in pair)
