from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, Dcq, Pdcc, Uca
from penstock.congestion.pdcc import RateMeter, Rates, factor_cut, horizon_cut, increased
from penstock.model.tick import tick_at

PAPER = CongestionSettings.paper()
SWIFT = CongestionSettings.swift()
SWIFT_CUTS = CongestionSettings.swift(decrease_factor=0.25, cut_factor_max=0.97, drain_ms=2000, recovering_margin=1.0)
RATE = st.floats(0.5, 1e5)


class Pubend:
    """A pubend with PDCC, whose publishers publish as much as they may, up to a rate."""

    def __init__(self, settings: CongestionSettings = PAPER, *, offered: float = 100.0) -> None:
        self.now_ms = 0
        self.offered = offered
        self.pdcc = Pdcc(settings, now_ms=0)
        self.dcqs: list[Dcq] = []

    @property
    def rate(self) -> float:
        assert self.pdcc.rate_msg_s is not None
        return self.pdcc.rate_msg_s

    def run(self, seconds: float) -> None:
        """In steps of a tenth of a second."""
        for _ in range(round(seconds * 10)):
            allowed = self.pdcc.rate_msg_s
            messages = self.offered if allowed is None else min(allowed, self.offered)
            self.pdcc.on_published(round(messages / 10), now_ms=self.now_ms)
            if allowed is not None and allowed < self.offered:
                self.pdcc.on_held_back()
            self.now_ms += 100
            dcq = self.pdcc.on_deadline(tick_at(self.now_ms), now_ms=self.now_ms)
            if dcq is not None:
                self.dcqs.append(dcq)
            self.pdcc.check_invariants()

    def alert(self, nonrec: float = inf, rec: float = inf, *, lag_ms: int = 0, back: int = 1) -> bool:
        return self.pdcc.on_uca(Uca(self.dcqs[-back].seq, nonrec, rec, lag_ms), now_ms=self.now_ms)


def limited(settings: CongestionSettings = PAPER, *, offered: float = 100.0) -> Pubend:
    """A pubend that was just cut for the first time, and has asked again since."""
    pubend = Pubend(settings, offered=offered)
    pubend.run(3)
    assert pubend.alert(0.9)
    pubend.run(1)
    return pubend


# --- queries


def test_a_query_goes_down_every_second() -> None:
    pubend = Pubend()
    assert pubend.pdcc.next_deadline() == 0
    pubend.run(5)
    assert [dcq.position >> 16 for dcq in pubend.dcqs] == [100, 1100, 2100, 3100, 4100]
    assert pubend.pdcc.next_deadline() == 5100
    assert pubend.pdcc.on_deadline(tick_at(5_099), now_ms=5_099) is None


def test_queries_are_numbered_by_the_tick_so_that_they_grow_across_restarts() -> None:
    before, after = Pubend(), Pdcc(PAPER, now_ms=9_000)
    before.run(9)
    dcq = after.on_deadline(tick_at(9_000), now_ms=9_000)
    assert dcq is not None
    assert dcq.seq == dcq.position > before.dcqs[-1].seq


def test_queries_grow_even_if_the_stream_stands_still() -> None:
    pdcc = Pdcc(PAPER, now_ms=0)
    queries = [pdcc.on_deadline(7, now_ms=now_ms) for now_ms in (0, 1_000, 2_000)]
    assert queries == [Dcq(7, 7), Dcq(tick_at(1_000), 7), Dcq(tick_at(2_000), 7)]
    assert [query.sent_ms for query in queries if query] == [None, 1_000, 2_000]


def test_queries_grow_even_if_the_clock_stands_still() -> None:
    pdcc = Pdcc(PAPER, now_ms=1_000)
    ahead = tick_at(5_000)
    queries = [pdcc.on_deadline(ahead, now_ms=now_ms) for now_ms in (2_000, 3_000, 4_000)]
    assert queries == [Dcq(ahead + step, ahead) for step in (1, 3, 5)]
    assert [query.sent_ms for query in queries if query] == [None, None, None], "the clock was set back"


def test_a_limited_pubend_may_ask_more_often() -> None:
    pubend = limited(CongestionSettings.paper(dcq_interval_limited_ms=500))
    count = len(pubend.dcqs)
    pubend.run(4)
    assert len(pubend.dcqs) - count == 8


def test_without_pdcc_nothing_is_asked_and_nothing_limited() -> None:
    pubend = limited()
    pubend.pdcc.settings = CongestionSettings.paper(pdcc=False)
    assert pubend.pdcc.rate_msg_s is None
    assert pubend.pdcc.next_deadline() is None
    assert pubend.pdcc.on_deadline(tick_at(99_000), now_ms=99_000) is None
    assert not pubend.alert(0.1)


# --- decreases


def test_a_pubend_that_was_never_alerted_has_no_limit() -> None:
    pubend = Pubend()
    pubend.run(100)
    assert pubend.pdcc.rate_msg_s is None
    assert not pubend.pdcc.is_limited


def test_the_first_alert_halves_the_actual_rate() -> None:
    pubend = Pubend(offered=120)
    pubend.run(3)
    assert pubend.alert(0.9)
    assert pubend.rate == pytest.approx(60)
    assert pubend.pdcc.decreases == 1


@pytest.mark.parametrize(
    ("first", "second", "is_cut"),
    [
        ((0.9, inf), (0.8, inf), True),
        ((0.9, inf), (0.9, inf), True),  # equal is not improved
        ((0.9, inf), (0.91, inf), False),
        ((inf, 1.5), (inf, 1.5), True),
        ((inf, 1.5), (inf, 1.6), False),
        ((0.8, 1.5), (0.9, 1.6), False),
        ((0.8, 1.5), (0.9, 1.5), True),
        ((0.8, 1.5), (0.7, 1.6), True),
        ((0.8, 1.5), (0.9, inf), False),  # who does not alert any more does not count
        ((0.8, inf), (0.9, 1.9), True),  # who alerts for the first time has not improved
        ((0.8, inf), (inf, 1.9), True),
    ],
)
def test_nothing_is_cut_if_every_class_that_alerts_improved(
    first: tuple[float, float], second: tuple[float, float], *, is_cut: bool
) -> None:
    pubend = Pubend(CongestionSettings.paper(recovering_share=0.0))
    pubend.run(3)
    assert pubend.alert(*first)
    pubend.run(1)
    before = pubend.rate
    assert pubend.alert(*second) is is_cut
    assert pubend.rate == pytest.approx(before / 2 if is_cut else before)


def test_each_alert_is_compared_with_the_one_before_it() -> None:
    pubend = limited()
    assert not pubend.alert(0.93)
    pubend.run(1)
    # Better than the 0.9 that was cut for, but not than the last.
    assert pubend.alert(0.92)


def test_alerts_older_than_the_first_query_after_a_cut_change_nothing() -> None:
    pubend = Pubend()
    pubend.run(3)
    assert pubend.alert(0.9, back=2)
    before = pubend.rate
    assert not pubend.alert(0.1)
    pubend.run(1)
    assert not pubend.alert(0.1, back=2)
    assert pubend.rate == before
    assert pubend.pdcc.ignored_ucas == 2
    # They are not the previous one either: 0.5 is worse than the 0.9 before the cut.
    assert pubend.alert(0.5)
    assert pubend.rate == pytest.approx(before / 2)


def test_an_alert_that_changes_nothing_still_puts_off_the_increase() -> None:
    pubend = limited()
    before = pubend.rate
    for _ in range(5):
        pubend.run(1)
        assert not pubend.alert(0.1, back=len(pubend.dcqs))
    assert pubend.rate == before
    pubend.run(3)
    assert pubend.rate > before


@pytest.mark.parametrize("uca", [Uca(10**15), Uca(2**62, 0.1)])
def test_what_is_no_alert_or_answers_no_query_of_ours_is_ignored(uca: Uca) -> None:
    pubend = Pubend()
    pubend.run(3)
    assert not pubend.pdcc.on_uca(uca, now_ms=pubend.now_ms)
    assert pubend.pdcc.rate_msg_s is None
    assert pubend.pdcc.last_uca is None


def test_after_increases_a_cut_goes_back_three_quarters_of_the_way() -> None:
    pubend = limited()
    assert pubend.rate == pytest.approx(50)
    pubend.run(6)
    grown = pubend.rate
    assert grown > 54
    assert pubend.alert(0.9)
    assert pubend.rate == pytest.approx(50 + 0.25 * (grown - 50))


def test_a_second_cut_in_a_row_halves() -> None:
    pubend = limited()
    assert pubend.alert(0.8)
    assert pubend.rate == pytest.approx(25)


def test_the_rate_never_falls_below_its_floor() -> None:
    pubend = limited(CongestionSettings.paper(rate_floor_msg_s=4.0))
    for step in range(20):
        pubend.alert(0.8 - step / 100)
        pubend.run(1)
    assert pubend.rate == 4.0


def test_an_idle_pubend_is_not_limited() -> None:
    pubend = Pubend(offered=0)
    pubend.run(3)
    assert not pubend.alert(0.5)
    assert pubend.pdcc.rate_msg_s is None
    assert pubend.pdcc.ignored_ucas == 1


# --- increases


def test_without_alerts_for_two_seconds_a_throttled_rate_grows_every_interval() -> None:
    pubend = Pubend()
    pubend.run(3)
    pubend.alert(0.9)
    rates = []
    for _ in range(6):
        pubend.run(1)
        rates.append(pubend.rate)
    assert rates == [50, 50, 52, 54, 56, 58]
    assert pubend.pdcc.increases == 4


def test_far_from_the_last_decrease_it_grows_by_a_share() -> None:
    pubend = limited(offered=1_000)
    pubend.run(40)
    before = pubend.rate
    assert before - 500 > 40
    pubend.run(1)
    assert pubend.rate == pytest.approx(before + 0.05 * (before - 500))


def test_an_increase_forgets_the_previous_alert() -> None:
    pubend = limited()
    pubend.run(4)
    assert pubend.pdcc.increases > 0
    # Better than the 0.9 before, but there is nothing to compare it with any more.
    assert pubend.alert(0.94)


def test_steps_may_be_further_apart_than_queries() -> None:
    pubend = limited(CongestionSettings.paper(dcq_interval_limited_ms=100, increase_step_ms=500, nouca_ms=100))
    before = pubend.pdcc.increases
    pubend.run(5)
    assert pubend.pdcc.increases - before == 10


def test_a_rate_that_does_not_bind_does_not_grow() -> None:
    pubend = limited()
    pubend.offered = 40
    pubend.run(10)
    assert pubend.rate == pytest.approx(50)


def test_where_another_limit_binds_the_rate_is_at_most_twice_the_actual() -> None:
    pubend = limited()
    pubend.offered = 10
    pubend.run(5)
    assert pubend.rate == pytest.approx(20)
    pubend.offered = 0
    pubend.run(3)
    assert pubend.rate == PAPER.rate_floor_msg_s
    pubend.offered = 1_000
    pubend.run(4)
    assert pubend.rate < 10


def test_a_limit_that_nobody_needs_is_lifted_after_a_while() -> None:
    pubend = limited()
    pubend.offered = 40
    pubend.run(58)
    assert pubend.rate == pytest.approx(50)
    pubend.run(4)
    assert not pubend.pdcc.is_limited
    # The next alert begins anew, with the actual rate.
    assert pubend.alert(0.9)
    assert pubend.rate == pytest.approx(20)


def test_a_limit_that_is_needed_or_alerted_stays() -> None:
    needed = limited(offered=1_000_000)
    needed.run(200)
    assert needed.pdcc.is_limited
    alerted = limited()
    alerted.offered = 40
    for step in range(20):
        alerted.run(5)
        assert alerted.pdcc.is_limited
        assert not alerted.alert(0.91 + step / 1000)


def test_a_limit_that_was_needed_a_moment_ago_is_not_lifted() -> None:
    pubend = limited(offered=1_000_000)
    pubend.run(100)
    pubend.offered = 40
    pubend.run(58)
    assert pubend.pdcc.is_limited
    pubend.run(4)
    assert not pubend.pdcc.is_limited


def test_what_is_gained_after_another_limit_has_bound_is_gained_from_there() -> None:
    pubend = limited()
    pubend.offered = 10
    pubend.run(5)
    assert pubend.rate == pytest.approx(20)
    pubend.offered = 1_000
    pubend.run(40)
    before = pubend.rate
    assert before > 70
    pubend.run(1)
    assert pubend.rate == pytest.approx(before + 0.05 * (before - 20))


# --- swift


def test_swift_cuts_to_what_comes_through() -> None:
    pubend = Pubend(SWIFT)
    pubend.run(3)
    assert pubend.alert(0.6)
    assert pubend.rate == pytest.approx(60)


def test_swift_does_not_cut_twice_for_the_same_congestion() -> None:
    pubend = Pubend(SWIFT)
    pubend.run(3)
    pubend.alert(0.6)
    pubend.run(0.5)
    # Half a second later, what comes is still from before the cut: the same rate, and as much comes through.
    assert pubend.alert(0.6, lag_ms=600)
    drained = 1 - 600 / SWIFT.drain_ms
    assert pubend.rate == pytest.approx(60 * drained)


def test_swift_spares_a_share_of_the_rate_in_a_recovery_only() -> None:
    pubend = Pubend(SWIFT)
    pubend.run(3)
    for step in range(10):
        pubend.alert(rec=0.5 - step / 100)
        pubend.run(0.5)
    assert pubend.rate == pytest.approx(SWIFT.recovering_share * 100, rel=0.05)
    # Long after the last alert of the recovery, a narrow link is obeyed, however much that takes.
    pubend.run(20)
    for step in range(20):
        pubend.alert(0.3 - step / 100, lag_ms=100)
        pubend.run(0.5)
    assert pubend.rate < SWIFT.recovering_share * 100 / 2


def test_a_recovery_spares_of_the_rate_before_others_alerted_because_of_it() -> None:
    pubend = Pubend(PAPER)
    pubend.run(12)
    # A link that fills up with a recovery makes the others behind it alert first.
    assert pubend.alert(0.9)
    pubend.run(1)
    for _ in range(10):
        pubend.alert(rec=0.5)
        pubend.run(1)
    assert pubend.rate == pytest.approx(PAPER.recovering_share * 95, rel=0.1)


def test_what_a_recovery_spares_halves_with_time_so_that_every_recovery_ends() -> None:
    pubend = Pubend(PAPER)
    pubend.run(3)
    rates = []
    for _ in range(250):
        pubend.alert(rec=0.5)
        pubend.run(1)
        rates.append(pubend.rate)
    share, halving_s = PAPER.recovering_share, PAPER.recovering_halving_ms // 1000
    assert rates[20] == pytest.approx(share * 100, rel=0.15)
    assert rates[20 + halving_s] == pytest.approx(rates[20] / 2, rel=0.05)
    assert all(later <= earlier for earlier, later in pairwise(rates))


# --- properties

STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.1, 0.5, 1.0, 2.0]),
        st.one_of(st.just(inf), st.floats(0, 3)),
        st.one_of(st.just(inf), st.floats(0, 3)),
        st.integers(0, 5_000),
        st.sampled_from([0.0, 10.0, 70.0, 500.0]),
    ),
    max_size=20,
)


@settings(max_examples=60)
@given(st.sampled_from([PAPER, SWIFT]), STEPS)
def test_the_rate_keeps_to_its_bounds_whatever_comes(
    parameters: CongestionSettings, steps: list[tuple[float, float, float, int, float]]
) -> None:
    pubend = Pubend(parameters)
    pubend.run(2)
    for seconds, nonrec, rec, lag_ms, offered in steps:
        pubend.offered = offered
        before = pubend.pdcc.rate_msg_s
        pubend.run(seconds)
        after = pubend.pdcc.rate_msg_s
        if after is not None:
            assert before is not None
            assert after >= parameters.rate_floor_msg_s
            if seconds == 2 and after > offered:
                # For so long that the actual rate is known, and nobody was held back at the end.
                bound = max(2 * offered, parameters.rate_floor_msg_s)
                assert after <= max(bound, 2 * pubend.pdcc.actual_msg_s(now_ms=pubend.now_ms))
        if pubend.alert(nonrec, rec, lag_ms=lag_ms) and after is not None:
            assert parameters.rate_floor_msg_s <= pubend.rate <= after


# --- rises and cuts by themselves


@pytest.mark.parametrize(
    ("allowed", "decreased", "rate"),
    [(100, 100, 102), (100, 60, 102), (100, 59, 102.05), (100, 20, 104), (0.5, 0.5, 2.5), (1000, 0, 1050)],
)
def test_equation_1(allowed: float, decreased: float, rate: float) -> None:
    assert increased(Rates(allowed, decreased), PAPER) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "decreased", "rate"),
    [
        (100, 100, 50),
        (100, 80, 85),
        (100, 0.0, 50),
        (100, 40, 55),
        (100, 33, 50),
        # The last decrease may lie above, when another limit has bound meanwhile: no cut raises the rate.
        (100, 120, 50),
    ],
)
def test_equations_2_and_3(allowed: float, decreased: float, rate: float) -> None:
    assert factor_cut(Rates(allowed, decreased), Uca(1, 0.5), PAPER) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("uca", "then", "rate"),
    [
        # So much as comes through: 0.8 of what was published then.
        (Uca(1, 0.8), 100.0, 80.0),
        (Uca(1, 0.5), 80.0, 40.0),
        # And less, if a queue must drain: a tenth of it in 2 s if it lags by 200 ms.
        (Uca(1, 0.8, inf, 200), 100.0, 72.0),
        # Nothing is cut to less than a quarter, nor left nearly as it was.
        (Uca(1, 0.1), 100.0, 25.0),
        (Uca(1, 0.8, inf, 60_000), 100.0, 25.0),
        (Uca(1, 0.99), 100.0, 97.0),
        (Uca(1, 0.9), 500.0, 97.0),
        # Where nobody knows what was published, it was what is allowed.
        (Uca(1, 0.8), 0.0, 80.0),
        # Recovering: towards twice as fast as time.
        (Uca(1, inf, 1.5), 100.0, 75.0),
        (Uca(1, inf, 0.1), 100.0, 25.0),
        # Both: the slower counts.
        (Uca(1, 0.8, 1.0), 100.0, 50.0),
        (Uca(1, 0.4, 1.5), 100.0, 40.0),
    ],
)
def test_a_cut_by_the_horizon_rate(uca: Uca, then: float, rate: float) -> None:
    assert horizon_cut(Rates(100.0, 100.0, then), uca, SWIFT_CUTS) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "uca", "rate"),
    [
        (100.0, Uca(1, inf, 0.1), 25.0),
        (30.0, Uca(1, inf, 0.1), 12.5),
        (12.5, Uca(1, inf, 0.1), 12.5),
        (5.0, Uca(1, inf, 0.1), 5.0),
        (30.0, Uca(1, 0.2, inf, 100), 12.5),
        (30.0, Uca(1, 0.2, inf, SWIFT_CUTS.lag_ms_max), 12.5),
        # Those that lag by too much while another recovers are not made to wait for it.
        (30.0, Uca(1, 0.2, inf, SWIFT_CUTS.lag_ms_max + 1), 7.5),
    ],
)
def test_a_recovery_spares_some_of_the_rate(allowed: float, uca: Uca, rate: float) -> None:
    assert horizon_cut(Rates(allowed, allowed, 30.0, spared=12.5), uca, SWIFT_CUTS) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "uca", "rate"),
    [
        (100.0, Uca(1, inf, 0.1), 50.0),
        (30.0, Uca(1, inf, 0.1), 20.0),
        (20.0, Uca(1, inf, 0.1), 20.0),
        (10.0, Uca(1, inf, 0.1), 10.0),
        (30.0, Uca(1, 0.2, inf, PAPER.lag_ms_max), 20.0),
        (30.0, Uca(1, 0.2, inf, PAPER.lag_ms_max + 1), 15.0),
    ],
)
def test_a_recovery_spares_some_of_the_rate_also_from_a_cut_by_factor(allowed: float, uca: Uca, rate: float) -> None:
    assert factor_cut(Rates(allowed, allowed, spared=20.0), uca, PAPER) == pytest.approx(rate)


@given(RATE, RATE)
def test_an_increase_is_one(allowed: float, decreased: float) -> None:
    assert increased(Rates(allowed, decreased), PAPER) >= allowed + PAPER.increase_min_msg_s


@given(RATE, st.floats(0, 3))
def test_a_cut_is_one_and_bounded(allowed: float, share: float) -> None:
    rate = factor_cut(Rates(allowed, share * allowed), Uca(1, 0.5), PAPER)
    assert 0.5 * allowed <= rate <= allowed
    assert rate < allowed or 0 < allowed - share * allowed < 1e-6 * allowed


@given(RATE, st.floats(0, 1e5), st.floats(0, 5), st.floats(0, 5), st.integers(0, 10**6))
def test_a_cut_by_the_horizon_rate_is_one_and_bounded(
    allowed: float, then: float, nonrec: float, rec: float, lag_ms: int
) -> None:
    for uca in (Uca(1, nonrec, inf, lag_ms), Uca(1, inf, rec, lag_ms), Uca(1, nonrec, rec, lag_ms)):
        assert 0.25 * allowed <= horizon_cut(Rates(allowed, allowed, then), uca, SWIFT_CUTS) <= 0.97 * allowed


# --- the meter


def steady(rate_ms: int = 10, until_ms: int = 5_000) -> RateMeter:
    meter = RateMeter(now_ms=0)
    for now_ms in range(0, until_ms, rate_ms):
        meter.count(1, now_ms=now_ms)
    return meter


def test_a_steady_rate_is_measured_exactly() -> None:
    assert steady().rate(until_ms=5_000, window_ms=1000) == 100
    assert steady(20).rate(until_ms=3_000, window_ms=1000) == 50


def test_the_past_is_remembered() -> None:
    meter = steady(until_ms=2_000)
    meter.count(10, now_ms=4_000)
    assert meter.rate(until_ms=2_000, window_ms=1000) == 100
    assert meter.rate(until_ms=2_500, window_ms=1000) == 50
    assert meter.rate(until_ms=4_000, window_ms=1000) == 0
    assert meter.rate(until_ms=4_100, window_ms=1000) == 10


def test_the_first_second_is_measured_over_what_there_was_of_it() -> None:
    meter = RateMeter(now_ms=10_000)
    assert meter.rate(until_ms=10_000, window_ms=1000) == 0
    meter.count(30, now_ms=10_050)
    assert meter.rate(until_ms=10_200, window_ms=1000) == 150


def test_nothing_was_published_before_it_began() -> None:
    meter = RateMeter(now_ms=10_000)
    meter.count(30, now_ms=10_050)
    assert meter.rate(until_ms=5_000, window_ms=1000) == 0


def test_a_clock_that_was_set_back_loses_no_messages() -> None:
    meter = RateMeter(now_ms=0)
    meter.count(5, now_ms=1_000)
    meter.count(5, now_ms=400)
    assert meter.rate(until_ms=1_100, window_ms=1000) == 10


def test_memory_is_bounded() -> None:
    meter = steady(100, until_ms=100_000)
    assert meter.rate(until_ms=100_000, window_ms=100_000) == pytest.approx(3)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), max_size=40))
def test_every_message_counts_once(steps: list[tuple[int, int]]) -> None:
    meter, now_ms = RateMeter(now_ms=0), 0
    for wait_ms, messages in steps:
        now_ms += wait_ms
        meter.count(messages, now_ms=now_ms)
    until_ms = (now_ms // 100 + 1) * 100
    counted = meter.rate(until_ms=until_ms, window_ms=until_ms) * until_ms / 1000
    assert counted == pytest.approx(sum(messages for _, messages in steps))
