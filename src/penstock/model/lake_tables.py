"""The tables of the lake, declared once for brokers that write them and jobs that read them.

Only names and kinds: each writer or reader maps them to the types of its own library (``penstock.pipeline.lake``). A
table is a folder of Parquet files, with Hive-style subfolders for its partition columns: ``date=2026-11-15/pubend=q``.
Every file states the version of the table's columns (``file_metadata``), which grows whenever they change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.errors import MisuseError

__all__ = [
    "ALIASES",
    "ATTACHMENTS",
    "GAPS",
    "HISTORIES",
    "POSITIONS",
    "PUBLICATIONS",
    "RECORDS",
    "SHIPPED_TABLES",
    "SUBSCRIPTIONS",
    "TABLES",
    "TABLE_KEY",
    "TELEMETRY",
    "TOPOLOGY",
    "VERSION_KEY",
    "Column",
    "Kind",
    "LakeTable",
    "escaped_value",
    "find_table",
    "partition_path",
    "unescaped_value",
]

Kind: TypeAlias = Literal["text", "bytes", "integer", "number", "truth", "time", "date", "texts", "integers"]
"""The type of a column: an integer is signed with 64 bits, a time is in microseconds UTC.

``texts`` maps names to texts, ``integers`` maps names to integers.
"""

TABLE_KEY: Final = "penstock.table"
VERSION_KEY: Final = "penstock.schema_version"

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
"""Characters that Hive and Spark escape in folder names, plus the closing brace, which is special in patterns."""


@dataclass(slots=True, frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    help: str
    """What the column holds, in a few words."""
    since: int = 1
    """The table version that introduced the column; older files are read with the default."""
    default: str | int | float | bool | None = None


@dataclass(slots=True, frozen=True)
class LakeTable:
    """One table of the lake."""

    name: str
    """Name of the table and of its folder."""
    version: int
    """Version of the columns, from 1."""
    columns: tuple[Column, ...]
    """The columns stored in the files, in this order."""
    partitions: tuple[Column, ...]
    """The columns stored in folder names, outermost first, and not in the files."""

    def file_metadata(self) -> dict[str, str]:
        """The metadata that every file of the table carries."""
        return {TABLE_KEY: self.name, VERSION_KEY: str(self.version)}


PUBLICATIONS: Final = LakeTable(
    "publications",
    1,
    columns=(
        Column("message_id", "text", "the message's identifier in text form, 26 characters"),
        Column("tick", "integer", "its position in the pubend's stream: milliseconds · 65,536 + counter"),
        Column("published_at", "time", "when it was published, by the publisher's adjusted clock"),
        Column("attributes", "texts", "its attributes as text"),
        Column("payload", "bytes", "its content"),
    ),
    partitions=(
        Column("date", "date", "the day of the tick, in UTC"),
        Column("pubend", "text", "the stream it was published to"),
    ),
)
"""All archived messages.

The date is the tick's, not the publisher's. A tick is in the log and never changes, so reading again gives the same
result. Ticks only grow, so each pubend finishes a day for good; by publishers' clocks, a single wrong one could open a
folder for any day.
"""

# The tables that brokers ship. Anything that changes (an open filter, a subscription that ends) is shipped again: among
# rows with the same key, the one with the highest (incarnation, sequence) counts; docs/lake.md names the keys.

_BATCH: Final = (
    Column("incarnation", "integer", "the life of the broker that shipped the row; grows with every start"),
    Column("sequence", "integer", "the batch it came with; grows with every batch"),
)
_BY_BROKER: Final = Column("broker", "text", "name of the broker that shipped the row")
_HISTORY: Final = (
    Column("history", "text", "the history's name: phase/origin, or phase/origin/part; ~late behind the phase"),
    Column("phase", "text", "what happened to messages: publish, route or deliver"),
    Column("origin", "integer", "number of the broker that the messages were published at, as their ids say"),
    Column("part", "text", "the one subscriber that the history is for (its key in hexadecimal), else empty"),
    Column("is_late", "truth", "whether it is the history of what came too late for the other of its name"),
    Column("filter_id", "integer", "counts the filters of a history"),
    Column("generation", "integer", "counts the times a filter was stored; the highest one counts"),
)
_ID: Final = (
    Column("id_high", "integer", "first 8 bytes of a message's identifier: publisher and broker"),
    Column("id_low", "integer", "last 8 bytes of it: milliseconds and counter"),
)
_SUBSCRIBED: Final = (
    Column("starts", "integers", "by pubend the tick from which on it was to receive messages"),
    Column("ends", "integers", "by pubend the first tick that it did not receive any more"),
)

HISTORIES: Final = LakeTable(
    "histories",
    1,
    columns=(
        *_BATCH,
        *_HISTORY,
        Column("is_open", "truth", "whether more may come in a later generation"),
        Column("hash_version", "integer", "which definition of the hash made the bits"),
        Column("m", "integer", "bits of the filter"),
        Column("k", "integer", "bits set by each key"),
        Column("n", "integer", "keys for which it has room"),
        Column("count", "integer", "keys in it"),
        Column("opened_at", "time", "when it was begun, by the broker's clock"),
        Column("added_at", "time", "when something was added last"),
        Column("first_ms", "integer", "the lowest timestamp of its range; null without one"),
        Column("last_ms", "integer", "the highest timestamp of its range"),
        Column("singletons", "bytes", "timestamps beside the range: spans of first and last, 8 bytes each, big-endian"),
        Column("bits", "bytes", "the filter itself"),
    ),
    partitions=(Column("date", "date", "the day on which the filter was begun, in UTC"), _BY_BROKER),
)
"""Bloom filters, sealed ones and open ones."""

RECORDS: Final = LakeTable(
    "records",
    1,
    columns=(
        *_BATCH,
        *_HISTORY,
        Column("place", "integer", "counts the records of a block, which has the filter's number"),
        *_ID,
        Column("subscriber_key", "integer", "who received it, as the hash of the name; null unless delivered"),
    ),
    partitions=(Column("date", "date", "the day on which the block was begun, in UTC"), _BY_BROKER),
)
"""Exact records of what brokers did with messages, where that strategy was chosen."""

GAPS: Final = LakeTable(
    "gaps",
    1,
    columns=(
        *_BATCH,
        Column("history", "text", "the history concerned; empty for all of the broker"),
        Column("reason", "text", "crash, overload, damaged, retention, stop; since; or open"),
        Column("spans", "bytes", "timestamps concerned: spans of first and last, 8 bytes each, big-endian"),
        Column("noted_at", "time", "when it was shipped"),
    ),
    partitions=(Column("date", "date", "the day on which it was shipped, in UTC"), _BY_BROKER),
)
"""Messages whose absence from a history proves nothing."""

ALIASES: Final = LakeTable(
    "aliases",
    1,
    columns=(
        *_BATCH,
        *_ID,
        Column("publisher_broker", "text", "name of the broker that published it in truth"),
        Column("publisher_number", "integer", "number of that broker"),
        Column("published_at", "time", "when, by the broker's clock"),
    ),
    partitions=(Column("date", "date", "the day on which it was published, in UTC"), _BY_BROKER),
)
"""Messages published at a different broker than their ids say."""

ATTACHMENTS: Final = LakeTable(
    "attachments",
    1,
    columns=(
        *_BATCH,
        Column("number", "integer", "counts the attachments of a broker"),
        Column("subscriber", "text", "name of the durable subscription, or of the client"),
        Column("subscriber_key", "integer", "the hash of that name, as in filters and records"),
        Column("attached_at", "time", "when it came, by the broker's clock"),
        Column("detached_at", "time", "when it went; null while it is there"),
        *_SUBSCRIBED,
    ),
    partitions=(Column("date", "date", "the day on which it came, in UTC"), _BY_BROKER),
)
"""Which subscribers were at which broker, and for which part of the streams."""

SUBSCRIPTIONS: Final = LakeTable(
    "subscriptions",
    1,
    columns=(
        *_BATCH,
        Column("number", "integer", "of its attachment"),
        Column("subscriber", "text", "name of the durable subscription, or of the client"),
        Column("is_durable", "truth", "whether it is a durable subscription"),
        Column("selector", "text", "what it asked for; null if that was not recorded, or has over 2,048 bytes"),
        Column("began_at", "time", "when it began, by the broker's clock"),
        Column("ended_at", "time", "when it ended at this broker; null while it lasts"),
        *_SUBSCRIBED,
    ),
    partitions=(Column("date", "date", "the day on which it began, in UTC"), _BY_BROKER),
)
"""What subscribers asked for, from when to when."""

POSITIONS: Final = LakeTable(
    "positions",
    1,
    columns=(
        *_BATCH,
        Column("pubend", "text", "the stream"),
        Column("subscription", "text", "name of the durable subscription"),
        Column("acknowledged", "integer", "the tick below which it has acknowledged everything; null when forgotten"),
        Column("ownership", "integer", "number of the claim by which its host has it; null when forgotten"),
        Column("host", "text", "name of the broker where it is; null when forgotten"),
        Column("is_forgotten", "truth", "whether the name was given up"),
        Column("observed_at", "time", "when it was shipped"),
    ),
    partitions=(Column("date", "date", "the day on which it was shipped, in UTC"), _BY_BROKER),
)
"""Positions of durable subscriptions, as recorded by the pubend's broker."""

TOPOLOGY: Final = LakeTable(
    "topology",
    1,
    columns=(
        *_BATCH,
        Column("at", "time", "when, by the broker's clock"),
        Column("event", "text", "start, stop, link-up or link-down"),
        Column("neighbour", "text", "the other end of the link; empty for start and stop"),
    ),
    partitions=(Column("date", "date", "that day, in UTC"), _BY_BROKER),
)
"""When brokers ran, and which links they had: none before a start, none after a stop."""

TELEMETRY: Final = LakeTable(
    "telemetry",
    1,
    columns=(
        *_BATCH,
        Column("at", "time", "when, by the broker's clock"),
        Column("metric", "text", "what was measured, named as in the broker's metrics"),
        Column("labels", "texts", "of what: a pubend, a host, a neighbour"),
        Column("value", "number", "how much"),
    ),
    partitions=(Column("date", "date", "that day, in UTC"), _BY_BROKER),
)
"""Samples of all metrics of a broker."""

SHIPPED_TABLES: Final = (
    HISTORIES,
    RECORDS,
    GAPS,
    ALIASES,
    ATTACHMENTS,
    SUBSCRIPTIONS,
    POSITIONS,
    TOPOLOGY,
    TELEMETRY,
)
"""The tables that brokers write."""
TABLES: Final = (PUBLICATIONS, *SHIPPED_TABLES)


def find_table(name: str) -> LakeTable:
    """Finds a table by name; raises ``MisuseError``, listing the known names, if there is none."""
    for table in TABLES:
        if table.name == name:
            return table
    raise MisuseError(f"no table {name!r} in the lake; known are {', '.join(table.name for table in TABLES)}")


def partition_path(table: LakeTable, values: Mapping[str, str]) -> str:
    """The folder for these partition values, relative to the table's folder.

    >>> partition_path(PUBLICATIONS, {"date": "2026-11-15", "pubend": "a/b"})
    'date=2026-11-15/pubend=a%2Fb'
    """
    return "/".join(f"{column.name}={escaped_value(values[column.name])}" for column in table.partitions)


def escaped_value(value: str) -> str:
    """Escapes a partition value for a folder name as Hive and Spark do; the value must not be empty."""
    assert value, "a partition value must not be empty"
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


def unescaped_value(text: str) -> str:
    """Recovers a partition value from its escaped form in a folder name."""
    first, *others = text.split("%")
    return first + "".join(chr(int(each[:2], 16)) + each[2:] for each in others)
