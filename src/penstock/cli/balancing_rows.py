"""What brokers say of balancing, as rows of a table: loads, states, sessions, and who moved where and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.protocol.status import BrokerStatus

__all__ = ["BALANCING", "balancing_rows"]

BALANCING: Final = {
    "broker": "left",
    "role": "left",
    "cluster": "left",
    "state": "left",
    "input": "right",
    "output": "right",
    "delay": "right",
    "session": "left",
    "moved": "right",
    "last decision": "left",
}


def balancing_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """One row for each broker that balances itself."""
    for broker, told in statuses.items():
        found = told.mechanisms.get("balancing")
        if found is None:
            continue
        session, counts = found.get("session"), found.get("counts", {})
        yield (
            broker,
            found["role"],
            found["cluster"],
            found["state"],
            f"{found['input']:.2f}",
            f"{found['output']:.2f}",
            f"{found['delay_s'] * 1000:,.2f}\u00a0ms",
            f"{session['phase']} with {session['partner']}" if session else "",
            f"{counts.get('migrations', 0):,}",
            _decision(found.get("last") or {}),
        )


def _decision(last: Mapping[str, Any]) -> str:
    """What was decided last: whom it concerned, why, and the first report card."""
    if not last:
        return ""
    why = "overload" if last["overload"] else f"{last['metric']} {last['difference']:+.2f}"
    cards = last["cards"]
    first = f"; first {cards[0]['subscribers']} x {cards[0]['interest']}" if cards else ""
    return f"{last['moved']:,} to {last['partner']} ({why}){first}"
