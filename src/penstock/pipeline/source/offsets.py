"""Offsets of a stream's micro-batches: a tick for each pubend, which Spark keeps in the checkpoint.

A pubend that appears in the end of a micro-batch but not in its start is new there: its beginning is recorded and
nothing is read. The very first micro-batch does this for all pubends, so that a stream that fails before its first
commit begins at the same place again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from penstock.client.reading import Survey
from penstock.model.tick import Tick, tick_ms
from penstock.pipeline.source.positions import BEGINNING, Vector
from penstock.pipeline.source.probing import Reached
from penstock.pipeline.source.splits import TickSplit

__all__ = ["Reach", "advanced", "bounded", "lag_of", "latest_of", "silence_ms", "target_of"]

Reach: TypeAlias = Callable[[TickSplit, int], Reached]
"""Finds how far a number of rows reaches in a range."""


def latest_of(survey: Survey) -> Vector:
    """The position after the last durable tick of every reachable pubend."""
    return {name: span.latest + 1 for name, span in sorted(survey.spans.items())}


def target_of(latest: Vector, target: Vector | None) -> Vector:
    """The latest position, or an earlier one at which the stream is to end."""
    if target is None:
        return latest
    return {name: min(tick, target[name]) for name, tick in latest.items() if name in target}


def advanced(start: Vector, latest: Vector) -> Vector:
    """The end of a micro-batch that takes everything; pubends that do not answer, or are gone, stay where they are."""
    met = {name: BEGINNING for name in latest if name not in start}
    known = {name: max(tick, latest.get(name, tick)) for name, tick in start.items()}
    return dict(sorted({**known, **met}.items()))


def bounded(start: Vector, end: Vector, *, rows_max: int, reach: Reach) -> tuple[Vector, int]:
    """Limit the end to at most ``rows_max`` rows; returns it and the row count. The pubend furthest behind goes first.

    Each pubend gets an equal share of the rows, and unused shares go to the others.
    """
    found, left = dict(end), rows_max
    behind = sorted((tick, name) for name, tick in start.items() if end[name] > tick)
    found |= {name: tick for tick, name in behind}
    while behind and left:
        hungry: list[tuple[int, str]] = []
        for place, (tick, name) in enumerate(behind):
            share = min(left, max(1, left // (len(behind) - place)))
            reached = reach(TickSplit(name, tick, end[name] - 1), share) if share else Reached(tick, 0)
            left -= reached.rows
            found[name] = reached.tick
            if tick < reached.tick < end[name] and reached.rows == share:
                hungry.append((reached.tick, name))
        behind = sorted(hungry)
    return found, rows_max - left


def silence_ms(start: Vector, end: Vector) -> int:
    """How far the pubend that advanced most has moved, in milliseconds."""
    return max((_between_ms(tick, end[name]) for name, tick in start.items()), default=0)


def lag_of(progress: Any, source: int = 0) -> dict[str, int | None]:
    """By pubend, how many milliseconds a stream was behind at a progress report.

    ``progress`` comes from ``query.lastProgress`` or a listener, or is its JSON. None stands for a pubend that did not
    answer then, or that the stream has not begun to read.

    >>> offsets = {"endOffset": {"a": 65536 * 5, "b": 7}, "latestOffset": {"a": 65536 * 9}}
    >>> lag_of({"sources": [offsets]})
    {'a': 4, 'b': None}
    """
    reported = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    told = reported["sources"][source]
    read, latest = _vector(told.get("endOffset")), _vector(told.get("latestOffset"))
    names = sorted({*read, *latest})
    return {
        name: max(0, _between_ms(read[name], latest[name])) if read.get(name) and name in latest else None
        for name in names
    }


def _vector(offset: Any) -> Vector:
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return dict(parsed or {})


def _between_ms(first: int, last: int) -> int:
    return tick_ms(Tick(last)) - tick_ms(Tick(first))
