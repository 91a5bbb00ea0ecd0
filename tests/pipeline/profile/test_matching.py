"""What a task tells of its rows, called without Spark: it adds up to what a plain loop finds."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.pipeline.profile.matching import MATCHED_SCHEMA, matched, matcher_of
from penstock.pipeline.source.decoding import text_of
from penstock.selectors.selector import Selector
from penstock.sim.workloads import QuoteWorkload

WORKLOAD = QuoteWorkload(Random(5), days=50)
SELECTORS = tuple(dict.fromkeys(str(Selector.parse(text)) for text in WORKLOAD.subscriptions(80)))
QUOTES = WORKLOAD.sample(120)


def batch(first: int, last: int) -> Any:
    pairs = [[(name, text_of(value)) for name, value in quote.items()] for quote in QUOTES[first:last]]
    columns = {
        "attributes": pa.array(pairs, pa.map_(pa.string(), pa.string())),
        "bytes": pa.array([100 + place for place in range(first, last)]),
        "sample": pa.array([f"m{place}" if place % 3 == 0 else None for place in range(first, last)]),
    }
    return pa.RecordBatch.from_pydict(columns)


def rows(*batches: Any) -> list[dict[str, Any]]:
    return [row for made in matched(iter(batches), SELECTORS) for row in made.to_pylist()]


def test_counts_bytes_and_samples_are_those_of_a_plain_loop() -> None:
    told = rows(batch(0, 50), batch(50, 50), batch(50, 120))
    wanted = [[number for number, text in enumerate(SELECTORS) if Selector.parse(text).matches(q)] for q in QUOTES]
    counts = {row["selector"]: (row["messages"], row["bytes"]) for row in told if row["sample"] is None}
    for number in range(len(SELECTORS)):
        places = [place for place, numbers in enumerate(wanted) if number in numbers]
        assert counts.get(number, (0, 0)) == (len(places), sum(100 + place for place in places))
    samples = {row["sample"]: np.frombuffer(row["wanted"], np.uint32).tolist() for row in told if row["sample"]}
    assert samples == {f"m{place}": wanted[place] for place in range(0, 120, 3)}


def test_no_rows_tell_nothing() -> None:
    assert rows() == []
    assert rows(batch(0, 0)) == []


def test_the_columns_are_as_they_are_declared() -> None:
    (made,) = matched(iter([]), SELECTORS)
    assert [name for name, _ in (each.split() for each in MATCHED_SCHEMA.split(", "))] == made.schema.names


def test_a_worker_keeps_its_index() -> None:
    assert matcher_of(SELECTORS) is matcher_of(SELECTORS)
