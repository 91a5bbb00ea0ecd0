"""Matches archived messages against many selectors, inside Spark's tasks ([PADRES] section 4.1, over all history).

The paper records a bit for each of some fifty publications; here every archived message counts, and of a sample of
them it is kept which selectors wanted it. What a task tells is added up, so that it does not matter who had which rows.
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
"""What ``matched`` tells: a row per selector, and one per sampled message, which has the selectors that wanted it."""

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
    """The index over some selectors, with what they take attributes for."""

    def __init__(self, selectors: Sequence[str]) -> None:
        parsed = [Selector.parse(text) for text in selectors]
        self.kinds: AttributeKinds = kinds_of(parsed)
        self.index = MatchIndex()
        for number, selector in enumerate(parsed):
            self.index.add(number, selector)


@lru_cache(maxsize=1)
def matcher_of(selectors: tuple[str, ...]) -> Matcher:
    """The matcher for selectors; a worker that has it keeps it for its next task."""
    return Matcher(selectors)


def matched(batches: Iterator[Any], selectors: tuple[str, ...]) -> Iterator[Any]:
    """What selectors want of Arrow batches with the columns ``attributes``, ``bytes`` and ``sample``."""
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
