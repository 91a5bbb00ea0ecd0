"""The time constants of the wandering token, checked, and derived for any number of components ([Token] table 1).

The paper's unit of time is Δskip. Table 1 prints Δmin as 600 and as 1.5 · (Δop · N), which is 900 for its N of 150. Its
figures were made with the former, so Δmin is 1.0 · Δop · N here unless more is asked for. Marked as ours: the probation
and the evidence of variant ``swift``, which address the paper's open issue of a better reaction to loss.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, replace
from math import ceil, isfinite, log, sqrt
from typing import Any, Final, Self

from penstock.model.errors import MisuseError

__all__ = ["PAPER", "SWIFT", "VARIANTS", "Constants", "Plan", "TokenError"]

PAPER: Final = "paper"
SWIFT: Final = "swift"
VARIANTS: Final = (PAPER, SWIFT)

_TIME_MS_MAX: Final = 400 * 24 * 3_600_000
"""No constant is longer than this: more than a year is a mistake in units."""
_SKIPS_PER_OP: Final = 4
_MAX_PER_MIN: Final = 3
_MAX_PER_MIN_MOST: Final = 5.0
_MAX_GROWTH: Final = 0.25
_LARGE: Final = 300
"""Above this many members, Δmax exceeds three Δmin a little, so that hand-overs per operation stay the same."""
_PROBATION_SKIPS: Final = 100
_PROBATION_ROOTS: Final = 5.7
"""Probation is this many times √N skips where that is longer: rivals have to meet before it is over."""
_LOAD_MAX: Final = 0.35
"""Δop · N is at most this share of Δmax: above it, late tokens would constantly be mistaken for lost ones."""


class TokenError(MisuseError):
    """A setting of the wandering token has a value that cannot work."""


def _time(default: int, about: str, *, low: int = 1) -> Any:
    return field(default=default, metadata={"help": about, "unit": "ms", "low": low, "high": _TIME_MS_MAX})


def _share(default: float, about: str, *, low: float, high: float) -> Any:
    return field(default=default, metadata={"help": about, "unit": "", "low": low, "high": high})


@dataclass(slots=True, frozen=True)
class Constants:
    """The time constants that all components of one group share, and the variant they run."""

    variant: str = SWIFT
    skip_ms: int = _time(1_000, "how long a token stays where no operation is due (Δskip)")
    op_ms: int = _time(4_000, "how long an operation takes, and the budget it has (Δop)")
    min_ms: int = _time(600_000, "least time between two operations of one component (Δmin)")
    max_ms: int = _time(1_800_000, "how long a component waits for a token before it suspects that it is lost (Δmax)")
    growth: float = _share(1.5, "Δgen grows by this with each token that is made (K1 loss)", low=1.0, high=10.0)
    decay: float = _share(0.05, "share of Δgen - Δmax that each token received takes away (K2 loss)", low=0.0, high=1.0)
    probation_ms: int = _time(100_000, "swift: a token younger than this only skips (ours)", low=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "variant":
                _check(each, getattr(self, each.name))
        if self.variant not in VARIANTS:
            raise TokenError(f"no variant {self.variant!r}, only {' and '.join(VARIANTS)}")
        if not self.skip_ms <= self.op_ms <= self.min_ms < self.max_ms:
            raise TokenError(
                f"skip_ms {self.skip_ms}, op_ms {self.op_ms}, min_ms {self.min_ms} and max_ms {self.max_ms} must grow "
                "in this order"
            )
        if self.probation_ms >= self.max_ms:
            raise TokenError(f"probation_ms {self.probation_ms} is not below max_ms {self.max_ms}")

    @classmethod
    def for_size(
        cls,
        size: int,
        *,
        op_ms: int = 4_000,
        skip_ms: int = 0,
        min_ms: int = 0,
        load: float = 1.0,
        variant: str = SWIFT,
    ) -> Self:
        """The constants of a group of this size.

        Δmin is at least the one asked for, and long enough for every component to operate once in turn at no more than
        the given load. Δmax is three times as long, and somewhat longer in groups above 300. Δskip defaults to a
        quarter of Δop, as in table 1.
        """
        if size < 1:
            raise TokenError(f"a group needs at least 1 component, not {size}")
        if not 0 < load <= 1.0:
            raise TokenError(f"load {load} is not above 0 and at most 1")
        skip_ms = skip_ms or max(op_ms // _SKIPS_PER_OP, 1)
        least_ms = max(min_ms, ceil(op_ms * size / load), op_ms)
        return cls(
            variant,
            skip_ms,
            op_ms,
            least_ms,
            int(_max_per_min(size) * least_ms),
            probation_ms=_probation(size, skip_ms, least_ms),
        )

    @classmethod
    def for_period(cls, size: int, *, min_ms: int, op_ms: int, skip_ms: int = 0, variant: str = SWIFT) -> Self:
        """The constants of a group in which every component wants to operate every Δmin, possible or not.

        Where it is not possible (``k_load`` above 1), the intervals grow by themselves; Δmax grows with the number of
        components, so that a token that takes longer to come round is not mistaken for a lost one.
        """
        if size < 1:
            raise TokenError(f"a group needs at least 1 component, not {size}")
        skip_ms = skip_ms or max(op_ms // _SKIPS_PER_OP, 1)
        max_ms = max(_MAX_PER_MIN * min_ms, ceil(op_ms * size / _LOAD_MAX))
        return cls(variant, skip_ms, op_ms, min_ms, max_ms, probation_ms=_probation(size, skip_ms, min_ms))

    def k_load(self, size: int) -> float:
        """Δop · N / Δmin: above 1 the group is overloaded."""
        return self.op_ms * size / self.min_ms

    def of_variant(self, variant: str) -> Self:
        """These constants with another variant."""
        return replace(self, variant=variant)


@dataclass(slots=True, frozen=True)
class Plan:
    """What is asked of a group; its constants follow from this for any number of members."""

    op_ms: int = 4_000
    """Budget of one operation (Δop)."""
    min_ms: int = 0
    """Least time between two operations of one member (Δmin); 0 for as short as the number of members allows."""
    skip_ms: int = 0
    """Δskip; 0 for a quarter of Δop."""
    variant: str = SWIFT
    """``swift``, or ``paper``."""

    def __post_init__(self) -> None:
        self.constants(1)

    def constants(self, size: int) -> Constants:
        """The constants for this many members."""
        if self.min_ms:
            return Constants.for_period(
                size, min_ms=self.min_ms, op_ms=self.op_ms, skip_ms=self.skip_ms, variant=self.variant
            )
        return Constants.for_size(size, op_ms=self.op_ms, skip_ms=self.skip_ms, variant=self.variant)


def _max_per_min(size: int) -> float:
    # In large groups rivals live for about √N steps, so fewer of them should arise.
    return min(_MAX_PER_MIN + _MAX_GROWTH * log(max(size, _LARGE) / _LARGE), _MAX_PER_MIN_MOST)


def _probation(size: int, skip_ms: int, min_ms: int) -> int:
    # Two walks meet within a few times √N steps. In small groups, a hundred skips are longer than a whole round.
    skips = max(_PROBATION_SKIPS, ceil(_PROBATION_ROOTS * sqrt(size)))
    return min(skips * skip_ms, min_ms // 2)


def _check(each: Field[Any], value: object) -> None:
    kinds: tuple[type, ...] = (int,) if each.type == "int" else (int, float)
    if type(value) not in kinds:
        raise TokenError(f"{each.name} is {value!r}, must be of type {each.type}")
    assert isinstance(value, int | float)
    low, high = each.metadata["low"], each.metadata["high"]
    if not isfinite(value) or not low <= value <= high:
        raise TokenError(f"{each.name} is {value}, must be {low:g} to {high:g} {each.metadata['unit']}".rstrip())
