"""A rogue broker among honest ones: it has proved to be a neighbour, and says what it likes.

Around a hub: ``pb`` and ``qb`` host a pubend each, ``sb`` an honest subscriber, ``tb`` is the rogue.
"""

from __future__ import annotations

from typing import Any

import pytest

from overlay import Overlay, star
from penstock.protocol import frames as f

PATIENT_MS = 10**9
WORD = "token"


def around_a_hub(**settings: Any) -> Overlay:
    overlay = star("pb", "qb", "sb", "tb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, **settings)
    overlay.wait(3_000)
    return overlay


def publish(overlay: Overlay, *numbers: int, broker: str = "pb") -> None:
    overlay.client(broker, "victim", token=WORD).publish(*({"number": number} for number in numbers))
    overlay.wait(1_500)


def off_path(overlay: Overlay, broker: str) -> int:
    counts = overlay.brokers[broker].status()["counts"]
    assert isinstance(counts, dict)
    return int(counts["off_path"])


@pytest.mark.parametrize(
    "frame",
    [
        f.Nack("pb.a", "sb", 1, 1, ((1, 5),)),
        f.FilterProbe("sb", 1, 0, "pb.a"),
        f.LogRequest("pb.a", "sb", 1, 1, 5),
        f.CongestionAlert("pb.a", 1, 0.1, 0.1, 5, "sb"),
        f.TraceQuestion("pb", "sb", 1, bytes(16), ()),
        f.Positions("pb.a", (("sb", 5, True),)),
        f.StreamOpened("pb.a", "sb", 1, 1),
        f.StreamTaken("pb.a", "sb", "D", 2**62),
        f.StreamForgotten("pb.a", "sb", 1, existed=True),
        f.FilterApplied("sb", 1, 2**62, "pb.a", 2**62),
        f.LogSpan("pb.a", "sb", 1, 1, 1),
        f.LogAnswer("pb.a", "sb", 1, (1, 1), [], []),
        f.CongestionQuery("pb.a", 1, 1),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_who_does_not_lie_on_the_way_speaks_for_no_host_and_no_pubend_and_is_not_punished(frame: f.Frame) -> None:
    overlay = around_a_hub()
    client = overlay.client("sb")
    client.durable(1, "D")
    overlay.wait(2_000)
    before = off_path(overlay, "hub")
    overlay.lie("hub", "tb", frame)
    assert off_path(overlay, "hub") == before + 1
    publish(overlay, 1)
    assert (client.numbers(), client.refusals()) == ([1], [])
    assert len(overlay.links()) == 4


def test_silence_of_a_neighbour_that_is_not_on_the_way_makes_nobody_deaf() -> None:
    overlay = around_a_hub()
    client = overlay.client("hub")
    client.subscribe(1, "number > 0")
    overlay.wait(2_000)
    filters = overlay.brokers["hub"].rooms.filters
    versions = (("hub", filters.incarnation, filters.version),)
    overlay.lie("hub", "tb", f.KnowledgeMessage("pb.a", 0, 2**62 - 5, [], [], versions=versions, is_whole=True))
    publish(overlay, 1, 2)
    assert client.numbers() == [1, 2]
    assert client.horizon() < 2**61


def test_positions_of_hosts_that_do_not_exist_are_neither_kept_nor_passed_on() -> None:
    overlay = around_a_hub()
    for part in range(3):
        made_up = tuple((f"h{part}-{number}", 5, True) for number in range(10_000))
        overlay.lie("hub", "tb", f.Positions("pb.a", made_up), f.Positions("tb.a", made_up))
    overlay.wait(3_000)
    assert len(overlay.links()) == 4
    found: Any = overlay.brokers["pb"].status()["guaranteed"]
    assert not [host for host in found["pubends"]["pb.a"]["hosts"] if host.startswith("h")]


def test_positions_of_more_hosts_than_fit_a_frame_are_passed_on_in_parts() -> None:
    overlay = around_a_hub()
    guaranteed = overlay.brokers["hub"]._guaranteed
    for number in range(25_000):
        guaranteed._finality.report("pb.a", f"h{number}", 5, is_settled=True, now_ms=overlay.now_ms)
    overlay.wait(2_000)
    assert len(overlay.links()) == 4
