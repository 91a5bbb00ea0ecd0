"""What is read from the statuses of live brokers."""

from __future__ import annotations

import math

from penstock.lab.gryphon.live.plan import PUBENDS
from penstock.lab.gryphon.live.watch import lag_s, sample_of
from penstock.model.tick import tick_at
from penstock.protocol.status import BrokerStatus
from statuses import broker_status

NOW_MS = 1_763_208_000_000


def source(**promised_ms: int) -> BrokerStatus:
    pubends = {name: {"promised": tick_at(at_ms) - 1} for name, at_ms in promised_ms.items()}
    return broker_status({"guaranteed": {"pubends": pubends}})


def host(**horizons_ms: int) -> BrokerStatus:
    streams = {name: {"horizon": tick_at(at_ms)} for name, at_ms in horizons_ms.items()}
    return broker_status({"guaranteed": {"streams": streams}})


def test_the_lag_of_a_host_is_that_of_its_slowest_stream() -> None:
    told = source(a=NOW_MS, b=NOW_MS)
    assert lag_s(told, host(a=NOW_MS - 250, b=NOW_MS - 4_000)) == 4.0
    assert lag_s(told, host(a=NOW_MS + 250)) == 0.0, "the statuses are not of the same moment"
    assert lag_s(told, host()) == 0.0


def test_a_sample_has_what_all_brokers_say() -> None:
    pubends: dict[str, dict[str, float | None]] = {pubend: {"allowed_msg_s": None} for pubend in PUBENDS}
    pubends[PUBENDS[1]] = {"allowed_msg_s": 20.0}
    stream = {"nack_window_ms": 300, "horizon_rate": 0.5, "recovering": True}
    streams = {"sb1": {}, "sb2": {"pb.1": stream, "pb.2": {**stream, "recovering": False}}}
    statuses = {name: broker_status({"congestion": {"streams": each}}) for name, each in streams.items()}
    statuses = {"pb": broker_status({"congestion": {"pubends": pubends}, "outbox_bytes": 7}), **statuses}
    published = {pubend: number for number, pubend in enumerate(PUBENDS)}
    sample = sample_of(statuses, at_s=1.5, published=published, delivered={"sb1": 3, "sb2": 4})
    assert (sample.at_s, sample.published, sample.delivered) == (1.5, (0, 1, 2, 3), {"sb1": 3, "sb2": 4})
    assert sample.allowed == (math.inf, 20.0, math.inf, math.inf)
    assert sample.queued_bytes == {"pb": 7, "sb1": 0, "sb2": 0}
    assert (sample.windows_ms["sb2"], sample.horizon_rates["sb2"]) == ((300, 300), (0.5, 0.5))
    assert sample.recovering == {"sb1": False, "sb2": True}
