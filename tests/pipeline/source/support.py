"""What the tests of the source share: messages as bodies, and a log in memory that reads as a client does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as sql

from penstock.client.reading import LogPart, PubendSpan, Survey
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.tick import tick_at
from penstock.model.values import AttributeValue
from penstock.pipeline.source.columns import Columns
from penstock.pipeline.source.options import Connecting, SourceOptions
from penstock.selectors.selector import EVERYTHING, Selector
from penstock.session.errors import ConnectionFailedError

T0_MS = 1_763_200_000_000
T0 = tick_at(T0_MS)
SECOND = 1_000 << 16
_ALL_TYPES: list[sql.DataType] = [
    sql.StringType(),
    sql.BooleanType(),
    sql.ByteType(),
    sql.ShortType(),
    sql.IntegerType(),
    sql.LongType(),
    sql.FloatType(),
    sql.DoubleType(),
    sql.DecimalType(10, 2),
    sql.DecimalType(6, 2),
    sql.BinaryType(),
    sql.DateType(),
    sql.TimestampType(),
    sql.TimestampNTZType(),
    sql.NullType(),
    sql.VariantType(),
    sql.MapType(sql.StringType(), sql.StringType()),
    sql.ArrayType(sql.StringType()),
]
DATA_TYPES = {each.simpleString(): each for each in _ALL_TYPES}
"""By their names in SQL."""


def body(
    attributes: Mapping[str, AttributeValue], payload: bytes = b"", *, ms: int = T0_MS, counter: int = 0, kind: str = ""
) -> bytes:
    message_id = MessageId(publisher=7, broker=1, timestamp_ms=ms, counter=counter)
    return encode_body(message_id, Message(dict(attributes), payload, content_type=kind))


def columns(**types: str) -> Columns:
    schema = sql.StructType()
    for name, kind in types.items():
        schema.add(name, DATA_TYPES[kind])
    return Columns(schema)


def source_options(**changes: Any) -> SourceOptions:
    return SourceOptions(Connecting("penstock://127.0.0.1:1"), **changes)


@dataclass
class FakeLog:
    """Pubends in memory; parts are as small as told, so that there are many of them."""

    spans: dict[str, PubendSpan] = field(default_factory=dict)
    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    unreachable: tuple[str, ...] = ()
    part_rows: int = 3
    is_down: bool = False
    surveys: int = 0
    reads: int = 0
    closed: int = 0

    def fill(self, pubend: str, ticks: list[int], *, earliest: int = T0, latest: int | None = None) -> None:
        bodies = [body({"number": place}, counter=place) for place in range(len(ticks))]
        self.messages[pubend] = list(zip(ticks, bodies, strict=True))
        self.spans[pubend] = PubendSpan(earliest, max([*ticks, earliest]) if latest is None else latest)

    def survey(self) -> Survey:
        if self.is_down:
            raise ConnectionFailedError("nobody is there")
        self.surveys += 1
        here = {name: span for name, span in self.spans.items() if name not in self.unreachable}
        return Survey(here, self.unreachable)

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = EVERYTHING, *, bytes_max: int = 1
    ) -> Iterator[LogPart]:
        if self.is_down or pubend in self.unreachable:
            raise ConnectionFailedError("nobody is there")
        assert self.spans[pubend].latest >= last, "what is yet to come is refused"
        self.reads += 1
        try:
            yield from self._parts(pubend, first, last, selector)
        finally:
            self.closed += 1

    def _parts(self, pubend: str, first: int, last: int, selector: str | Selector) -> Iterator[LogPart]:
        wanted = selector if isinstance(selector, Selector) else Selector.parse(selector)
        earliest = self.spans[pubend].earliest
        rows = [each for each in self.messages[pubend] if max(first, earliest) <= each[0] <= last]
        while True:
            some, rows = rows[: self.part_rows], rows[self.part_rows :]
            end = some[-1][0] if rows else last
            lost = ((first, min(earliest - 1, last)),) if first < earliest else ()
            matching = [each for each in some if wanted.matches(decode_attributes(each[1]))]
            yield LogPart(pubend, first, end, [tick for tick, _ in matching], [data for _, data in matching], lost)
            if end >= last:
                return
            first = end + 1


@dataclass
class FakeLink:
    """A connection to a log in memory."""

    log: FakeLog
    closed: int = 0

    @contextmanager
    def client(self) -> Iterator[FakeLog]:
        yield self.log

    def close(self) -> None:
        self.closed += 1
