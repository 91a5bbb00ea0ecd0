"""Runs in a task: reads its ticks from the broker and hands them to Spark as Arrow batches.

The client requests the next part of the log while this one is being decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.model.tick import Tick, format_tick
from penstock.pipeline.source.columns import Columns
from penstock.pipeline.source.decoding import Decoder
from penstock.pipeline.source.errors import SourceError, readable
from penstock.pipeline.source.link import opened
from penstock.pipeline.source.options import SourceOptions
from penstock.pipeline.source.positions import BEGINNING
from penstock.pipeline.source.probing import LogClient, parts_of
from penstock.pipeline.source.splits import TickSplit
from penstock.selectors.selector import Selector

__all__ = ["batches", "check_lost", "read_split"]

_PART_BYTES: Final = 1024 * 1024
_BATCH_ROWS: Final = 8_192
_BATCH_BYTES: Final = 4 * 1024 * 1024
"""A batch is complete at this many rows or bytes; a single message may still be larger."""
_SHOWN_RANGES: Final = 5


def read_split(options: SourceOptions, columns: Columns, selector: Selector, split: object) -> Iterator[Any]:
    """Read one split over its own connection, as record batches; Spark passes another value if there is nothing."""
    if not isinstance(split, TickSplit):
        return
    with readable(), opened(options.connecting) as client:
        yield from batches(client, split, columns=columns, selector=selector, options=options)


def batches(
    client: LogClient, split: TickSplit, *, columns: Columns, selector: Selector, options: SourceOptions
) -> Iterator[Any]:
    """Read one split with a client, as record batches."""
    decoder = Decoder(split.pubend, columns, options.mismatch)
    ticks: list[int] = []
    bodies: list[bytes] = []
    size = 0
    with parts_of(client, split, selector, bytes_max=_PART_BYTES) as parts:
        for part in parts:
            if part.lost and options.missing == "fail":
                check_lost(split.pubend, [each for each in part.lost if each[0] != BEGINNING])
            ticks += part.ticks
            bodies += part.bodies
            size += sum(map(len, part.bodies))
            if len(ticks) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield decoder.batch(ticks, bodies)
                ticks, bodies, size = [], [], 0
    if ticks:
        yield decoder.batch(ticks, bodies)


def check_lost(pubend: str, lost: Sequence[tuple[int, int]]) -> None:
    """Raise ``SourceError`` if there are lost ranges, naming them."""
    if not lost:
        return
    shown = ", ".join(
        f"{format_tick(Tick(first))} to {format_tick(Tick(last))}" for first, last in lost[:_SHOWN_RANGES]
    )
    more = f" and {len(lost) - _SHOWN_RANGES} more ranges" if len(lost) > _SHOWN_RANGES else ""
    raise SourceError(
        f"pubend {pubend} no longer has messages from {shown}{more}: they were trimmed or are damaged; "
        "start later, or skip them with option missing=skip"
    )
