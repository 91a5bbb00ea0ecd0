"""Matches archived messages against many selectors, inside Spark's tasks ([PADRES] section 4.1, over all history).

The paper records a bit for each of some fifty publications; here every archived message counts, and for a sample of
them we keep which selectors wanted it. Task results are summed, so it does not matter which task had which rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.matching.index import MatchIndex
from penstock.pipeline.profile.texts import AttributeKinds, kinds_of
from penstock.selectors.selector import Selector

__all__ = ["MATCHED_SCHEMA", "matched", "matcher_of"]

MATCHED_SCHEMA: Final = "sample string, selector long, messages long, bytes long, wanted binary"
"""The rows of ``matched``: one per selector, and one per sampled message with the selectors that wanted it."""

_SCHEMA: Final = pa.schema(
    [
        ("sample", pa.string()),
        ("selector", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("wanted", pa.binary()),
    ]
)


class Matcher:
    """An index over selectors, with the types they expect of attributes."""

    def __init__(self, selectors: Sequence[str]) -> None:
        parsed = [Selector.parse(text) for text in selectors]
        self.kinds: AttributeKinds = kinds_of(parsed)
        self.index = MatchIndex()
        for number, selector in enumerate(parsed):
            self.index.add(number, selector)


@lru_cache(maxsize=1)
def matcher_of(selectors: tuple[str, ...]) -> Matcher:
    """The matcher for these selectors; a worker caches it for its next task."""
    return Matcher(selectors)


def matched(batches: Iterator[Any], selectors: tuple[str, ...]) -> Iterator[Any]:
    """Match Arrow batches with the columns ``attributes``, ``bytes`` and ``sample`` against the selectors."""
    matcher = matcher_of(selectors)
    counts = np.zeros(len(selectors), np.int64)
    sizes = np.zeros(len(selectors), np.int64)
    values, find = matcher.kinds.values, matcher.index.find
    for batch in batches:
        names: list[str] = []
        wanted: list[bytes] = []
        attributes, size, sample = (batch.column(name).to_pylist() for name in ("attributes", "bytes", "sample"))
        for pairs, length, name in zip(attributes, size, sample, strict=True):
            ids = find(values(pairs or ())).ids()
            counts[ids] += 1
            sizes[ids] += length
            if name is not None:
                names.append(name)
                wanted.append(np.sort(ids).tobytes())
        if names:
            nothing = pa.nulls(len(names), pa.int64())
            yield pa.record_batch([pa.array(names), nothing, nothing, nothing, pa.array(wanted, pa.binary())], _SCHEMA)
    seen = np.flatnonzero(counts)
    none = pa.nulls(len(seen), pa.string()), pa.nulls(len(seen), pa.binary())
    columns = [none[0], pa.array(seen), pa.array(counts[seen]), pa.array(sizes[seen]), none[1]]
    yield pa.record_batch(columns, _SCHEMA)
