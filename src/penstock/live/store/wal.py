"""Reads SQLite's write-ahead log without SQLite, which silently ends it at the first bad frame.

A frame is a page with a header: page number, size of the database if the frame ends a transaction, two salts, and a
checksum that runs on from the frame before (sqlite.org/fileformat2.html, section 4). A frame is *linked* if its
checksum follows from the one stored in the frame before: linked frames after a bad one show what was written there.
"""

from __future__ import annotations

from functools import cached_property
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.live.store.totals import Totals, find_totals

__all__ = ["WriteAheadLog"]

_HEAD: Final = Struct(">8I")
_FRAME_HEAD: Final = Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The lowest bit says whether checksums are computed over big-endian words."""
_VERSION: Final = 3_007_000
_PAGE_BYTES: Final = 4_096
"""The page size of all stores."""
_FRAME_BYTES: Final = _FRAME_HEAD.size + _PAGE_BYTES
_STEPS: Final = (8 + _PAGE_BYTES) // 8
"""Pairs of words that the checksum of a frame covers."""
_FRAMES_AT_ONCE: Final = 1_024
_MASK: Final = 0xFFFFFFFF

_Words = NDArray[np.uint32]
_Matrix = tuple[int, int, int, int]


class _FrameHead(NamedTuple):
    page: int
    pages: int
    """Pages of the database after the transaction that this frame ends; 0 within a transaction."""
    salts: tuple[int, int]
    checksum: tuple[int, int]


class WriteAheadLog:
    """A write-ahead log, parsed from its bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._salts = self._checked_salts()
        self.frames = max(0, len(content) - _HEAD.size) // _FRAME_BYTES
        """Complete frames in the file, of any age."""

    def _checked_salts(self) -> tuple[int, int] | None:
        """The salts in the header of the log, if the header is whole."""
        if len(self._content) < _HEAD.size:
            return None
        magic, version, page_bytes, _, *salts, check_0, check_1 = _HEAD.unpack_from(self._content)
        words = np.frombuffer(self._content, self._word_type(magic), 6)
        if (magic & ~1, version, page_bytes) != (_MAGIC, _VERSION, _PAGE_BYTES):
            return None
        if _checksum((0, 0), words.astype(np.uint32)) != (check_0, check_1):
            return None
        return (salts[0], salts[1])

    @staticmethod
    def _word_type(magic: int) -> str:
        return ">u4" if magic & 1 else "<u4"

    @property
    def has_header(self) -> bool:
        """Whether the header of the log is whole; without it SQLite treats the log as empty."""
        return self._salts is not None

    @cached_property
    def _heads(self) -> list[_FrameHead]:
        starts = range(_HEAD.size, _HEAD.size + self.frames * _FRAME_BYTES, _FRAME_BYTES)
        found = (_FRAME_HEAD.unpack_from(self._content, start) for start in starts)
        return [_FrameHead(page, pages, (s0, s1), (c0, c1)) for page, pages, s0, s1, c0, c1 in found]

    @cached_property
    def _sums(self) -> list[tuple[int, int]]:
        """What each frame adds to the running checksum."""
        raw = np.frombuffer(self._content, np.uint8, self.frames * _FRAME_BYTES, _HEAD.size)
        table = raw.reshape(self.frames, _FRAME_BYTES)
        word_type = self._word_type(int.from_bytes(self._content[:4]))
        weights = _weights(_STEPS)
        sums: list[tuple[int, int]] = []
        # Some frames at a time: a log may be large, and the words are copies.
        for start in range(0, self.frames, _FRAMES_AT_ONCE):
            part = table[start : start + _FRAMES_AT_ONCE]
            covered = np.concatenate((part[:, :8], part[:, _FRAME_HEAD.size :]), axis=1)
            words = covered.view(word_type).astype(np.uint32)
            sums += [(int(s0), int(s1)) for s0, s1 in words @ weights]
        return sums

    def _follows(self, before: tuple[int, int], frame: int) -> bool:
        """Whether the checksum of a frame follows from the one before."""
        return _moved(before, self._sums[frame]) == self._heads[frame].checksum

    def _is_current(self, frame: int) -> bool:
        return self._salts is None or self._heads[frame].salts == self._salts

    @cached_property
    def whole_frames(self) -> int:
        """How many frames from the first one on SQLite accepts."""
        if self._salts is None:
            return 0
        before = _HEAD.unpack_from(self._content)[6:8]
        for frame in range(self.frames):
            if not self._is_current(frame) or not self._follows(before, frame):
                return frame
            before = self._heads[frame].checksum
        return self.frames

    def _linked_commits(self, first: int) -> list[int]:
        """Frames from this one on that end a transaction, and follow from the frame before them."""
        return [
            frame
            for frame in range(max(1, first), self.frames)
            if self._heads[frame].pages
            and self._is_current(frame)
            and self._follows(self._heads[frame - 1].checksum, frame)
        ]

    def has_commits_behind_damage(self) -> bool:
        """Whether whole transactions follow one that is not whole.

        A power failure tears the last transaction only, since each one is synced before the next begins.
        """
        bad = self.whole_frames
        if bad == self.frames or self._salts is None:
            return False
        behind = self._linked_commits(bad + 1)
        # The first of them may end the torn transaction itself, unless the bad frame did.
        is_end = bool(self._heads[bad].pages) and self._is_current(bad)
        return len(behind) > (0 if is_end else 1)

    def totals(self, store_id: bytes) -> list[Totals]:
        """The totals in all frames of the current log, whole or not, in their order; of any age without a header."""
        found = (find_totals(self.image(frame)) for frame in range(self.frames) if self._is_current(frame))
        return [totals for totals in found if totals is not None and totals.store_id == store_id]

    def image(self, frame: int) -> bytes:
        """The page in a frame."""
        start = _HEAD.size + frame * _FRAME_BYTES + _FRAME_HEAD.size
        return self._content[start : start + _PAGE_BYTES]

    def forced(self) -> bytes:
        """A log of one transaction with the last image of every page, whether its frame is whole or not.

        Only for salvaging: every row that is read from it must be checked.
        """
        current = [frame for frame in range(self.frames) if self._is_current(frame)]
        linked = set(self._linked_commits(self.whole_frames))
        ends = [
            frame for frame in current if frame in linked or (frame < self.whole_frames and self._heads[frame].pages)
        ]
        if not ends:
            return b""
        pages = self._heads[ends[-1]].pages
        images = {
            self._heads[frame].page: self.image(frame)
            for frame in current
            if frame <= ends[-1] and 1 <= self._heads[frame].page <= pages
        }
        return _written(images, pages)


def _written(images: dict[int, bytes], pages: int) -> bytes:
    """A log with these pages in one transaction."""
    head = _HEAD.pack(_MAGIC, _VERSION, _PAGE_BYTES, 0, 1, 1, 0, 0)[:24]
    running = _checksum((0, 0), np.frombuffer(head, "<u4").astype(np.uint32))
    parts = [head, Struct(">2I").pack(*running)]
    for number, (page, image) in enumerate(sorted(images.items()), start=1):
        start = Struct(">2I").pack(page, pages if number == len(images) else 0)
        running = _checksum(running, np.frombuffer(start + image, "<u4").astype(np.uint32))
        parts += (start, Struct(">4I").pack(1, 1, *running), image)
    return b"".join(parts)


# The checksum: for each pair of words x, y it is s = s + x + t, then t = t + y + s, modulo 2**32. That is linear, so a
# whole frame is one product with fixed weights, and a step from frame to frame is one with a fixed matrix.


def _product(a: _Matrix, b: _Matrix) -> _Matrix:
    return (
        (a[0] * b[0] + a[1] * b[2]) & _MASK,
        (a[0] * b[1] + a[1] * b[3]) & _MASK,
        (a[2] * b[0] + a[3] * b[2]) & _MASK,
        (a[2] * b[1] + a[3] * b[3]) & _MASK,
    )


def _powers(steps: int) -> list[_Matrix]:
    """What each number of steps, from 0 up to this one, does to the checksum before them."""
    powers: list[_Matrix] = [(1, 0, 0, 1)]
    for _ in range(steps):
        powers.append(_product(powers[-1], (1, 1, 1, 2)))
    return powers


def _weights(steps: int) -> _Words:
    """What each word adds to both halves of the checksum after this many pairs."""
    rows: list[tuple[int, int]] = []
    for a, b, c, d in reversed(_powers(steps)[:steps]):
        rows += (((a + b) & _MASK, (c + d) & _MASK), (b, d))
    return np.array(rows, np.uint32)


_FRAME_STEP: Final = _powers(_STEPS)[_STEPS]


def _moved(before: Any, added: tuple[int, int]) -> tuple[int, int]:
    s, t = before
    a, b, c, d = _FRAME_STEP
    return (a * s + b * t + added[0]) & _MASK, (c * s + d * t + added[1]) & _MASK


def _checksum(before: tuple[int, int], words: _Words) -> tuple[int, int]:
    """The checksum, step by step, for short input."""
    s, t = before
    for x, y in words.reshape(-1, 2).tolist():
        s = (s + x + t) & _MASK
        t = (t + y + s) & _MASK
    return s, t
