"""Turns brokers' status of groups, congestion control and balancing into rows of tables, for ``status`` and ``top``.

Groups show what is not done and who has it; congestion control shows the rates of pubends, who limits them, and the
streams of hosts; balancing shows loads, states, sessions, and who moved where and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET, ValidationError

from penstock.model.metrics import BALANCED, Metric
from penstock.model.values import RESERVED_PREFIX
from penstock.protocol.status import BalancingStatus, BrokerStatus, DecisionStatus

__all__ = [
    "BALANCING",
    "GROUPS",
    "RATES",
    "STREAMS",
    "balancing_rows",
    "group_rows",
    "outboxes",
    "rate_rows",
    "stream_rows",
]

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
BALANCING: Final = {
    "broker": "left",
    "role": "left",
    "cluster": "left",
    "state": "left",
    **{each.name: "right" for each in BALANCED},
    "session": "left",
    "moved": "right",
    "last decision": "left",
}


GROUPS: Final = {
    "group": "left",
    "pubend": "left",
    "broker": "left",
    "not done": "right",
    "held": "right",
    "dying": "right",
    "done": "right",
    "in vain": "right",
    "members": "left",
}
_IN_VAIN: Final = ("refused", "run_out", "left")
"""What ends an attempt without the message being done."""
_MEMBERS_SHOWN: Final = 5
"""Members named in the row of a group, those that have most first; the others are only counted."""


def group_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of groups that share messages, from statuses by broker: what is not done, and which member has how much."""
    found = [
        (group, pubend, broker, each)
        for broker, told in statuses.items()
        for pubend, figures in told.guaranteed.pubends.items()
        for group, each in figures.groups.items()
    ]
    for group, pubend, broker, each in sorted(found, key=lambda one: one[:3]):
        in_vain = sum(each.counts.get(name, 0) for name in _IN_VAIN)
        figures = (each.known, each.held, each.dying, each.counts.get("done", 0), in_vain)
        yield group, pubend, broker, *(f"{figure:,}" for figure in figures), _members(each.members)


def _members(members: Mapping[str, int]) -> str:
    """One line per member, so that a narrow terminal does not separate a name from its figure."""
    most = sorted(members.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{name} {held:,}" for name, held in most[:_MEMBERS_SHOWN]]
    more = [f"and {len(most) - _MEMBERS_SHOWN:,} more"] if len(most) > _MEMBERS_SHOWN else []
    return "\n".join([*shown, *more]) or "none"


def rate_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of pubend rates, from statuses by broker; ``allowed`` is empty where nothing limits the pubend."""
    for broker, told in statuses.items():
        for pubend, each in told.congestion.pubends.items():
            is_limited = each.allowed_msg_s is not None
            allowed = f"{each.allowed_msg_s:,.1f}" if is_limited else ""
            alert = f"{each.uca_rate:.2f}" if each.uca_rate is not None else ""
            host = each.uca_host if is_limited else ""
            counts = f"{each.decreases:,}", f"{each.increases:,}"
            yield pubend, broker, f"{each.rate_msg_s:,.1f}", allowed, host, alert, *counts


def stream_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of the streams that hosts deliver to their own clients, from statuses by broker."""
    for host, told in statuses.items():
        for pubend, each in told.congestion.streams.items():
            lag, window = f"{each.lag_ms / 1_000:,.1f}\u00a0s", f"{each.nack_window_ms:,}\u00a0ms"
            recovering = "yes" if each.recovering else "no"
            yield host, pubend, f"{each.horizon_rate:.2f}", lag, window, recovering


def outboxes(told: BrokerStatus) -> str:
    """Bytes queued per link of a broker, the fullest first; if no link has any, the total of all its connections."""
    waiting = sorted(told.outboxes.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{link} {size:,}" for link, size in waiting if size]
    return "\n".join(lines) or f"{told.outbox_bytes:,}"


def balancing_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """A row for each broker that takes part in balancing; a head that shares its own clients has another for that."""
    for broker, told in statuses.items():
        try:
            found = told.balancing
        except ValidationError:
            # A broker of another version may have figures of other types.
            yield broker, "unreadable", *[""] * (len(BALANCING) - 2)
            continue
        if found is not None:
            yield broker, *_balancing_row(found, found.role, found.cluster)
            if found.own is not UNSET:
                group = found.own.cluster.removeprefix(RESERVED_PREFIX)
                yield broker, *_balancing_row(found.own, "head, own clients", f"group {group}")


def _balancing_row(found: BalancingStatus, role: str, cluster: str) -> tuple[str, ...]:
    session = found.session
    loads = [_value(metric, metric.of(found)) for metric in BALANCED]
    return (
        role,
        cluster,
        found.state,
        *loads,
        f"{session.phase} with {session.partner}" if session else "",
        f"{found.counts.get('migrations', 0):,}",
        "" if found.last is UNSET else _decision(found.last),
    )


def _value(metric: Metric, value: float) -> str:
    return f"{value:.2f}" if metric.is_ratio else f"{value * 1000:,.2f}\u00a0ms"


def _decision(last: DecisionStatus) -> str:
    """The last decision: how many moved where, why, and the first report card."""
    if last.partner is UNSET:
        return ""
    why = "overload" if last.overload is True else f"{last.metric} {last.difference:+.2f}"
    first = ""
    if last.cards is not UNSET and last.cards:
        first = f"; first {last.cards[0].subscribers} x {last.cards[0].interest}"
    return f"{last.moved:,} to {last.partner} ({why}){first}"
