"""Congestion control in brokers: queries down the trees, alerts up, rates that publishers feel, and hostile frames."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker import BrokerSettings
from penstock.congestion import CongestionSettings
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame
from penstock.protocol.status import CongestionStatus
from penstock.protocol.stream_frames import CongestionAlert, CongestionQuery

PUBEND = "pb.a"
TREE = {"pb": ("ib",), "ib": ("pb", "s1", "s2"), "s1": ("ib",), "s2": ("ib",)}


def tree(**settings: Any) -> Overlay:
    """PB-IB-{S1, S2}, with a subscriber at each of the leaves."""
    overlay = Overlay(
        *(
            BrokerSettings(
                name=name,
                number=number,
                pubends=(PUBEND,) if name == "pb" else (),
                neighbours=neighbours,
                silent_ms=10_000_000,
                **settings,
            )
            for number, (name, neighbours) in enumerate(TREE.items(), start=1)
        )
    )
    for far in ("pb", "s1", "s2"):
        overlay.link("ib", far)
    overlay.wait(3_000)
    for host in ("s1", "s2"):
        overlay.client(host).subscribe(1, "")
    overlay.wait(3_000)
    return overlay


def counts(overlay: Overlay, name: str) -> dict[str, int]:
    return overlay.brokers[name].status().counts


def figures(overlay: Overlay, name: str = "pb") -> CongestionStatus:
    return overlay.brokers[name].status().congestion


def link_of(overlay: Overlay, name: str, other: str) -> int:
    """The connection of a broker with a neighbour."""
    ends = overlay._links.get((name, other))
    return overlay._links[other, name][1] if ends is None else ends[0]


def say(overlay: Overlay, name: str, other: str, *frames: f.Frame) -> None:
    """Lets a broker hear something from its neighbour."""
    connection = link_of(overlay, name, other)
    overlay._act(name, overlay.brokers[name].receive(connection, list(frames), now_ms=overlay.now_ms))


def publish_for(overlay: Overlay, client: TestClient, ms: int, *, every_ms: int = 10) -> None:
    for _ in range(ms // every_ms):
        client.publish({"number": client.published[""]})
        overlay.wait(every_ms)


def seq(overlay: Overlay) -> int:
    """A query that the pubend has sent."""
    position: int = overlay.brokers["pb"].status().guaranteed.pubends[PUBEND].promised
    return position


# --- queries


def test_queries_go_down_the_tree_once_a_second_and_reach_every_host() -> None:
    overlay = tree()
    before = {name: counts(overlay, name) for name in TREE}
    overlay.wait(10_000)
    asked = counts(overlay, "pb")["dcqs_sent"] - before["pb"]["dcqs_sent"]
    assert asked == 10
    for name in ("ib", "s1", "s2"):
        assert counts(overlay, name)["dcqs_passed"] - before[name]["dcqs_passed"] == asked
    assert counts(overlay, "pb")["dcqs_passed"] == 0
    assert counts(overlay, "pb")["ucas_heard"] == 0


def test_a_query_that_does_not_come_from_the_parent_is_ignored() -> None:
    overlay = tree()
    before = counts(overlay, "ib")["dcqs_passed"], counts(overlay, "s2")["dcqs_passed"]
    say(overlay, "ib", "s1", CongestionQuery(PUBEND, 2**50, 2**50))
    assert (counts(overlay, "ib")["dcqs_passed"], counts(overlay, "s2")["dcqs_passed"]) == before
    say(overlay, "ib", "pb", CongestionQuery(PUBEND, 2**50, 2**50))
    assert counts(overlay, "ib")["dcqs_passed"] == before[0] + 1


def test_without_pdcc_nobody_asks_and_nobody_is_limited() -> None:
    overlay = tree(congestion=CongestionSettings.paper(pdcc=False))
    publish_for(overlay, overlay.client("pb"), 2_000)
    say(overlay, "pb", "ib", CongestionAlert(PUBEND, seq(overlay), 0.1, inf))
    assert counts(overlay, "pb")["dcqs_sent"] == 0
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is None


# --- alerts


def test_a_host_that_stands_still_alerts_and_the_pubend_is_limited() -> None:
    overlay = tree()
    publisher = overlay.client("pb")
    publish_for(overlay, publisher, 2_000)
    # Data waits before s2, and queries overtake it.
    overlay.clogged.add(("ib", "s2"))
    publish_for(overlay, publisher, 6_000)
    assert counts(overlay, "s2")["ucas_raised"] > 0
    assert counts(overlay, "s1")["ucas_raised"] == 0
    assert counts(overlay, "ib")["ucas_passed"] == counts(overlay, "pb")["ucas_heard"] > 0
    found = figures(overlay).pubends[PUBEND]
    assert found.allowed_msg_s is not None
    assert found.allowed_msg_s < 100
    assert found.uca_host == "s2"
    assert found.uca_rate is not None
    assert found.uca_rate < 0.95
    told = [each for each in publisher.heard if isinstance(each, f.HeldBack)]
    assert "since broker s2 falls behind" in told[0].reason
    assert f"pubend {PUBEND} is limited to " in told[0].reason
    assert told[0].window_bytes > 0
    assert [each.event for each in overlay.records].count("pubend-limited") == 1
    assert figures(overlay, "s2").streams[PUBEND].lag_ms > 0


def test_the_rate_is_given_back_and_publishers_are_told_that_they_need_not_wait() -> None:
    overlay = tree()
    publisher = overlay.client("pb")
    publish_for(overlay, publisher, 2_000)
    overlay.clogged.add(("ib", "s2"))
    publish_for(overlay, publisher, 6_000)
    overlay.clogged.clear()
    overlay._carry("ib", link_of(overlay, "ib", "s2"))
    publish_for(overlay, publisher, 60_000, every_ms=50)
    assert [each for each in publisher.heard if isinstance(each, f.HeldBack)][-1] == f.HeldBack("")
    assert figures(overlay).pubends[PUBEND].increases > 0
    overlay.wait(120_000)
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is None
    assert [each.event for each in overlay.records].count("pubend-unlimited") == 1


def test_alerts_of_one_query_are_one_at_the_pubend_and_carry_the_slowest() -> None:
    overlay = tree()
    publish_for(overlay, overlay.client("pb"), 2_000)
    heard, asked = counts(overlay, "pb")["ucas_heard"], seq(overlay)
    say(overlay, "ib", "s1", CongestionAlert(PUBEND, asked - 1, 0.5, inf, 10, "s1"))
    say(overlay, "ib", "s2", CongestionAlert(PUBEND, asked - 1, 0.3, inf, 30, "s2"))
    assert counts(overlay, "pb")["ucas_heard"] == heard + 1
    say(overlay, "ib", "s1", CongestionAlert(PUBEND, asked, 0.6, 1.5, 20, "s1"))
    assert counts(overlay, "pb")["ucas_heard"] == heard + 2
    found = figures(overlay).pubends[PUBEND]
    assert (found.uca_rate, found.uca_host) == (0.3, "s2")


def test_the_pubends_own_broker_consolidates_the_alerts_of_its_children() -> None:
    overlay = tree()
    publish_for(overlay, overlay.client("pb"), 2_000)
    heard, asked = counts(overlay, "pb")["ucas_heard"], seq(overlay)
    for _ in range(3):
        say(overlay, "pb", "ib", CongestionAlert(PUBEND, asked, 0.5, inf, 0, "s1"))
    assert counts(overlay, "pb")["ucas_heard"] == heard + 1
    assert figures(overlay).pubends[PUBEND].decreases == 1


def test_a_broker_that_hosts_both_ends_alerts_itself() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=(PUBEND,), silent_ms=10_000_000))
    client = overlay.client("pb")
    client.subscribe(1, "")
    publish_for(overlay, client, 3_000)
    assert counts(overlay, "pb")["ucas_raised"] == 0
    assert figures(overlay).streams[PUBEND].horizon_rate == pytest.approx(1.0, abs=0.1)


# --- tuning


def test_parameters_change_at_run_time_for_pubends_hosts_and_those_between() -> None:
    overlay = tree()
    publish_for(overlay, overlay.client("pb"), 2_000)
    say(overlay, "pb", "ib", CongestionAlert(PUBEND, seq(overlay), 0.5, inf, 0, "s1"))
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is not None
    for name, broker in overlay.brokers.items():
        settings = BrokerSettings(
            name=name,
            number=list(TREE).index(name) + 1,
            pubends=(PUBEND,) if name == "pb" else (),
            neighbours=TREE[name],
            silent_ms=10_000_000,
            congestion=CongestionSettings.swift(pdcc=False, sdcc=False),
        )
        overlay._act(name, broker.apply(settings, now_ms=overlay.now_ms))
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is None
    assert figures(overlay, "s1").streams[PUBEND].nack_window_ms == 10_000
    before = counts(overlay, "pb")["dcqs_sent"]
    overlay.wait(5_000)
    assert counts(overlay, "pb")["dcqs_sent"] == before


# --- hostile frames


@pytest.mark.parametrize("rates", [(nan, inf), (-0.5, inf), (inf, nan), (inf, -1.0)])
def test_an_alert_of_impossible_rates_ends_the_connection_and_changes_nothing(rates: tuple[float, float]) -> None:
    overlay = tree()
    publish_for(overlay, overlay.client("pb"), 2_000)
    say(overlay, "pb", "ib", CongestionAlert(PUBEND, seq(overlay), *rates))
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is None
    assert overlay.brokers["pb"].status().malformed == 1 or "ib" not in overlay.brokers["pb"].status().links


def test_alerts_and_queries_of_pubends_that_nobody_knows_are_ignored() -> None:
    overlay = tree()
    say(overlay, "pb", "ib", CongestionAlert("nowhere", 1, 0.1, inf))
    say(overlay, "ib", "pb", CongestionQuery("nowhere", 1, 1))
    overlay.wait(1_000)
    assert all(sorted(overlay.brokers[name].status().links) == sorted(TREE[name]) for name in TREE)
    assert overlay.brokers["pb"].status().congestion.pubends.keys() == {PUBEND}


def test_an_alert_of_a_query_that_was_never_sent_limits_nobody() -> None:
    overlay = tree()
    publish_for(overlay, overlay.client("pb"), 2_000)
    say(overlay, "pb", "ib", CongestionAlert(PUBEND, 2**62, 0.1, inf))
    assert figures(overlay).pubends[PUBEND].allowed_msg_s is None


@pytest.mark.parametrize("frame", [CongestionAlert(PUBEND, 1, 0.1, inf), CongestionQuery(PUBEND, 1, 1)])
def test_clients_have_no_say_in_congestion(frame: f.Frame) -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    assert encode_frame(frame)
    client.say(frame)
    assert client.closed is not None
    assert client.closed.code == "protocol"
