from __future__ import annotations

import numpy as np
import pytest

from penstock.ajil.amounts import Unit
from penstock.ajil.groups import GroupIndex
from penstock.ajil.messages import Entry
from penstock.ajil.monitor import Monitor


def observe(monitor: Monitor, group: str, size: float, packets: float = 1.0, *, epoch: int = 1, by: str = "") -> None:
    monitor.observe(np.array([monitor.row(group, by)]), np.array([[size], [packets]]), epoch=epoch)


def test_the_estimate_is_ones_own_groups_exactly_and_the_last_reports_of_others() -> None:
    monitor = Monitor(GroupIndex())
    observe(monitor, "mine", 100, 4)
    monitor.hear("n2", Entry("theirs", 50.0, 2.0), epoch=1)
    monitor.hear("n3", Entry("theirs", 70.0, 3.0), epoch=1)
    assert monitor.estimate(Unit.BYTES) == 170
    assert monitor.estimate(Unit.PACKETS) == 7
    assert monitor.rates(Unit.BYTES).tolist() == [100, 70]


def test_what_one_sees_replaces_what_was_reported_on_ones_own_groups() -> None:
    monitor = Monitor(GroupIndex())
    monitor.hear("n2", Entry("mine", 50.0, 2.0), epoch=0)
    observe(monitor, "mine", 100)
    assert monitor.estimate(Unit.BYTES) == 100


def test_a_report_is_kept_until_it_times_out() -> None:
    monitor = Monitor(GroupIndex())
    monitor.hear("n2", Entry("theirs", 50.0, 2.0, 1, (("n2", 50.0, 2.0),)), epoch=10)
    monitor.expire(210, 200)
    assert monitor.estimate(Unit.BYTES) == 50
    monitor.expire(211, 200)
    assert monitor.estimate(Unit.BYTES) == 0
    assert monitor.others("theirs", "n1") == (0, [])


def test_shares_of_a_group_are_summed() -> None:
    monitor = Monitor(GroupIndex(), shares=True)
    observe(monitor, "g", 10, by="b1")
    monitor.hear("b2", Entry("g", 20.0, 1.0, 1, (("p2", 20.0, 1.0),)), epoch=1)
    monitor.hear("b3", Entry("g", 30.0, 1.0, 2, (("p3", 25.0, 1.0),)), epoch=1)
    monitor.hear("b3", Entry("g", 31.0, 1.0, 2, (("p3", 26.0, 1.0),)), epoch=1)
    monitor.hear("b3", Entry("h", 5.0, 1.0), epoch=1)
    assert monitor.rates(Unit.BYTES).tolist() == [61, 5]
    assert monitor.estimate(Unit.BYTES) == 66
    assert monitor.others("g", "b1") == (3, [("p2", 20.0, 1.0), ("p3", 26.0, 1.0)])
    assert monitor.others("unknown", "b1") == (0, [])


def test_smoothing_is_a_moving_average_from_the_first_rate_on() -> None:
    monitor = Monitor(GroupIndex(), smoothing=0.25)
    monitor.hear("n2", Entry("g", 100.0, 1.0), epoch=1)
    assert monitor.estimate(Unit.BYTES) == 100
    monitor.hear("n2", Entry("g", 200.0, 1.0), epoch=2)
    assert monitor.estimate(Unit.BYTES) == 125
    monitor.hear("n2", Entry("g", 0.0, 0.0), epoch=3)
    assert monitor.estimate(Unit.BYTES) == 0, "that it is silent is said once only"


@pytest.mark.parametrize(("packets", "members", "chance"), [(100, 10, 0.1), (400, 1, 1.0), (0, 5, 0.0)])
def test_the_chance_of_a_report_is_proportional_to_the_rate(packets: float, members: float, chance: float) -> None:
    monitor = Monitor(GroupIndex())
    rows = np.array([monitor.row("g")])
    found = monitor.chances(rows, np.array([packets], dtype=float), np.array([members], dtype=float), 0.01)
    assert found.tolist() == [pytest.approx(chance)]


def test_a_group_that_fell_silent_is_reported_on_until_somebody_has_said_so() -> None:
    monitor = Monitor(GroupIndex())
    monitor.hear("n2", Entry("g", 5000.0, 50.0), epoch=1)
    rows, silent, members = np.array([monitor.row("g")]), np.zeros(1), np.ones(1)
    assert monitor.chances(rows, silent, members, 0.01).tolist() == [0.5]
    monitor.hear("n3", Entry("g", 0.0, 0.0), epoch=2)
    assert monitor.chances(rows, silent, members, 0.01).tolist() == [0]


def test_groups_beyond_the_bound_are_counted_and_ignored() -> None:
    monitor = Monitor(GroupIndex(1))
    monitor.hear("n2", Entry("a", 5.0, 1.0), epoch=1)
    monitor.hear("n2", Entry("b", 5.0, 1.0), epoch=1)
    assert (monitor.estimate(Unit.BYTES), monitor.ignored) == (5, 1)


def test_reports_of_many_groups_come_as_arrays() -> None:
    groups = GroupIndex()
    for each in range(50):
        groups.number(f"g{each}")
    monitor = Monitor(groups)
    monitor.hear_rows(np.arange(50), np.array([np.arange(50.0), np.ones(50)]), epoch=1)
    assert monitor.estimate(Unit.BYTES) == sum(range(50))


def test_what_is_heard_after_everything_timed_out_times_out_too() -> None:
    monitor = Monitor(GroupIndex())
    monitor.expire(10, 5)
    monitor.hear("n1", Entry("g", 100.0, 1.0), epoch=11)
    monitor.expire(16, 5)
    assert monitor.estimate(Unit.BYTES) == 100
    monitor.expire(17, 5)
    assert monitor.estimate(Unit.BYTES) == 0
    monitor.hear("n1", Entry("g", 100.0, 1.0), epoch=18)
    monitor.expire(19, 1)
    monitor.expire(20, 1)
    assert monitor.estimate(Unit.BYTES) == 0, "a shorter timeout counts at once"
