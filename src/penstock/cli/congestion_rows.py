"""What brokers say of congestion control, as rows of tables: rates of pubends and who limits them, streams of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.protocol.status import BrokerStatus

__all__ = ["RATES", "STREAMS", "outboxes", "rate_rows", "stream_rows"]

RATES: Final = {
    "pubend": "left",
    "broker": "left",
    "messages/s": "right",
    "allowed": "right",
    "limited by": "left",
    "last UCA": "right",
    "cuts": "right",
    "rises": "right",
}
STREAMS: Final = {
    "host": "left",
    "pubend": "left",
    "horizon rate": "right",
    "lag": "right",
    "NACK window": "right",
    "recovering": "left",
}


def rate_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """What brokers, by name, say of the rates of their pubends; ``allowed`` is empty where nothing limits them."""
    for broker, told in statuses.items():
        for pubend, each in told.congestion.pubends.items():
            is_limited = each.allowed_msg_s is not None
            allowed = f"{each.allowed_msg_s:,.1f}" if is_limited else ""
            alert = f"{each.uca_rate:.2f}" if each.uca_rate is not None else ""
            host = each.uca_host if is_limited else ""
            counts = f"{each.decreases:,}", f"{each.increases:,}"
            yield pubend, broker, f"{each.rate_msg_s:,.1f}", allowed, host, alert, *counts


def stream_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """What brokers, by name, say of how the streams to their own clients move."""
    for host, told in statuses.items():
        for pubend, each in told.congestion.streams.items():
            lag, window = f"{each.lag_ms / 1_000:,.1f}\u00a0s", f"{each.nack_window_ms:,}\u00a0ms"
            recovering = "yes" if each.recovering else "no"
            yield host, pubend, f"{each.horizon_rate:.2f}", lag, window, recovering


def outboxes(told: BrokerStatus) -> str:
    """What waits for the links of a broker, the fullest first; of all connections together, if it says no more."""
    waiting = sorted(told.outboxes.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{link} {size:,}" for link, size in waiting if size]
    return "\n".join(lines) or f"{told.outbox_bytes:,}"
