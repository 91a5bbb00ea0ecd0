"""The result of an audit in figures: a proof where records are exact, a bound where they are Bloom filters."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.model.errors import MisuseError
from penstock.pipeline.audit.judging import Judgement

__all__ = ["FAULTS", "AuditSummary", "poisson_tail", "write_findings"]

FAULTS: Final = (Judgement.LOST, Judgement.DUPLICATED, Judgement.UNEXPECTED, Judgement.UNEXPLAINED)
_CHANCE: Final = 1e-3
"""Unexpected deliveries less probable than this are not considered chance."""


class AuditSummary(msgspec.Struct):
    """The result of an audit."""

    messages: int
    subscriptions: int
    counts: dict[str, int]
    """Pairs of message and subscriber, by judgement."""
    is_exact: bool
    """Whether all deliveries are exact records: then the result is a proof."""
    unexpected_by_chance: float
    """Receivers that filters are expected to claim wrongly."""
    miss_probability: float
    """The mean probability that a lost message goes unnoticed because a filter claims its delivery by chance."""
    by_subscription: dict[str, dict[str, int]]
    findings: list[dict[str, Any]]
    """Individual faults, up to a maximum number."""
    unreadable: dict[str, str]

    def count(self, judgement: Judgement) -> int:
        """Number of pairs with one judgement."""
        return self.counts.get(judgement, 0)

    @property
    def chance(self) -> float:
        """The probability of at least this many unexpected deliveries if in truth there are none."""
        found = self.count(Judgement.UNEXPECTED)
        return poisson_tail(found, self.unexpected_by_chance)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong; with filters, unexpected deliveries may be chance."""
        others = [each for each in FAULTS if each is not Judgement.UNEXPECTED]
        if any(self.count(each) for each in others):
            return False
        return self.count(Judgement.UNEXPECTED) == 0 or (not self.is_exact and self.chance >= _CHANCE)

    def to_json(self) -> str:
        """All fields, with the verdict, as JSON."""
        told: Mapping[str, Any] = {**msgspec.to_builtins(self), "is_clean": self.is_clean, "chance": self.chance}
        return msgspec.json.encode(told).decode()

    def lines(self) -> list[str]:
        """Lines for people."""
        counts = ", ".join(f"{self.count(each):,} {each}" for each in Judgement)
        lines = [f"{self.messages:,} messages, {self.subscriptions:,} durable subscriptions: {counts}"]
        if self.is_exact:
            lines.append("deliveries are exact records: what is said here is proven")
        else:
            lines.append(
                f"deliveries are Bloom histories: a lost message goes unnoticed with a probability of "
                f"{self.miss_probability:.2g}; {self.unexpected_by_chance:.3g} unexpected deliveries come by chance "
                f"(probability of at least as many as found: {self.chance:.2g}); duplicates at one broker cannot be "
                "detected"
            )
        if self.count(Judgement.IN_GAP):
            lines.append(f"{self.count(Judgement.IN_GAP):,} deliveries fall into declared gaps: nobody can tell")
        return lines


def poisson_tail(found: int, expected: float) -> float:
    """The probability of at least ``found`` events when ``expected`` are expected.

    >>> round(poisson_tail(1, 0.01), 6)
    0.00995
    """
    if found == 0:
        return 1.0
    term = total = exp(-expected)
    for number in range(1, found):
        term *= expected / number
        total += term
    return max(1 - total, 0.0)


def write_findings(summary: AuditSummary, path: Path) -> None:
    """Write the findings as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"count": pa.int64(), "tick": pa.int64(), "brokers": pa.list_(pa.string())}
    names = ("judgement", "subscriber", "message_id", "pubend", "tick", "brokers")
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    rows = [{name: each[name] for name in names} for each in summary.findings]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    except OSError as error:
        raise MisuseError(f"cannot write the findings to {path}: {error.strerror}") from None
