from __future__ import annotations

from random import Random

import numpy as np

from penstock.ajil.aup import Aup
from penstock.ajil.messages import TOP_SENDERS_MAX, Entry, Report
from penstock.ajil.node import AjilNode, Channel
from penstock.ajil.tally import OTHERS, SENDERS_MAX, Tally


def node(*groups: str, shares: bool = False) -> tuple[AjilNode, Tally]:
    made = AjilNode("n1", Aup(limit_bytes_s=600, version=2), rng=Random(1), shares=shares)
    tally = Tally(made, shares=shares)
    for group in groups:
        tally.join(group)
        made.open_channel(Channel("n1", group))
    return made, tally


def test_an_epoch_becomes_arrays() -> None:
    _, tally = node("g", "h")
    tally.sent("g", "n1", 100)
    tally.sent("g", "n1", 50)
    tally.sent("g", "n2", 400)
    tally.sent("elsewhere", "n2", 400)
    tally.wanted(0, 700, 7)
    seen = tally.observation()
    assert seen.amounts.tolist() == [[550, 0], [3, 0]]
    assert seen.members.tolist() == [2, 1]
    assert seen.sent.tolist() == [[150, 0], [2, 0]]
    assert seen.ranks[0].tolist() == [2, 1]
    assert seen.ranks[1].tolist() == [1, 1]
    assert seen.sizes.tolist() == [2, 1]
    assert seen.wanted.tolist() == [[700, 0], [7, 0]]


def test_equal_senders_are_ranked_by_name() -> None:
    _, tally = node("g")
    tally.sent("g", "n1", 100)
    tally.sent("g", "a", 100)
    assert tally.observation().ranks[0].tolist() == [2]


def test_shares_are_ranked_among_the_top_senders_of_other_shares() -> None:
    made, tally = node("g", shares=True)
    made.hear(Report("n2", 2, (Entry("g", 900.0, 9.0, 3, (("x", 500.0, 5.0), ("y", 50.0, 1.0))),)))
    tally.sent("g", "n1", 100)
    seen = tally.observation()
    assert seen.ranks[0].tolist() == [2]
    assert seen.sizes.tolist() == [4]
    assert seen.members.tolist() == [1], "each reports its own share"


def test_a_report_names_the_top_senders() -> None:
    _, tally = node("g", "h")
    for number in range(12):
        tally.sent("g", f"s{number}", 10 * number + 1)
    report = tally.report(np.array([0]))
    assert report is not None
    assert (report.node, report.version) == ("n1", 2)
    (entry,) = report.entries
    assert (entry.group, entry.packets, entry.senders, len(entry.top)) == ("g", 12, 12, TOP_SENDERS_MAX)
    assert entry.top[0] == ("s11", 111, 1)


def test_without_a_group_to_report_on_there_is_no_report() -> None:
    _, tally = node("g")
    assert tally.report(np.zeros(0, dtype=np.int64)) is None


def test_senders_beyond_the_bound_are_counted_as_one() -> None:
    _, tally = node("g")
    for number in range(SENDERS_MAX + 5):
        tally.sent("g", f"s{number}", 1)
    assert tally.observation().amounts[0, 0] == SENDERS_MAX + 5
    report = tally.report(np.array([0]))
    assert report is not None
    assert report.entries[0].top[0] == (OTHERS, 5, 5)


def test_the_next_epoch_begins_with_nothing_and_silence_is_counted() -> None:
    _, tally = node("g")
    tally.sent("g", "n1", 1)
    tally.clear()
    assert tally.quiet_epochs("g") == 0
    tally.clear()
    assert tally.quiet_epochs("g") == 1
    assert tally.observation().amounts.sum() == 0
    tally.check_invariants()
    tally.leave("g")
    assert tally.groups == []
    tally.check_invariants()


def test_an_epoch_of_another_length_is_brought_to_the_nominal_one() -> None:
    _, tally = node("g")
    tally.sent("g", "n1", 300, 3)
    tally.wanted(0, 600, 6)
    tally.scale(0.5)
    seen = tally.observation()
    assert seen.amounts.tolist() == [[150], [1.5]]
    assert seen.wanted.tolist() == [[300], [3]]


def test_what_waits_was_paced_by_its_quota_and_not_by_the_length_of_the_epoch() -> None:
    each, tally = node("g")
    tally.sent("g", "n1", 300, 3)
    tally.sent("g", "n2", 300, 3)
    tally.scale(0.5, held=[0], part=0.75)
    assert each.channels[0] is not None
    assert each.channels[0].sender == "n1"
    assert tally.observation().amounts.tolist() == [[400 + 150], [4 + 1.5]]


def test_a_slowed_channel_is_counted_as_it_is_on_average() -> None:
    _, tally = node("g")
    tally.sent("g", "n1", 300, 3)
    tally.round_off(0, 50.0, 0.5)
    assert tally.observation().amounts.tolist() == [[350], [3.5]]
    tally.round_off(0, -1000.0, -10.0)
    assert tally.observation().amounts.tolist() == [[0], [0]], "nobody sends less than nothing"
    tally.clear()
    tally.round_off(0, 40.0, 0.0)
    assert tally.observation().amounts.tolist() == [[40], [0]]
