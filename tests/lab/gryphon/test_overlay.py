"""The overlays of the congestion paper: rates, sizes and laws as its experiments need them."""

from __future__ import annotations

import pytest

from penstock.congestion import CongestionSettings
from penstock.lab.gryphon.overlay import SIMPLE, GryphonOverlay


@pytest.fixture(scope="module")
def overlay() -> GryphonOverlay:
    made = GryphonOverlay(SIMPLE, CongestionSettings.paper(), seed=1)
    made.run(6)
    return made


def test_four_pubends_publish_500_messages_a_second_and_every_host_gets_them(overlay: GryphonOverlay) -> None:
    first, last = overlay.samples[1], overlay.samples[-1]
    for count in range(4):
        assert last.published[count] - first.published[count] == pytest.approx(125 * 5, rel=0.03)
    for host in ("SB1", "SB2"):
        delivered = last.delivered[host] - first.delivered[host]
        rate = delivered / (last.at_s - first.at_s)
        assert rate == pytest.approx(500, rel=0.03)
    assert sum(len(client.subscriptions) for client in overlay.subscribers["SB1"]) == 250


def test_a_message_takes_360_bytes_between_brokers(overlay: GryphonOverlay) -> None:
    link, wires = overlay.links["IB", "SB1"], overlay.links["IB", "SB1"].wires()
    down = wires[1]
    before, count = down.carried_bytes, overlay.samples[-1].delivered["SB1"]
    overlay.run(2)
    messages = overlay.samples[-1].delivered["SB1"] - count
    # Besides messages there are queries and heartbeats, of 256 bytes each.
    assert 0 <= (down.carried_bytes - before) / messages - 360 < 6
    assert (down.carried_bytes - before) % 4 == 0
    assert link.queued_max_bytes < 5_000


def test_a_bottleneck_limits_the_pubends_and_nothing_is_lost() -> None:
    overlay = GryphonOverlay(SIMPLE, CongestionSettings.swift(), seed=2)
    overlay.run(2)
    overlay.throttle("IB", "SB1", 60)
    overlay.run(8)
    assert all(rate < 125 for rate in overlay.samples[-1].allowed)
    assert overlay.alerts
    assert overlay.alerts[0].nonrec < 1
    assert max(each.queued_bytes["IB-SB1"] for each in overlay.samples) > 0
    overlay.throttle("IB", "SB1", None)
    overlay.run(2)
    overlay.stop()
    found = overlay.delivered()
    assert (found.skipped, found.missing, found.duplicated, found.reordered) == (0, 0, 0, 0)
    assert overlay.lag_end_s < 1
    assert overlay.queue_max_bytes < 300_000


def test_a_link_that_failed_comes_back_and_what_was_missed_is_recovered() -> None:
    overlay = GryphonOverlay(SIMPLE, CongestionSettings.paper(), seed=3)
    overlay.run(1)
    overlay.fail("IB", "SB2")
    overlay.run(3)
    assert overlay.lag_s("SB2") > 2
    assert overlay.lag_s("SB1") < 1
    overlay.mend("IB", "SB2")
    assert overlay.run_until(lambda: overlay.lag_s("SB2") < 1, limit_s=20)
    assert not overlay.run_until(lambda: False, limit_s=1)
    overlay.stop()
    assert overlay.delivered().missing == 0
