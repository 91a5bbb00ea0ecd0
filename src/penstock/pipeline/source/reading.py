"""What one task does: reads its ticks from the broker and hands them to Spark as Arrow batches.

The client asks for the next part of the log while this one is being decoded.
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
"""A batch with so many rows or bytes waits for no more; one message may still be larger."""
_SHOWN_RANGES: Final = 5


def read_split(options: SourceOptions, columns: Columns, selector: Selector, split: object) -> Iterator[Any]:
    """The record batches of one split, over a connection of its own; Spark gives nothing to read as another value."""
    if not isinstance(split, TickSplit):
        return
    with readable(), opened(options.connecting) as client:
        yield from batches(client, split, columns=columns, selector=selector, options=options)


def batches(
    client: LogClient, split: TickSplit, *, columns: Columns, selector: Selector, options: SourceOptions
) -> Iterator[Any]:
    """The record batches of one split, read by a client."""
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
    """Raise ``SourceError`` if something is lost that must not be, and name it."""
    if not lost:
        return
    shown = ", ".join(
        f"{format_tick(Tick(first))} to {format_tick(Tick(last))}" for first, last in lost[:_SHOWN_RANGES]
    )
    more = f" and {len(lost) - _SHOWN_RANGES} more ranges" if len(lost) > _SHOWN_RANGES else ""
    raise SourceError(
        f"pubend {pubend} has no more what was published from {shown}{more}: it was trimmed away or is damaged; "
        "start later, or leave it out with the option missing=skip"
    )
