"""Structured logs: one line per event, for people or as JSON, on standard error.

Everything goes through the standard library's logger ``penstock``, so that a program that embeds a broker can send it
elsewhere. Text from outside is quoted: a peer cannot forge a log line. Nor can it flood the log: whoever can connect
can cause a line each time, so `LineLimit` lets only a few lines of each kind through per period.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TextIO

__all__ = ["LEVELS", "LineLimit", "configure_logs", "level_of", "log", "log_bug"]

LEVELS: Final = ("debug", "info", "warning", "error")
"""Log levels, from the most to the least verbose."""

_LOGGER: Final = logging.getLogger("penstock")
# A program that embeds a broker and does not ask for logs gets none.
_LOGGER.addHandler(logging.NullHandler())
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:,/+%")
_LOUD: Final = {
    "error": logging.ERROR,
    "bug": logging.ERROR,
    "protocol": logging.WARNING,
    "slow": logging.WARNING,
    "full": logging.WARNING,
    "refused": logging.WARNING,
    "malformed": logging.WARNING,
    "lost": logging.WARNING,
    "lapsed": logging.WARNING,
    "held": logging.WARNING,
    "down": logging.WARNING,
    "failed": logging.WARNING,
    "silent": logging.WARNING,
    "dropped": logging.WARNING,
    "damaged": logging.WARNING,
    "unencrypted": logging.WARNING,
    "readable": logging.WARNING,
    "tightened": logging.WARNING,
}
_LINES_MAX: Final = 10
"""Lines of one kind that strangers can cause per period."""
_PERIOD_S: Final = 10.0


def configure_logs(*, level: str = "info", as_json: bool = False, stream: TextIO | None = None) -> None:
    """Send the log to standard error (or the stream); calling it again replaces the earlier setup."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _HumanFormatter())
    for old in list(_LOGGER.handlers):
        _LOGGER.removeHandler(old)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(level.upper())
    _LOGGER.propagate = False


def log(event: str, fields: Iterable[tuple[str, str | int]] = (), *, level: int | None = None) -> None:
    """Write one line: what happened, and the details in order."""
    details = tuple(fields)
    chosen = level_of(event, details) if level is None else level
    if _LOGGER.isEnabledFor(chosen):
        _LOGGER.log(chosen, event, extra={"penstock_fields": details})


def log_bug(event: str, fields: Iterable[tuple[str, str | int]], error: BaseException) -> None:
    """Write one line, and the exception's traceback below it."""
    _LOGGER.error(event, exc_info=error, extra={"penstock_fields": tuple(fields)})


def level_of(event: str, fields: tuple[tuple[str, str | int], ...] = ()) -> int:
    """The log level of an event, by the words in its name and in its code; info for most."""
    words = [*event.split("-"), *(str(value) for key, value in fields if key == "code")]
    return max((_LOUD[word] for word in words if word in _LOUD), default=logging.INFO)


class LineLimit:
    """Limits the lines that strangers can cause, by kind; the next line that is written says how many were left out."""

    def __init__(
        self, *, lines_max: int = _LINES_MAX, period_s: float = _PERIOD_S, clock: Callable[[], float] = monotonic
    ) -> None:
        self._lines_max = lines_max
        self._period_s = period_s
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def left_out(self, kind: str) -> int | None:
        """How many lines of this kind were left out before this one; None if this one is left out, too."""
        now_s = self._clock()
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind(now_s)
        if now_s >= found.began_s + self._period_s:
            found.began_s, found.lines = now_s, 0
        if found.lines >= self._lines_max:
            found.left_out += 1
            return None
        found.lines += 1
        left_out, found.left_out = found.left_out, 0
        return left_out


class _Kind:
    """Counts of one kind; this program names the kinds, so there are few."""

    __slots__ = ("began_s", "left_out", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 0
        self.left_out = 0


def _parts(record: logging.LogRecord) -> tuple[str, str, str, tuple[tuple[str, str | int], ...]]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: tuple[tuple[str, str | int], ...] = getattr(record, "penstock_fields", ())
    return time, record.levelname.lower(), record.getMessage(), fields


class _HumanFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z info    link-up broker=pb1 neighbour=ib1``."""

    def format(self, record: logging.LogRecord) -> str:
        time, level, event, fields = _parts(record)
        details = "".join(f" {key}={_shown(value)}" for key, value in fields)
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{time} {level:<7} {_shown(event, ' ')}{details}{trace}"


class _JsonFormatter(logging.Formatter):
    """One object per line: time, level, event and the fields; a field never hides one of the first three."""

    def format(self, record: logging.LogRecord) -> str:
        time, level, event, fields = _parts(record)
        line: dict[str, str | int] = {key: value for key, value in fields if key not in ("time", "level", "event")}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps({"time": time, "level": level, "event": event, **line})


def _shown(value: str | int, also: str = "") -> str:
    text = str(value)
    return text if text and set(text) <= _PLAIN.union(also) else json.dumps(text)
