"""The bytes of a stored batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.live.store.batch import BatchDamagedError, is_whole, pack_batch, unpack_batch
from penstock.model.tick import TICK_MAX, Tick

ticks = st.sets(st.integers(0, TICK_MAX), min_size=1, max_size=20).map(sorted)
BATCH = [(Tick(5), b"five"), (Tick(7), b""), (Tick(9), b"nine")]


@given(ticks=ticks, data=st.data())
def test_what_is_packed_comes_back(ticks: list[int], data: st.DataObject) -> None:
    messages = [(Tick(tick), data.draw(st.binary(max_size=30))) for tick in ticks]
    assert unpack_batch(messages[0][0], pack_batch(messages)) == messages


def test_every_flipped_bit_is_noticed() -> None:
    stored = pack_batch(BATCH)
    for place in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(BatchDamagedError):
            unpack_batch(Tick(5), bytes(flipped))


def test_every_cut_is_noticed() -> None:
    stored = pack_batch(BATCH)
    for length in range(len(stored)):
        with pytest.raises(BatchDamagedError):
            unpack_batch(Tick(5), stored[:length])


def test_a_batch_in_the_wrong_place_is_noticed() -> None:
    with pytest.raises(BatchDamagedError):
        unpack_batch(Tick(6), pack_batch(BATCH))


def test_a_whole_batch_is_known_by_its_place() -> None:
    stored = pack_batch(BATCH)
    assert is_whole(Tick(5), stored)
    assert not is_whole(Tick(6), stored)
    assert not is_whole(Tick(5), stored + b"\0")
    assert not is_whole(Tick(5), b"")
