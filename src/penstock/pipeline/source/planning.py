"""Plans what tasks read: the ranges between two positions, with long ones split by time."""

from __future__ import annotations

from penstock.pipeline.source.options import SourceOptions
from penstock.pipeline.source.positions import Vector
from penstock.pipeline.source.probing import LogClient, occupied_range
from penstock.pipeline.source.splits import TickSplit, is_wide, split_evenly

__all__ = ["plan_splits", "ranges_between"]


def ranges_between(start: Vector, end: Vector) -> list[TickSplit]:
    """The ranges between two positions; skips pubends that only one of them has."""
    found = ((name, start[name], tick) for name, tick in sorted(end.items()) if name in start)
    return [TickSplit(name, first, after - 1) for name, first, after in found if first < after]


def plan_splits(client: LogClient, ranges: list[TickSplit], options: SourceOptions) -> list[TickSplit]:
    """Split the long ones among the ranges."""
    return [split for each in ranges for split in _splits(client, each, options)]


def _splits(client: LogClient, whole: TickSplit, options: SourceOptions) -> list[TickSplit]:
    if options.splits_max == 1 or not is_wide(whole, split_ms_min=options.split_ms_min):
        return [whole]
    near = options.split_ms_min << 16
    occupied = occupied_range(client, whole, near_ticks=near)
    return split_evenly(whole, occupied, splits_max=options.splits_max, split_ms_min=options.split_ms_min)
