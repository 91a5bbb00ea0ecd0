"""A proof with exact records, and a bound with filters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pq = pytest.importorskip("pyarrow.parquet")

from penstock.pipeline.audit.summary import AuditSummary, poisson_tail, write_findings  # noqa: E402


def summary(counts: dict[str, int] | None = None, *, is_exact: bool = False, by_chance: float = 0.0) -> AuditSummary:
    return AuditSummary(5, 1, counts or {}, is_exact, by_chance, 1e-4, {}, [], {})


def test_anything_lost_repeated_or_unexplained_is_wrong() -> None:
    assert summary({"delivered": 5}).is_clean
    for fault in ("lost", "duplicated", "unexplained"):
        assert not summary({fault: 1}).is_clean


def test_unexpected_deliveries_may_be_by_chance_with_filters_only() -> None:
    assert not summary({"unexpected": 1}, is_exact=True).is_clean
    assert summary({"unexpected": 1}, by_chance=0.5).is_clean
    assert not summary({"unexpected": 1}, by_chance=1e-5).is_clean
    assert not summary({"unexpected": 9}, by_chance=0.5).is_clean


def test_the_tail_of_chance() -> None:
    assert poisson_tail(0, 3.0) == 1
    assert poisson_tail(1, 0.0) == 0
    assert poisson_tail(2, 1.0) == pytest.approx(1 - 2 / 2.718281828459045)


def test_it_is_told_what_the_figures_are_worth() -> None:
    assert "proven" in summary(is_exact=True).lines()[1]
    assert "unnoticed with a probability of 0.0001" in summary().lines()[1]
    assert "declared gaps" in summary({"in-gap": 3}).lines()[2]
    assert json.loads(summary({"lost": 1}).to_json())["is_clean"] is False


def test_findings_are_written(tmp_path: Path) -> None:
    found = summary({"lost": 1})
    found.findings = [
        {
            "judgement": "lost",
            "subscriber": "s",
            "count": 0,
            "message_id": "x",
            "pubend": "p",
            "tick": 7,
            "brokers": ["b"],
        }
    ]
    write_findings(found, tmp_path / "a" / "found.parquet")
    (row,) = pq.read_table(tmp_path / "a" / "found.parquet").to_pylist()
    assert (row["judgement"], row["tick"], row["brokers"]) == ("lost", 7, ["b"])
