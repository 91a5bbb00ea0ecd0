"""Options that contradict each other are refused, and figures are summed by way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from penstock.model.errors import MisuseError
from penstock.pipeline.trace.running import TraceOptions, summed


def way(number: int, *routed: str, **more: Any) -> dict[str, Any]:
    plain = {"probable_false_positives": [], "unreachable": [], "gaps": [], "is_complete": True}
    return {"way": number, "routed_by": list(routed), **plain, **more}


def use(traces: int, receivers: int = 0, error: float = 0.0) -> dict[str, Any]:
    return {"traces": traces, "receivers": receivers, "checked": 5 * traces, "expected": 0.5, "error": error}


def test_figures_are_summed_by_way() -> None:
    gap = {"broker": "c", "history": "route/1", "reason": "crash", "span": None}
    ways = [
        way(1, "a", "b", probable_false_positives=["z"]),
        way(2),
        way(3, is_complete=False, unreachable=["c"]),
        way(4, "a", is_complete=False, gaps=[gap, gap]),
    ]
    summary = summed(ways, {1: use(10, 30, 0.1), 2: use(3), 3: use(2), 4: use(1, 1, 0.2)})
    assert (summary.ids, summary.found, summary.absent, summary.uncertain, summary.incomplete) == (16, 11, 3, 2, 3)
    assert (summary.receivers, summary.checked, summary.false_receivers) == (31, 80, 2.0)
    assert (summary.probable_false_positives, summary.error_probability_max) == (10, 0.2)
    assert (summary.routed_by, summary.unreachable, summary.gaps) == ({"a": 11, "b": 10}, {"c": 2}, {"crash": 1})
    assert "16 messages: 11 found" in summary.lines()[0]


def test_ids_are_named_once(tmp_path: Path) -> None:
    for more in ({}, {"source": "publications", "ids": ("x",)}):
        with pytest.raises(MisuseError, match="name the ids once"):
            TraceOptions("lake", tmp_path, **more)  # type: ignore[arg-type]


def test_results_that_are_there_are_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(MisuseError, match="is not empty"):
        TraceOptions("lake", tmp_path, "publications")
    assert TraceOptions("lake", tmp_path, "publications", overwrite=True).overwrite
    with pytest.raises(MisuseError, match="-1 ms is negative"):
        TraceOptions("lake", tmp_path / "new", "publications", slack_ms=-1)
