"""The options of the source: names, defaults, and validation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar, cast, get_args

from penstock.pipeline.source.errors import SourceOptionError
from penstock.pipeline.source.positions import EARLIEST, LATEST, Position, parse_position
from penstock.selectors.selector import EVERYTHING, Selector
from penstock.session.address import parse_addresses

__all__ = ["OPTIONS", "Connecting", "Mismatch", "Missing", "SourceOptions", "parse_options", "read_token"]

Missing: TypeAlias = Literal["fail", "skip"]
Mismatch: TypeAlias = Literal["null", "fail"]
_Value = TypeVar("_Value")

OPTIONS: Final[Mapping[str, str]] = {
    "broker": "address of a broker, or several: penstock://host:port,host:port",
    "token": "token that authenticates this client",
    "tokenFile": "file that holds the token, on every machine of the job",
    "ca": "file of the authority that signed the broker's certificate",
    "certificate": "file of the certificate that this client shows",
    "key": "file of that certificate's key",
    "selector": "which messages; all if not given",
    "pubends": "which pubends, separated by commas; all if not given",
    "startingPosition": "earliest, latest, a time with zone, or ticks by pubend as JSON",
    "endingPosition": "the same; batch reads end before it",
    "columns": "attributes as further columns: symbol string, volume long",
    "missing": "fail, or skip messages the pubend no longer has",
    "mismatch": "null, or fail if a value does not fit its column",
    "maxRowsPerTrigger": "rows of one micro-batch, at most",
    "silenceMs": "silence that a stream takes note of by an empty micro-batch",
    "maxSplits": "parts into which the range of one pubend is split, at most",
    "minSplitMs": "time that one such part spans, at least",
    "pushdown": "true, or false to leave all filters to Spark",
    "connectTimeoutMs": "time for one attempt to connect",
    "retryTimeoutMs": "time without a connection after which the job fails",
}
"""The documented names, each with a short description; Spark ignores their case."""

_BY_LOWER: Final = {name.lower(): name for name in OPTIONS}


@dataclass(slots=True, frozen=True)
class Connecting:
    """How to reach the broker; never shown, as it may hold a token."""

    broker: str
    token: str = field(default="", repr=False)
    token_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    connect_ms: int = 5_000
    retry_ms: int = 30_000


@dataclass(slots=True, frozen=True)
class SourceOptions:
    """All options, validated."""

    connecting: Connecting
    selector: Selector = EVERYTHING
    pubends: tuple[str, ...] = ()
    """Empty for all pubends."""
    start: Position | None = None
    end: Position | None = None
    columns: str = ""
    missing: Missing = "fail"
    mismatch: Mismatch = "null"
    rows_max: int | None = None
    silence_ms: int = 10_000
    splits_max: int = 4
    split_ms_min: int = 1_000
    pushdown: bool = True

    @property
    def batch_range(self) -> tuple[Position, Position]:
        """The range that a batch reads: everything, unless set."""
        return self.start or EARLIEST, self.end or LATEST

    @property
    def stream_start(self) -> Position:
        """Where a stream begins: with messages published from now on, unless set."""
        if self.end is not None:
            raise SourceOptionError("endingPosition is for batch reads; a stream has no end (try Trigger.AvailableNow)")
        return self.start or LATEST


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options that a user gave; raises ``SourceOptionError``, or ``SelectorError``."""
    values = _known(given)
    return SourceOptions(
        _connecting(values),
        selector=Selector.parse(values["selector"]) if values.get("selector", "").strip() else EVERYTHING,
        pubends=_names(values.get("pubends", "")),
        start=_each(values, "startingPosition", parse_position),
        end=_each(values, "endingPosition", parse_position),
        columns=values.get("columns", "").strip().rstrip(","),
        missing=cast("Missing", _word(values, "missing", get_args(Missing))),
        mismatch=cast("Mismatch", _word(values, "mismatch", get_args(Mismatch))),
        rows_max=_number(values, "maxRowsPerTrigger", None, least=1),
        silence_ms=_number(values, "silenceMs", 10_000, least=0),
        splits_max=_number(values, "maxSplits", 4, least=1, most=10_000),
        split_ms_min=_number(values, "minSplitMs", 1_000, least=1),
        pushdown=_word(values, "pushdown", ("true", "false")) == "true",
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in given.items():
        known = _BY_LOWER.get(name.lower())
        if known is None:
            near = difflib.get_close_matches(name.lower(), _BY_LOWER, n=1)
            hint = f" (did you mean {_BY_LOWER[near[0]]}?)" if near else ""
            raise SourceOptionError(f"no option {name!r}{hint}; the options are {', '.join(OPTIONS)}")
        values[known] = value
    return values


def _connecting(values: Mapping[str, str]) -> Connecting:
    broker = values.get("broker", "").strip()
    if not broker:
        raise SourceOptionError("option broker is missing: the address of a broker, such as penstock://host:7000")
    parse_addresses(broker)
    if values.get("token") and values.get("tokenFile"):
        raise SourceOptionError("options token and tokenFile exclude each other")
    if not values.get("ca") and (values.get("certificate") or values.get("key")):
        raise SourceOptionError("options certificate and key need ca, the authority by which the broker is checked")
    if bool(values.get("certificate")) != bool(values.get("key")):
        raise SourceOptionError("option certificate needs key, and key needs certificate")
    return Connecting(
        broker,
        token=values.get("token", ""),
        token_file=values.get("tokenFile", ""),
        ca=values.get("ca", ""),
        certificate=values.get("certificate", ""),
        key=values.get("key", ""),
        connect_ms=_number(values, "connectTimeoutMs", 5_000, least=1),
        retry_ms=_number(values, "retryTimeoutMs", 30_000, least=0),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _each(values: Mapping[str, str], name: str, parse: Callable[[str], _Value]) -> _Value | None:
    if name not in values:
        return None
    try:
        return parse(values[name])
    except SourceOptionError as error:
        raise SourceOptionError(f"option {name}: {error}") from None


def _word(values: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    word = values.get(name, words[0]).strip().lower()
    if word not in words:
        raise SourceOptionError(f"option {name} is {values[name]!r}, which is not one of {', '.join(words)}")
    return word


def _number(values: Mapping[str, str], name: str, default: _Value, *, least: int, most: int = 2**53) -> int | _Value:
    if name not in values:
        return default
    text = values[name].strip()
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise SourceOptionError(f"option {name} is {values[name]!r}, not a whole number of at least {least}")
    return int(text)


def read_token(connecting: Connecting) -> str:
    """The token, read from its file if there is one."""
    if not connecting.token_file:
        return connecting.token
    try:
        return Path(connecting.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SourceOptionError(f"option tokenFile: cannot read {connecting.token_file}: {why}") from None
