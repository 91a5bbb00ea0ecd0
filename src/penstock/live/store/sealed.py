"""Seals the stored bytes of a named value with a checksum over the name and the bytes.

Covering the name also detects bytes that are whole but in the wrong place.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["seal", "unseal"]

_CHECKSUM_BYTES = 4


def seal(name: str, value: bytes) -> bytes:
    """The value as it is stored under a name."""
    return crc32(value, crc32(name.encode())).to_bytes(_CHECKSUM_BYTES) + value


def unseal(name: str, stored: object) -> bytes | None:
    """The value that was stored under a name; None if these are not the bytes that were written."""
    if not isinstance(stored, bytes):
        return None
    value = stored[_CHECKSUM_BYTES:]
    return value if stored[:_CHECKSUM_BYTES] == crc32(value, crc32(name.encode())).to_bytes(_CHECKSUM_BYTES) else None
