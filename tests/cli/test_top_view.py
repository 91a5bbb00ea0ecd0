"""The picture of ``penstock top``."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from cli.test_congestion_rows import pubend
from penstock.cli.top_view import Look, broker_rows, picture
from penstock.protocol.status import BrokerStatus
from statuses import broker_status


def told(published: int = 0, delivered: int = 0, **changes: Any) -> BrokerStatus:
    usual = {"links": ["ib"], "clients": 2, "subscriptions": 3, "outbox_bytes": 0, "incarnation": 1}
    return broker_status({**usual, "counts": {"published": published, "delivered": delivered}, **changes})


def shown(look: Look, before: Look | None = None) -> str:
    printer = Console(width=160, record=True, file=StringIO())
    printer.print(picture(look, before, title="now"))
    return printer.export_text()


def test_counts_become_rates_between_two_looks() -> None:
    before = Look(10.0, {"pb": told(100, 50), "sb": told(0, 0, incarnation=7)})
    look = Look(12.0, {"pb": told(1_100, 51), "sb": told(5, 5, incarnation=8), "new": told()})
    rows = {row[0]: row for row in broker_rows(look, before)}
    assert rows["pb"] == ("pb", "ib", "2", "3", "500", "0", "0")
    assert rows["sb"][4:6] == ("", ""), "a broker that has started anew has begun to count anew"
    assert rows["new"][4:6] == ("", "")
    assert {row[4] for row in broker_rows(look, None)} == {""}


def test_a_picture_has_brokers_pubends_streams_and_problems() -> None:
    stream = {"horizon_rate": 0.5, "lag_ms": 900, "recovering": True, "nack_window_ms": 300}
    congestion = {"pubends": {"pb.1": pubend(allowed_msg_s=7.5, uca_host="sb")}, "streams": {"pb.1": stream}}
    text = shown(Look(1.0, {"pb": told(congestion=congestion)}, {"sb": "did not answer"}))
    for part in ("now", "brokers", "pubends", "streams", "7.5", "limited by", "300\u00a0ms", "sb: did not answer"):
        assert part in text
    assert "pubends" not in shown(Look(1.0, {"ib": told()}))


def test_too_many_rows_are_counted() -> None:
    pubends = {f"p{number:03}": pubend() for number in range(250)}
    text = shown(Look(1.0, {"pb": told(congestion={"pubends": pubends})}))
    assert "and 50 more" in text
    assert ("p199" in text, "p200" in text) == (True, False)
