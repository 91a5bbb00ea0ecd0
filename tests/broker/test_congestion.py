"""Congestion control between brokers: queries down the trees, alerts up, limits that publishers feel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.broker import BrokerSettings
from penstock.broker import frames as f
from penstock.congestion import CongestionSettings

PATIENT = 10**9


def line(**settings: object) -> Overlay:
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT, heartbeat_ms=10**8, **settings)
    overlay.wait(100)
    return overlay


def listener(overlay: Overlay, broker: str = "sb") -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, "TRUE")
    overlay.wait(1_000)
    return client


def publish(overlay: Overlay, publisher: TestClient, *, ms: int, every_ms: int = 10) -> None:
    """A message every so often, whether the gate lets it in or not."""
    for number in range(ms // every_ms):
        publisher.publish({"number": number})
        overlay.wait(every_ms)


def pubend(overlay: Overlay, broker: str = "pb") -> dict[str, object]:
    found = overlay.brokers[broker].status()["congestion"]["pubends"][f"{broker}.a"]
    assert isinstance(found, dict)
    return found


def congest(overlay: Overlay, publisher: TestClient) -> None:
    """Data waits between the last two brokers while queries and alerts pass."""
    publish(overlay, publisher, ms=1_500)
    overlay.clog("ib", "sb")
    publish(overlay, publisher, ms=3_000)


def test_queries_reach_all_hosts_once_a_second_and_nobody_else() -> None:
    overlay = star("pb", "sb", "tb", pubends=("pb",), silent_ms=PATIENT, heartbeat_ms=10**8)
    listener(overlay)
    counts = {name: broker.status()["counts"] for name, broker in overlay.brokers.items()}
    overlay.wait(5_000)
    after = {name: broker.status()["counts"] for name, broker in overlay.brokers.items()}
    passed = {name: after[name]["dcqs_passed"] - counts[name]["dcqs_passed"] for name in counts}
    assert passed == {"hub": 5, "pb": 0, "sb": 5, "tb": 0}
    assert after["pb"]["dcqs_sent"] - counts["pb"]["dcqs_sent"] == 5
    assert all(each["ucas_raised"] == 0 for each in after.values())


def test_a_host_that_falls_behind_limits_the_pubend_and_its_publisher_is_told_why() -> None:
    overlay = line()
    client, publisher = listener(overlay), overlay.client("pb")
    congest(overlay, publisher)
    assert overlay.brokers["sb"].status()["counts"]["ucas_raised"] > 0
    assert overlay.brokers["ib"].status()["counts"]["ucas_passed"] > 0
    found = pubend(overlay)
    assert isinstance(found["allowed_msg_s"], float)
    assert 0 < found["allowed_msg_s"] < 100
    assert found["uca_host"] == "sb"
    held = publisher.all(f.HeldBack)[-1]
    assert isinstance(held, f.HeldBack)
    assert "pubend pb.a is limited to" in held.reason
    assert "since broker sb falls behind" in held.reason
    assert held.window_bytes > 0
    overlay.unclog("ib", "sb")
    overlay.wait(600_000)
    assert client.numbers() == [*range(150), *range(300)]
    assert publisher.all(f.HeldBack)[-1] == f.HeldBack("")
    overlay.check_invariants()


def test_a_limit_ends_when_it_is_not_needed_any_more() -> None:
    overlay = line()
    listener(overlay)
    publisher = overlay.client("pb")
    congest(overlay, publisher)
    assert pubend(overlay)["allowed_msg_s"] is not None
    overlay.unclog("ib", "sb")
    overlay.wait(200_000)
    assert pubend(overlay)["allowed_msg_s"] is None
    events = [each.event for each in overlay.records]
    assert events.count("pubend-limited") == events.count("pubend-unlimited") == 1


def test_without_pdcc_nobody_asks_and_nobody_is_limited() -> None:
    overlay = line(congestion=CongestionSettings(pdcc=False))
    listener(overlay)
    publisher = overlay.client("pb")
    congest(overlay, publisher)
    assert overlay.brokers["pb"].status()["counts"]["dcqs_sent"] == 0
    assert pubend(overlay)["allowed_msg_s"] is None
    assert publisher.all(f.HeldBack) == []


def test_parameters_change_while_the_broker_runs() -> None:
    overlay = line()
    listener(overlay)
    publisher = overlay.client("pb")
    congest(overlay, publisher)
    assert pubend(overlay)["allowed_msg_s"] is not None
    broker = overlay.brokers["pb"]
    changed = replace(overlay.settings["pb"], congestion=CongestionSettings(pdcc=False))
    overlay._act("pb", broker.apply(changed, now_ms=overlay.now_ms))
    assert pubend(overlay)["allowed_msg_s"] is None
    overlay.unclog("ib", "sb")
    sent = broker.status()["counts"]["dcqs_sent"]
    overlay.wait(5_000)
    assert broker.status()["counts"]["dcqs_sent"] == sent


def two_pubends() -> Overlay:
    names = ("pb.a", "pb.b")
    pb = BrokerSettings("pb", pubends=names, neighbours=("sb",), silent_ms=PATIENT, heartbeat_ms=10**8)
    sb = BrokerSettings("sb", number=2, neighbours=("pb",), silent_ms=PATIENT, heartbeat_ms=10**8)
    overlay = Overlay(pb, sb)
    overlay.link("pb", "sb")
    return overlay


def test_what_is_durable_is_acknowledged_only_with_all_that_came_before_it() -> None:
    overlay = two_pubends()
    publisher = overlay.client("pb", publisher=b"me")
    overlay.brokers["pb"]._congestion.controls["pb.a"].shaper.set_rate(1.0, now_ms=overlay.now_ms)
    publisher.publish({"number": 1}, {"number": 2}, pubend="pb.a")
    publisher.publish({"number": 3}, pubend="pb.b")
    publisher.say(f.Publish(4, []))
    overlay.wait(900)
    assert publisher.all(f.PublishAck) == []
    found, _, _ = overlay.disks["pb"].read("pb.b", 1_000_000 << 16, 2**62, 2**40)
    assert len(found) == 1
    overlay.wait(2_000)
    (acknowledgement,) = publisher.all(f.PublishAck)
    assert isinstance(acknowledgement, f.PublishAck)
    assert acknowledgement.sequence == 3


@pytest.mark.parametrize(
    "frame",
    [
        f.CongestionQuery("pb.a", 2**61, 5),
        f.CongestionQuery("nobody", 1, 5),
        f.CongestionAlert("nobody", 1, 0.5, 0.5),
        f.CongestionAlert("pb.a", 2**61, 0.0, 0.0),
    ],
)
def test_what_comes_from_the_wrong_side_or_of_nobody_changes_nothing(frame: f.ControlFrame) -> None:
    overlay = line()
    listener(overlay)
    link = overlay.brokers["ib"]._connections.links["sb"]
    overlay._act("ib", overlay.brokers["ib"].receive(link.connection, [frame], now_ms=overlay.now_ms))
    assert "sb" in overlay.brokers["ib"].status()["links"]
    assert pubend(overlay)["allowed_msg_s"] is None


@pytest.mark.parametrize("rates", [(float("nan"), 1.0), (1.0, -0.5), (-1.0, float("inf"))])
def test_a_neighbour_that_alerts_nonsense_loses_its_link(rates: tuple[float, float]) -> None:
    overlay = line()
    link = overlay.brokers["ib"]._connections.links["sb"]
    alert = f.CongestionAlert("pb.a", 1, *rates)
    overlay._act("ib", overlay.brokers["ib"].receive(link.connection, [alert], now_ms=overlay.now_ms))
    assert "sb" not in overlay.brokers["ib"].status()["links"]
