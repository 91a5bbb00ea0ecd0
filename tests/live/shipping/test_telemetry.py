"""A node's status as samples: what its metrics show, and what its rooms add."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from live.support import FakeBroker, lone, run
from penstock.live.node import BrokerNode
from penstock.live.node_status import NodeStatus
from penstock.live.shipping import telemetry
from penstock.live.shipping.telemetry import samples_of
from penstock.protocol.status import BrokerStatus
from statuses import broker_status


class Talking(FakeBroker):
    """A broker with congestion, tracking and links to speak of."""

    def status(self) -> BrokerStatus:
        figures = {"rate_msg_s": 12.5, "allowed_msg_s": None, "uca_host": "b9", "uca_seq": 4, "uca_rate": None}
        figures |= {"decreases": 1, "increases": 2}
        stream = {"lag_ms": 9, "recovering": True, "horizon_rate": 1.0, "nack_window_ms": 100}
        told = {
            **to_builtins(super().status()),
            "outboxes": {"b2": 77},
            "congestion": {"pubends": {"p": figures}, "streams": {"q": stream}},
            "tracking": {"strategy": "bloom", "histories": 3, "recorded": {"publish": 8}},
            "mechanisms": {
                "walks": {
                    "state": "BUSY",
                    "steps": 2,
                    "counts": {"in": 3, "deep": {"er": 4}},
                    "why": "x" * 41,
                    "no": None,
                }
            },
        }
        return broker_status(told)


def sampled() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    async def scenario() -> NodeStatus:
        async with BrokerNode(lone(), "b1", broker=Talking()) as node:
            return node.status()

    return {(name, tuple(labels.items())): value for name, labels, value in samples_of(run(scenario()), now_ms=1)}


def test_metrics_and_what_rooms_say_become_samples() -> None:
    found = sampled()
    assert found["penstock_up", ()] == 1
    assert found["penstock_published_total", ()] == 7
    assert found["penstock_dropped_total", (("to", "link"),)] == 1
    assert found["penstock_link_outbox_bytes", (("neighbour", "b2"),)] == 77
    assert found["penstock_congestion_rate_msg_s", (("pubend", "p"),)] == 12.5
    assert found["penstock_congestion_uca_seq", (("pubend", "p"),)] == 4
    assert found["penstock_congestion_stream_lag_ms", (("pubend", "q"),)] == 9
    assert found["penstock_congestion_stream_recovering", (("pubend", "q"),)] == 1
    assert found["penstock_tracking_histories", ()] == 3
    assert found["penstock_tracking_recorded", (("of", "publish"),)] == 8


def test_figures_within_figures_of_mechanisms_and_their_states_become_samples() -> None:
    found = {
        (name, labels): value for (name, labels), value in sampled().items() if name.startswith("penstock_mechanism")
    }
    assert found == {
        ("penstock_mechanism", (("mechanism", "walks"), ("figure", "steps"))): 2,
        ("penstock_mechanism", (("mechanism", "walks"), ("figure", "counts.in"))): 3,
        ("penstock_mechanism", (("mechanism", "walks"), ("figure", "counts.deep.er"))): 4,
        ("penstock_mechanism_state", (("mechanism", "walks"), ("figure", "state"), ("is", "BUSY"))): 1,
    }


def test_what_is_no_figure_is_no_sample() -> None:
    names = {name for name, _ in sampled()}
    assert not names & {
        "penstock_congestion_allowed_msg_s",
        "penstock_congestion_uca_host",
        "penstock_tracking_strategy",
    }


def test_samples_of_one_moment_are_bounded_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = len(sampled())
    monkeypatch.setattr(telemetry, "SAMPLES_MAX", 10)
    found = sampled()
    assert (len(found), found["penstock_samples_left_out", ()]) == (11, all_of_them - 10)
