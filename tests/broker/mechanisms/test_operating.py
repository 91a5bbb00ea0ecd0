from __future__ import annotations

from overlay import star
from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain, Pin, Unpin


def test_operations_change_what_is_pinned_and_whether_the_broker_is_emptied() -> None:
    overlay = star("pb", "sb1", pubends=("pb",))
    broker = overlay.brokers["sb1"]
    status = []
    for operation in (Pin("ticker"), Drain((Target("sb2", "there"),)), Unpin("ticker"), Unpin("ticker"), Drain(())):
        broker.operate(operation, now_ms=overlay.now_ms)
        figures = broker.status().migration
        status.append((figures.pinned, figures.drain.on))
    assert status == [(["ticker"], False), (["ticker"], True), ([], True), ([], True), ([], False)]
