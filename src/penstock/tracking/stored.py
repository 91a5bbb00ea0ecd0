"""The stored form of a filter or of exact records: a header with a checksum of its own, then the body with another.

The header has all that a matching set needs, so that an index can be built from the first bytes of files. Layout, all
big-endian: magic ``PTH`` and version (4), length of the header with its checksum (4), fixed fields (75), key (UTF-8),
singletons (first and last, 16), CRC-32 of all that (4), body, CRC-32 of the body (4). The fixed fields are kind, hash
version, is open (1 each, and 1 unused), length of the key and number of singletons (2 each), filter id and generation
(8 each), m and n (4 each), k (2), count, time opened and time last added (8 each), has a range (1), range (8 + 8).
"""

from __future__ import annotations

import struct
from binascii import crc32
from dataclasses import dataclass, replace
from typing import Final

from penstock.model.errors import MisuseError
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords
from penstock.tracking.hashing import HASH_VERSION
from penstock.tracking.keys import HistoryKey, history_key
from penstock.tracking.records import DamagedRecordError
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import TimeIndex

__all__ = ["HEADER_BYTES_MAX", "FilterHeader", "FilterKind", "StoredFilter", "decode_filter", "decode_header", "merged"]

FilterKind = str
"""``bloom`` or ``exact``."""

HEADER_BYTES_MAX: Final = 8_192
"""Reading this many bytes from the beginning is enough for any header."""

_MAGIC: Final = b"PTH\x01"
_LENGTH: Final = struct.Struct(">4sI")
_FIXED: Final = struct.Struct(">BBBxHHQQIIHQqq?qq")
_SPAN: Final = struct.Struct(">qq")
_CRC: Final = struct.Struct(">I")
_KINDS: Final = {"bloom": 1, "exact": 2}
_KIND_NAMES: Final = {number: name for name, number in _KINDS.items()}


@dataclass(slots=True, frozen=True)
class FilterHeader:
    """Describes a stored filter without its bits."""

    key: HistoryKey
    filter_id: int
    """Unique and ascending within the history."""
    generation: int
    """Counts how often an open filter was stored; the highest one is valid."""
    is_open: bool
    """Whether a later generation may hold more."""
    kind: FilterKind
    shape: FilterShape
    """For exact records, n is the number a buffer holds."""
    count: int
    opened_ms: int
    """The broker's clock when the filter was begun."""
    added_ms: int
    """The broker's clock when something was added last."""
    index: TimeIndex
    hash_version: int = HASH_VERSION

    @property
    def name(self) -> str:
        """The name of the stored value, the same for all generations."""
        return f"{self.key}#{self.filter_id:016x}"


@dataclass(slots=True, frozen=True)
class StoredFilter:
    """A header and the bytes it describes."""

    header: FilterHeader
    body: bytes

    def encode(self) -> bytes:
        """The stored form."""
        head = _encoded_header(self.header)
        return b"".join((head, self.body, _CRC.pack(crc32(self.body))))

    def container(self) -> BloomFilter | ExactRecords:
        """The filter or the exact records in the body."""
        return self.bloom() if self.header.kind == "bloom" else self.exact()

    def bloom(self) -> BloomFilter:
        """The Bloom filter in the body."""
        assert self.header.kind == "bloom", self.header.kind
        return BloomFilter(self.header.shape, self.body, self.header.count)

    def exact(self) -> ExactRecords:
        """The exact records in the body."""
        assert self.header.kind == "exact", self.header.kind
        return ExactRecords(self.header.shape, self.body, self.header.count)


def decode_header(data: bytes) -> FilterHeader:
    """Decodes the header at the beginning of a stored filter; raises ``DamagedRecordError``."""
    return _header(data)[0]


def decode_filter(data: bytes) -> StoredFilter:
    """Decodes a whole stored filter; raises ``DamagedRecordError``."""
    header, start = _header(data)
    body, checksum = data[start : -_CRC.size], data[-_CRC.size :]
    expected = _body_bytes(header)
    if len(data) != start + expected + _CRC.size:
        raise DamagedRecordError(
            f"filter {header.name} has {len(data) - start} bytes behind its header, not {expected}"
        )
    if _CRC.pack(crc32(body)) != checksum:
        raise DamagedRecordError(f"checksum mismatch in the bits of filter {header.name}")
    return StoredFilter(header, body)


def merged(one: StoredFilter, other: StoredFilter, *, singletons_max: int) -> StoredFilter:
    """Merges two partly full filters of one history ([Tracking] section 7), under the name of the first."""
    a, b = one.header, other.header
    if (a.key, a.kind, a.hash_version) != (b.key, b.kind, b.hash_version) or a.kind != "bloom":
        raise MisuseError(f"filters {a.name} and {b.name} are not of one history")
    if a.count + b.count > a.shape.n:
        raise MisuseError(f"filters {a.name} and {b.name} hold {a.count + b.count} keys, over the capacity {a.shape.n}")
    united = one.bloom().union(other.bloom())
    header = replace(
        a,
        generation=max(a.generation, b.generation) + 1,
        is_open=False,
        count=united.count,
        opened_ms=min(a.opened_ms, b.opened_ms),
        added_ms=max(a.added_ms, b.added_ms),
        index=a.index.union(b.index, singletons_max),
    )
    return StoredFilter(header, united.to_bytes())


def _encoded_header(header: FilterHeader) -> bytes:
    key = str(header.key).encode()
    spans = header.index.singletons
    shape, range_ = header.shape, header.index.range
    first_ms, last_ms = range_ or (0, 0)
    fixed = _FIXED.pack(
        _KINDS[header.kind],
        header.hash_version,
        header.is_open,
        len(key),
        len(spans),
        header.filter_id,
        header.generation,
        shape.m,
        shape.n,
        shape.k,
        header.count,
        header.opened_ms,
        header.added_ms,
        range_ is not None,
        first_ms,
        last_ms,
    )
    length = _LENGTH.size + _FIXED.size + len(key) + _SPAN.size * len(spans) + _CRC.size
    assert length <= HEADER_BYTES_MAX, f"the header of {header.name} takes {length} bytes"
    framed = b"".join((_LENGTH.pack(_MAGIC, length), fixed, key, *(_SPAN.pack(*span) for span in spans)))
    return framed + _CRC.pack(crc32(framed))


def _header(data: bytes) -> tuple[FilterHeader, int]:
    if len(data) < _LENGTH.size:
        raise DamagedRecordError(f"not a stored filter: only {len(data)} bytes")
    magic, length = _LENGTH.unpack_from(data)
    if magic != _MAGIC:
        raise DamagedRecordError(f"a filter begins with {_MAGIC!r}, not {magic!r}")
    smallest = _LENGTH.size + _FIXED.size + _CRC.size
    if not smallest <= length <= min(len(data), HEADER_BYTES_MAX):
        raise DamagedRecordError(f"the header of a filter takes {length} bytes, but there are {len(data)}")
    framed, checksum = data[: length - _CRC.size], data[length - _CRC.size : length]
    if _CRC.pack(crc32(framed)) != checksum:
        raise DamagedRecordError("checksum mismatch in the header of a filter")
    try:
        return _parsed_header(framed), length
    except (struct.error, ValueError, KeyError, MisuseError) as error:
        raise DamagedRecordError(f"the header of a filter cannot be read: {error}") from None


def _parsed_header(framed: bytes) -> FilterHeader:
    fields = _FIXED.unpack_from(framed, _LENGTH.size)
    kind, hash_version, is_open, key_length, span_count, filter_id, generation, m, n, k, count = fields[:11]
    opened_ms, added_ms, has_range, first, last = fields[11:]
    start = _LENGTH.size + _FIXED.size
    key = history_key(framed[start : start + key_length].decode())
    spans = [_SPAN.unpack_from(framed, start + key_length + place * _SPAN.size) for place in range(span_count)]
    return FilterHeader(
        key=key,
        filter_id=filter_id,
        generation=generation,
        is_open=bool(is_open),
        kind=_KIND_NAMES[kind],
        shape=FilterShape(m, n, k),
        count=count,
        opened_ms=opened_ms,
        added_ms=added_ms,
        index=TimeIndex((first, last) if has_range else None, [(span[0], span[1]) for span in spans]),
        hash_version=hash_version,
    )


def _body_bytes(header: FilterHeader) -> int:
    """Bytes of the body: bits, or 16 for each exact record and 8 more for its subscriber if it is a delivery."""
    return header.shape.size_bytes if header.kind == "bloom" else header.count * header.shape.m // 8
