"""Reads logs as a stream: micro-batches between positions that Spark keeps, so that each can be replayed exactly.

Offsets are ticks by pubend. Ticks pass even when nothing is published or selected, so a position also advances through
silence: at once if there are rows, else after ``silenceMs``, since each micro-batch costs Spark some files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.reading import Survey
from penstock.model.errors import PenstockError
from penstock.pipeline.source.columns import Columns
from penstock.pipeline.source.errors import readable
from penstock.pipeline.source.link import Link, Linked
from penstock.pipeline.source.offsets import advanced, bounded, latest_of, silence_ms, target_of
from penstock.pipeline.source.options import SourceOptions
from penstock.pipeline.source.planning import plan_splits, ranges_between
from penstock.pipeline.source.positions import Vector, narrowed, start_of
from penstock.pipeline.source.probing import LogClient, Reached, first_message, reach
from penstock.pipeline.source.reading import read_split
from penstock.pipeline.source.splits import TickSplit

__all__ = ["PenstockStreamReader"]

_COUNT_S_MAX: Final = 10.0
"""Time limit for counting the rows of a micro-batch; then it ends where counting stopped."""
_IDLE_S: Final = 0.05
"""Pause when nothing is new: Spark asks again at once, and would keep the broker busy."""


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Columns,
        *,
        link: Linked | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._columns = options, columns
        self._start = options.stream_start
        self._link = link or Link(options.connecting)
        self._pause = pause
        self._target: Vector | None = None
        self._seen = Survey({})

    def initialOffset(self) -> Vector:  # noqa: N802 - the names are Spark's
        """No position yet: the first micro-batch determines it, so it is in the checkpoint before anything is read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The maximum number of rows, if the option sets one."""
        rows_max = self._options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the current end of the logs: the stream stops there."""
        with readable(), self._link.client() as client:
            self._target = latest_of(self._survey(client))

    def latestOffset(self, start: Vector, limit: ReadLimit) -> Vector:  # noqa: N802
        """Where the next micro-batch ends; the start itself if there is no reason for one."""
        with readable(), self._link.client() as client:
            survey = self._survey(client)
            if not start:
                return self._first_position(survey)
            end = advanced(start, target_of(latest_of(survey), self._target))
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return self._worthwhile(client, start, end, rows_max)

    def reportLatestOffset(self) -> Vector | None:  # noqa: N802
        """The current end of the logs, for Spark's progress reports; None rather than an error if unknown."""
        with suppress(PenstockError, OSError), self._link.client() as client:
            # An unreachable broker costs a timeout: once per micro-batch is enough.
            survey = self._seen if self._seen.unreachable else self._survey(client)
            return latest_of(survey)
        return None

    def partitions(self, start: Vector, end: Vector) -> list[InputPartition]:
        """Plan the splits that the tasks of a micro-batch read."""
        with readable(), self._link.client() as client:
            return list(plan_splits(client, ranges_between(start, end), self._options))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of one task, as record batches."""
        return read_split(self._options, self._columns, self._options.selector, partition)

    def stop(self) -> None:
        """Close the connection."""
        self._link.close()

    def _survey(self, client: LogClient) -> Survey:
        self._seen = narrowed(client.survey(), self._options.pubends)
        return self._seen

    def _first_position(self, survey: Survey) -> Vector:
        found = start_of(self._start, survey, now_ms=time.time_ns() // 1_000_000)
        if self._target is None:
            return found
        # Pubends that appeared since then are left to the next run.
        return {name: tick for name, tick in found.items() if name in self._target or name in survey.unreachable}

    def _worthwhile(self, client: LogClient, start: Vector, end: Vector, rows_max: int | None) -> Vector:
        """The end, limited by rows; the start if nothing arrived and little time has passed."""
        found, has_rows = end, False
        if rows_max is not None:
            found, rows = self._bounded(client, start, end, rows_max)
            has_rows = rows > 0
        is_due = self._target is not None or len(found) > len(start)
        if is_due or has_rows or silence_ms(start, found) >= self._options.silence_ms:
            return found
        if rows_max is None and self._has_rows(client, start, end):
            return found
        self._pause(_IDLE_S)
        return dict(sorted(start.items()))

    def _bounded(self, client: LogClient, start: Vector, end: Vector, rows_max: int) -> tuple[Vector, int]:
        deadline_s = time.monotonic() + _COUNT_S_MAX

        def is_over() -> bool:
            return time.monotonic() > deadline_s

        def reach_rows(whole: TickSplit, rows: int) -> Reached:
            return reach(client, whole, selector=self._options.selector, rows_max=rows, is_over=is_over)

        return bounded(start, end, rows_max=rows_max, reach=reach_rows)

    def _has_rows(self, client: LogClient, start: Vector, end: Vector) -> bool:
        return any(
            first_message(client, each, self._options.selector) is not None for each in ranges_between(start, end)
        )
