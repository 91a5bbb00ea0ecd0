"""Reads logs as a table: once, from one position to another, filtered by the broker where Spark's filters allow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.pipeline.source.columns import Columns
from penstock.pipeline.source.errors import SourceError, readable
from penstock.pipeline.source.link import opened
from penstock.pipeline.source.options import SourceOptions
from penstock.pipeline.source.planning import plan_splits, ranges_between
from penstock.pipeline.source.positions import BEGINNING, end_of, narrowed, start_of
from penstock.pipeline.source.probing import LogClient, parts_of
from penstock.pipeline.source.pushdown import Pushed, pushed
from penstock.pipeline.source.reading import check_lost, read_split
from penstock.pipeline.source.splits import TickSplit
from penstock.selectors.selector import EVERYTHING

__all__ = ["PenstockReader", "PushingReader"]


class PenstockReader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns
        self._pushed = Pushed(options.selector)

    def partitions(self) -> list[InputPartition]:
        """Plan the splits that tasks read; Spark asks once, when it plans the query."""
        with readable(), opened(self._options.connecting) as client:
            return list(self._planned(client, now_ms=time.time_ns() // 1_000_000))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of one task, as record batches."""
        return read_split(self._options, self._columns, self._pushed.selector, partition)

    def _planned(self, client: LogClient, *, now_ms: int) -> list[TickSplit]:
        survey = narrowed(client.survey(), self._options.pubends)
        start, end = self._options.batch_range
        first, after = start_of(start, survey, now_ms=now_ms), end_of(end, survey)
        away = [name for name in survey.unreachable if self._pushed.wants(name)]
        if away:
            raise SourceError(
                f"pubends {', '.join(away)} cannot be reached, and without them the table is not complete"
            )
        whole = [each for each in ranges_between(first, after) if self._pushed.wants(each.pubend)]
        if self._options.missing == "fail":
            for each in whole:
                if BEGINNING < each.first < survey.spans[each.pubend].earliest:
                    _check_beginning(client, each)
        return plan_splits(client, [each for one in whole for each in self._cut(one)], self._options)

    def _cut(self, whole: TickSplit) -> list[TickSplit]:
        first, last = max(whole.first, self._pushed.first), min(whole.last, self._pushed.last)
        return [replace(whole, first=first, last=last)] if first <= last else []


class PushingReader(PenstockReader):
    """A batch read that pushes filters down to the broker; Spark refuses it unless its setting allows pushdown."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Push down what we can, and leave all filters to Spark as well."""
        self._pushed = pushed(
            filters,
            {field.name: field.dataType for field in self._columns.schema.fields},
            self._options.selector,
            by_attribute=self._options.mismatch == "null",
        )
        return filters


def _check_beginning(client: LogClient, whole: TickSplit) -> None:
    """Report lost ticks at once, rather than from one task of many."""
    with parts_of(client, whole, EVERYTHING, bytes_max=1024) as parts:
        for part in parts:
            check_lost(whole.pubend, part.lost)
            return
