from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, Uca, UcaConsolidation

PAPER = CongestionSettings.paper()


def test_the_first_alert_of_a_query_passes_at_once() -> None:
    consolidation = UcaConsolidation(PAPER)
    assert consolidation.on_uca(Uca(1, 0.8, inf, 100)) == Uca(1, 0.8, inf, 100)
    assert consolidation.on_uca(Uca(2, inf, 1.4, 200)) == Uca(2, inf, 1.4, 200)


def test_a_query_numbered_zero_passes_too() -> None:
    assert UcaConsolidation(PAPER).on_uca(Uca(0, 0.8)) == Uca(0, 0.8)


def test_other_alerts_of_the_same_query_feed_the_next() -> None:
    consolidation = UcaConsolidation(PAPER)
    consolidation.on_uca(Uca(1, 0.8, inf, 5))
    assert consolidation.on_uca(Uca(1, 0.5, inf, 50)) is None
    assert consolidation.on_uca(Uca(1, 0.6, 1.1, 20)) is None
    assert consolidation.on_uca(Uca(2, 0.9, inf, 7)) == Uca(2, 0.5, 1.1, 50)
    assert consolidation.on_uca(Uca(3, 0.9, inf, 7)) == Uca(3, 0.9, inf, 7)


def test_a_late_alert_of_an_older_query_feeds_the_next_too() -> None:
    consolidation = UcaConsolidation(PAPER)
    consolidation.on_uca(Uca(5, 0.8))
    assert consolidation.on_uca(Uca(3, 0.2)) is None
    assert consolidation.on_uca(Uca(6, 0.9)) == Uca(6, 0.2)
    assert consolidation.seq == 6


def test_the_slowest_is_named() -> None:
    consolidation = UcaConsolidation(PAPER)
    assert consolidation.on_uca(Uca(1, 0.8).by("SB1")) == Uca(1, 0.8, host="SB1")
    consolidation.on_uca(Uca(1, 0.3).by("SB2"))
    consolidation.on_uca(Uca(1, inf, 0.5).by("SB3"))
    assert consolidation.on_uca(Uca(2, 0.7).by("SB1")) == Uca(2, 0.3, 0.5, host="SB2")
    assert consolidation.on_uca(Uca(3, 0.7).by("SB1")) == Uca(3, 0.7, host="SB1")


def test_minima_that_have_waited_too_long_are_given_up_where_that_is_set() -> None:
    second = 1000 << 16
    for minima_ms, kept in ((0, True), (1000, False), (4000, True)):
        consolidation = UcaConsolidation(CongestionSettings.paper(minima_ms=minima_ms))
        consolidation.on_uca(Uca(second, 0.8))
        consolidation.on_uca(Uca(second, 0.1, inf, 900))
        passed = consolidation.on_uca(Uca(3 * second, 0.9))
        assert passed == (Uca(3 * second, 0.1, inf, 900) if kept else Uca(3 * second, 0.9))


RATES = st.one_of(st.just(inf), st.floats(0, 5))


@given(st.lists(st.builds(Uca, st.integers(0, 6), RATES, RATES, st.integers(0, 99)), max_size=30))
def test_minima_are_right_under_any_interleaving(ucas: list[Uca]) -> None:
    consolidation = UcaConsolidation(PAPER)
    waiting: list[Uca] = []
    newest = -1
    for uca in ucas:
        waiting.append(uca)
        passed = consolidation.on_uca(uca)
        assert (passed is not None) == (uca.seq > newest)
        if passed is not None:
            newest = uca.seq
            assert passed.seq == uca.seq
            assert passed.min_nonrec == min(each.min_nonrec for each in waiting)
            assert passed.min_rec == min(each.min_rec for each in waiting)
            assert passed.lag_ms == max(each.lag_ms for each in waiting)
            waiting = []
