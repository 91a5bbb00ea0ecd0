"""Conjunctions of one cluster that have the same shape: same bounds on the same attributes, same tests.

Most groups have at most one bound and no test: those are answered by the chain alone. Further bounds are compared in
bulk, as columns; tests are evaluated once per message for the whole group, and only when it could add anything.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.matching.chain import Bisect, Chain, Columns, Ids
from penstock.matching.links import LinkStairs
from penstock.matching.plan import Bound, GroupKey, Test, Threshold
from penstock.model.values import Attributes, AttributeValue
from penstock.selectors.normal_form import Residual

__all__ = ["NUMBERS", "TEXTS", "Group", "Verdicts"]

NUMBERS: Final = (int, float)
TEXTS: Final = (str,)

Verdicts: TypeAlias = dict[Test | Residual, bool]
"""What the tests said of the message at hand, so that none is evaluated twice for it."""

_Compare: TypeAlias = Callable[[npt.NDArray[np.float64], float], npt.NDArray[np.bool_]]

# `volume > t` matches value v where t < v: before v in the chain; with equality for >=; after it for < and <=.
_BISECTIONS: Final[dict[str, Bisect]] = {
    ">": bisect_left,
    ">=": bisect_right,
    "<": bisect_right,
    "<=": bisect_left,
}
_COMPARISONS: Final[dict[str, _Compare]] = {
    ">": np.less,
    ">=": np.less_equal,
    "<": np.greater,
    "<=": np.greater_equal,
}


class Group:
    """The members of one shape in one cluster."""

    __slots__ = ("ascending", "bisect", "chain", "key", "links", "name", "take", "types")

    def __init__(self, key: GroupKey) -> None:
        first = key.bounds[0] if key.bounds else None
        self.key: Final = key
        self.chain: Final = Chain(columns=max(0, len(key.bounds) - 1))
        self.ascending: Final = first is None or first.operator in {">", ">="}
        self.links: Final = LinkStairs(ascending=self.ascending, threshold_matters=first is not None)
        self.name: Final = first.name if first else ""
        self.types: Final[tuple[type, ...]] = TEXTS if first and first.text else NUMBERS
        self.take: Final = self.chain.before if self.ascending else self.chain.after
        self.bisect: Final = _BISECTIONS[first.operator] if first else bisect_left

    @property
    def is_simple(self) -> bool:
        """Whether the chain alone decides, and no member is found twice."""
        return len(self.key.bounds) <= 1 and not self.key.tests and not self.key.repeated

    def collect(self, attributes: Attributes, verdicts: Verdicts, found: list[Ids]) -> None:
        """Appends the members that match."""
        bounds = self.key.bounds
        if not bounds:
            if self._passes(attributes, verdicts):
                self.chain.everything(found)
            return
        value = attributes.get(self.name)
        # NaN is not equal to itself, and matches no bound.
        if value.__class__ not in self.types or value != value or not self._passes(attributes, verdicts):  # noqa: PLR0124
            return
        assert value is not None
        if len(bounds) == 1:
            self.take(value, self.bisect, found)
        else:
            self._collect_columns(value, attributes, found)

    def links_of(self, attributes: Attributes, verdicts: Verdicts, link_of: npt.NDArray[np.uint16]) -> int:
        """The links of the members that match."""
        bounds = self.key.bounds
        if len(bounds) > 1:
            found: list[Ids] = []
            self.collect(attributes, verdicts, found)
            return mask_of(np.concatenate(found), link_of) if found else 0
        if bounds:
            value = attributes.get(self.name)
            if value.__class__ not in self.types or value != value or not self._passes(attributes, verdicts):  # noqa: PLR0124
                return 0
            assert value is not None
            return self.links.at(value, self.bisect)
        return self.links.mask if self._passes(attributes, verdicts) else 0

    def _passes(self, attributes: Attributes, verdicts: Verdicts) -> bool:
        for test in self.key.tests:
            verdict = verdicts.get(test)
            if verdict is None:
                verdict = verdicts[test] = test.passes(attributes)
            if not verdict:
                return False
        return True

    def _collect_columns(self, value: Threshold, attributes: Attributes, found: list[Ids]) -> None:
        comparisons = []
        for bound in self.key.bounds[1:]:
            other = attributes.get(bound.name)
            if other.__class__ not in NUMBERS:
                return
            comparisons.append(_comparison(bound, other))
        chain = self.chain
        take = chain.slices_before if self.ascending else chain.slices_after
        for ids, columns in take(value, self.bisect):
            if ids.size:
                chosen = ids[_all_hold(comparisons, columns)]
                if chosen.size:
                    found.append(chosen)


def mask_of(ids: Ids, link_of: npt.NDArray[np.uint16]) -> int:
    """The bitmap of the links that these members came from."""
    mask = 0
    for link in np.unique(link_of[ids]).tolist():
        mask |= 1 << link
    return mask


def _all_hold(comparisons: list[tuple[_Compare, float]], columns: Columns) -> npt.NDArray[np.bool_]:
    parts: Iterator[npt.NDArray[np.bool_]] = (
        compare(column, value) for (compare, value), column in zip(comparisons, columns, strict=True)
    )
    held = next(parts)
    for part in parts:
        held &= part
    return held


def _comparison(bound: Bound, value: AttributeValue) -> tuple[_Compare, float]:
    """How to compare a column of exact floats with a value, which may be an integer that no float can hold."""
    assert isinstance(value, int | float)
    operator = bound.operator
    try:
        near = float(value)
    except OverflowError:
        near = float("inf") if value > 0 else float("-inf")
    if near == value or value != value:  # noqa: PLR0124 - NaN
        return _COMPARISONS[operator], near
    # No threshold equals the value; it lies between `near` and the next float, so strictness shifts onto `near`.
    below = near < value
    strict = {">": not below, ">=": not below, "<": below, "<=": below}[operator]
    return _COMPARISONS[operator[0] if strict else operator[0] + "="], near
