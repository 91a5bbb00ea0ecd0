"""Structured logs: one line per event, for people or as JSON, on standard error.

Everything goes through the standard library's logger ``penstock``, so that a program that embeds a broker can send it
elsewhere. Text from outside is quoted: a peer cannot forge a log line. Nor can it flood the log: whoever can connect
can cause a line each time, so `system/line_limit.py` lets only a few lines of each kind through per period.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, TextIO

__all__ = ["LEVELS", "configure_logs", "level_of", "log", "log_bug"]

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
