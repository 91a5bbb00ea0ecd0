"""Rules that decide which figures are episodes while non-zero, and which are drawn; new mechanisms need no entry here.

Figures of mechanisms share one metric name, with the mechanism and the figure as labels. A state that is not one of the
quiet ones is an episode, and so is a yes-or-no figure with one of the names below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CHARTS", "EPISODES", "QUIET_STATES", "YES_FIGURES", "Chart"]

EPISODES: Final = {
    "penstock_pubend_limited": "congestion: pubend limited",
    "penstock_held_back": "congestion: publishers held back",
    "penstock_stream_recovering": "congestion: stream recovering",
    "penstock_store_full": "store full",
}
"""Metrics that are an episode while above zero, with its name."""
QUIET_STATES: Final = ("ok", "idle", "none", "off", "normal")
"""States of mechanisms that are not episodes, in lower case."""
YES_FIGURES: Final = ("limited", "overloaded", "holding", "operating", "busy", "recovering")
"""Figures of mechanisms that are an episode while above zero."""


@dataclass(slots=True, frozen=True)
class Chart:
    """Some metrics over time, with a line for each broker and label."""

    title: str
    unit: str
    metrics: tuple[str, ...]
    is_rate: bool = False
    """Whether to draw the rate of change, for counters."""


CHARTS: Final = (
    Chart(
        "messages published and delivered",
        "messages/s",
        ("penstock_published_total", "penstock_delivered_total"),
        is_rate=True,
    ),
    Chart("bytes sent", "bytes/s", ("penstock_bytes_out_total",), is_rate=True),
    Chart(
        "rates of pubends, and what is allowed", "messages/s", ("penstock_pubend_rate", "penstock_pubend_allowed_rate")
    ),
    Chart(
        "lags of hosts, streams and durable subscriptions",
        "seconds",
        ("penstock_host_lag_seconds", "penstock_stream_lag_seconds", "penstock_durable_lag_seconds"),
    ),
    Chart("queues to links and clients", "bytes", ("penstock_link_outbox_bytes", "penstock_outbox_bytes")),
    Chart(
        "NACKs sent and UCAs raised",
        "per second",
        ("penstock_nacks_sent_total", "penstock_ucas_raised_total"),
        is_rate=True,
    ),
)
