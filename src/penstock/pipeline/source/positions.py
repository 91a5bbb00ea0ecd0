"""Positions in the logs of an overlay: how users write them, and the tick they mean for each pubend.

A position is always the first tick that is not read yet: a stream begins there, and a batch ends before it. So a
checkpoint's position can be used as a start or an end.

Tick 0 stands for the beginning of a log, wherever that is when it is read: logs are trimmed all the time, and the first
tick kept a moment ago may be gone. Ticks trimmed before a beginning are not lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from penstock.client.reading import Survey
from penstock.model.tick import tick_at
from penstock.pipeline.source.errors import SourceOptionError

__all__ = [
    "BEGINNING",
    "EARLIEST",
    "LATEST",
    "TICK_LAST",
    "Position",
    "Vector",
    "end_of",
    "narrowed",
    "parse_position",
    "start_of",
]

Vector: TypeAlias = dict[str, int]
"""The first unread tick of each pubend; sorted by name, since Spark compares offsets as text."""

BEGINNING: Final = 0
"""The beginning of a log, wherever that is."""
TICK_LAST: Final = 2**62 - 1
"""The last tick that brokers accept, in the year 4199: every tick fits a signed long."""
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, frozen=True)
class Position:
    """A position in every log."""

    word: Literal["earliest", "latest", "time", "ticks"]
    ms: int = 0
    """Milliseconds since 1970, for ``time``."""
    ticks: tuple[tuple[str, int], ...] = ()
    """Ticks by pubend, for ``ticks``."""


EARLIEST: Final = Position("earliest")
LATEST: Final = Position("latest")


def parse_position(text: str) -> Position:
    """Parse a position as users write it.

    >>> parse_position("1970-01-01T00:00:01Z")
    Position(word='time', ms=1000, ticks=())
    >>> parse_position('{"pb1.a": 65536}').ticks
    (('pb1.a', 65536),)
    """
    text = text.strip()
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    return _parse_ticks(text) if text.startswith("{") else _parse_time(text)


def narrowed(survey: Survey, pubends: tuple[str, ...]) -> Survey:
    """Restrict a survey to some pubends; raises ``SourceOptionError`` if it does not know one of them."""
    if not pubends:
        return survey
    _check_known(survey, pubends, "option pubends")
    spans = {name: span for name, span in survey.spans.items() if name in pubends}
    return Survey(spans, tuple(name for name in survey.unreachable if name in pubends))


def start_of(position: Position, survey: Survey, *, now_ms: int) -> Vector:
    """Find where to begin in each pubend, including unreachable ones."""
    spans, away = survey.spans, survey.unreachable
    match position.word:
        case "earliest":
            found = dict.fromkeys((*spans, *away), BEGINNING)
        case "latest":
            # Ticks follow the clock, so the current time is a good guess for a pubend that does not answer.
            found = {name: span.latest + 1 for name, span in spans.items()} | dict.fromkeys(away, tick_at(now_ms))
        case "time":
            # A pubend that began after this time has lost nothing, even though it has nothing from then.
            wanted = tick_at(position.ms)
            begun = {name: wanted if span.earliest <= wanted else BEGINNING for name, span in spans.items()}
            found = begun | dict.fromkeys(away, wanted)
        case "ticks":
            ticks = dict(position.ticks)
            _check_known(survey, tuple(ticks), "option startingPosition")
            found = dict.fromkeys((*spans, *away), BEGINNING) | ticks
    return dict(sorted(found.items()))


def end_of(position: Position, survey: Survey) -> Vector:
    """Find where to end in each reachable pubend, never after its last durable tick."""
    there = {name: span.latest + 1 for name, span in sorted(survey.spans.items())}
    match position.word:
        case "earliest":
            return dict.fromkeys(there, BEGINNING)
        case "latest":
            return there
        case "time":
            return {name: min(tick, tick_at(position.ms)) for name, tick in there.items()}
        case "ticks":
            ticks = dict(position.ticks)
            _check_known(survey, tuple(ticks), "option endingPosition")
            return {name: min(tick, ticks.get(name, tick)) for name, tick in there.items()}


def _check_known(survey: Survey, names: tuple[str, ...], where: str) -> None:
    known = sorted({*survey.spans, *survey.unreachable})
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise SourceOptionError(f"{where} names pubend {name!r}; the overlay's guaranteed pubends are {listed}")


def _parse_ticks(text: str) -> Position:
    try:
        ticks: object = json.loads(text)
    except ValueError as error:
        raise SourceOptionError(f"{text!r} begins as JSON but is none: {error}") from None
    assert isinstance(ticks, Mapping), "what begins with a brace is an object"
    for name, tick in ticks.items():
        if type(tick) is not int or not 0 <= tick <= TICK_LAST:
            raise SourceOptionError(f"{tick!r} of pubend {name} is not a tick in 0 .. 2**62 - 1")
    return Position("ticks", ticks=tuple(sorted(ticks.items())))


def _parse_time(text: str) -> Position:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        forms = "earliest, latest, a time such as 2026-11-15T10:00:00Z, or ticks by pubend as JSON"
        raise SourceOptionError(f"{text!r} is not one of {forms}") from None
    if time.utcoffset() is None:
        raise SourceOptionError(f"time {text!r} has no time zone; write 2026-11-15T10:00:00Z")
    ms = (time - _1970) // timedelta(milliseconds=1)
    if not 0 <= ms <= TICK_LAST >> 16:
        raise SourceOptionError(f"time {text!r} is before 1970, or too far in the future")
    return Position("time", ms=ms)
