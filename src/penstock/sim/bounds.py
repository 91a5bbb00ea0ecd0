"""Whether a broker keeps to its limits of memory, judged from outside: by the figures that it gives to operators.

The brokers' own invariants say the same of each part. This is the other witness: it knows the settings and the status.
"""

from __future__ import annotations

from typing import Final

from penstock.sim.node import SimBroker

__all__ = ["exceeded"]

_FRAME_BYTES_MAX: Final = 320 * 1024
"""An empty outbox takes any frame, or that frame would never go: so each may be above its limit by one."""


def exceeded(broker: SimBroker, *, pubends: int) -> list[str]:
    """Complaints about all that is more than a running broker may hold, given so many guaranteed pubends."""
    settings, status = broker.settings, broker.core.status()
    guaranteed = status.guaranteed
    outboxes_max = (
        status.clients * settings.client_outbox_bytes
        + len(status.links) * settings.link_outbox_bytes
        + broker.connections * _FRAME_BYTES_MAX
    )
    figures = [
        ("bytes in outboxes", status.outbox_bytes, outboxes_max),
        ("bytes in caches", guaranteed.cache_bytes, pubends * settings.cache_bytes),
    ]
    for pubend, stream in guaranteed.streams.items():
        figures.append((f"bytes pending of {pubend}", stream.pending_bytes, settings.receive_window_bytes))
        figures.append((f"catch-ups of {pubend}", stream.catch_ups, settings.catch_ups_max))
    return [
        f"{broker.name} has {count:,} {what}, more than {count_max:,}"
        for what, count, count_max in figures
        if count > count_max
    ]
