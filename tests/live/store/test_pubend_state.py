"""What a store knows of a pubend."""

from __future__ import annotations

from itertools import pairwise

from penstock.live.store.pubend_state import PubendState, signed, unsigned, unsigned_or_none
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick


def test_ticks_keep_their_order_as_signed_integers() -> None:
    ticks = [TICK_MIN, 1, 2**63 - 1, 2**63, TICK_MAX]
    assert [unsigned(signed(tick)) for tick in ticks] == ticks
    assert all(signed(low) < signed(high) for low, high in pairwise(ticks))
    assert signed(TICK_MIN) == -(2**63)
    assert signed(TICK_MAX) == 2**63 - 1
    assert (unsigned_or_none(None), unsigned_or_none(-(2**63))) == (None, 0)


def test_the_next_tick_is_above_the_last_one_and_not_below_what_was_trimmed() -> None:
    assert PubendState().next_tick == 0
    assert PubendState(last_tick=Tick(4)).next_tick == 5
    assert PubendState(trimmed_below=Tick(4)).next_tick == 4
    assert PubendState(last_tick=Tick(4), trimmed_below=Tick(9)).next_tick == 9
