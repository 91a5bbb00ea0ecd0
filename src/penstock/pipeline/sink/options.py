"""The options of the sink: names, defaults, and validation."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

from penstock.pipeline.sink.errors import SinkOptionError
from penstock.pipeline.source.options import OPTIONS, Connecting, parse_options

__all__ = ["SINK_OPTIONS", "Forgotten", "SinkOptions", "parse_sink_options"]

Forgotten: TypeAlias = Literal["fail", "publish"]

_CONNECTING: Final = (
    "broker",
    "token",
    "tokenFile",
    "ca",
    "certificate",
    "key",
    "connectTimeoutMs",
    "retryTimeoutMs",
)
SINK_OPTIONS: Final[Mapping[str, str]] = {
    **{name: OPTIONS[name] for name in _CONNECTING},
    "pubend": "the guaranteed pubend to publish to; any broker of its overlay will do",
    "pubendColumn": "string column with the pubend of each row; where it is null, option pubend counts",
    "staging": "folder for rows until they are published; on every machine of the job, kept between runs",
    "batch": "name of a batch write: under one name rows are published once, however often it is tried",
    "contentType": "what the payload is, for example application/json",
    "forgotten": "fail, or publish rows of which the broker may not remember whether it has them",
}
"""The documented names, each with a short description."""

_BY_LOWER: Final = {name.lower(): name for name in SINK_OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Spark's own options, which it passes on."""
_NAME_CHARS_MAX: Final = 200


@dataclass(slots=True, frozen=True)
class SinkOptions:
    """All options, validated."""

    connecting: Connecting
    pubend: str
    """Empty if a column names the pubend of every row."""
    staging: str
    batch: str = ""
    content_type: str = ""
    forgotten: Forgotten = "fail"
    pubend_column: str = ""


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options that a user gave; raises ``SinkOptionError`` or another ``MisuseError``."""
    values = _known(given)
    connecting = parse_options({name: values[name] for name in _CONNECTING if name in values}).connecting
    forgotten = values.get("forgotten", "fail").strip().lower()
    if forgotten not in get_args(Forgotten):
        raise SinkOptionError(f"option forgotten is {values['forgotten']!r}, which is not one of fail, publish")
    batch = values.get("batch", "").strip()
    if len(batch) > _NAME_CHARS_MAX:
        raise SinkOptionError(f"option batch has {len(batch)} characters; a name has at most {_NAME_CHARS_MAX}")
    pubend_column = values.get("pubendColumn", "").strip()
    if pubend_column:
        pubend = values.get("pubend", "").strip()
    else:
        pubend = _required(values, "pubend", "the pubend to publish to, unless pubendColumn names it")
    return SinkOptions(
        connecting,
        pubend,
        _required(values, "staging", "a folder that all machines of the job have"),
        batch=batch,
        content_type=values.get("contentType", "").strip(),
        forgotten=cast("Forgotten", forgotten),
        pubend_column=pubend_column,
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in _OF_SPARK:
            continue
        known = _BY_LOWER.get(name.lower())
        if known is None:
            near = difflib.get_close_matches(name.lower(), _BY_LOWER, n=1)
            hint = f" (did you mean {_BY_LOWER[near[0]]}?)" if near else ""
            raise SinkOptionError(f"no option {name!r}{hint} for writing; the options are {', '.join(SINK_OPTIONS)}")
        values[known] = value
    return values


def _required(values: Mapping[str, str], name: str, what: str) -> str:
    value = values.get(name, "").strip()
    if not value:
        raise SinkOptionError(f"option {name} is missing: {what}")
    return value
