"""Finds logs in a broker's store whose pubends it does not serve: their messages would never be delivered."""

from __future__ import annotations

from penstock.broker.durable import Recovered
from penstock.live.errors import StorageError
from penstock.live.overlay import BrokerPlace

__all__ = ["check_served"]


def check_served(place: BrokerPlace, recovered: Recovered | None) -> dict[str, int]:
    """The removed pubends that still have messages in their logs, with sizes in bytes; raises for one made best effort.

    A removed pubend can be put back, and its log continues. One made best effort has no log to serve, while its
    publishers and subscribers see nothing unusual: acknowledged messages would be lost silently.
    """
    removed: dict[str, int] = {}
    for name, found in (recovered.pubends if recovered is not None else {}).items():
        if not found.size_bytes or (name in place.pubends and name not in place.best_effort):
            continue
        if name in place.best_effort:
            at = f"{place.where}: " if place.where else ""
            raise StorageError(
                f"{at}pubend {name} of broker {place.name} is best effort now, and its log still holds "
                f"{found.size_bytes:,} bytes of messages that were guaranteed: leave it guaranteed until they are "
                "delivered and trimmed, or give the best-effort pubend a name of its own"
            )
        removed[name] = found.size_bytes
    return removed
