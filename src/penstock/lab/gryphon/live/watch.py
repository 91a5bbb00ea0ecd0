"""Samples live brokers twice a second: messages published, delivered and waiting, and how far hosts are behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from math import inf
from typing import Final

from penstock.lab.gryphon.live.plan import HOSTS, PUBENDS
from penstock.lab.gryphon.live.traffic import Traffic
from penstock.lab.gryphon.series import Sample
from penstock.lab.links.overlays import LinkedOverlay
from penstock.model.tick import Tick, tick_ms
from penstock.protocol.status import BrokerStatus
from penstock.session.errors import ClientError

__all__ = ["SAMPLE_S", "Watch", "lag_s", "sample_of"]

SAMPLE_S: Final = 0.5
"""Time between two samples."""


class Watch:
    """Takes samples and keeps them."""

    def __init__(self, overlay: LinkedOverlay, traffic: Traffic) -> None:
        self._overlay, self._traffic = overlay, traffic
        self._started_s = time.monotonic()
        self.samples: list[Sample] = []

    @property
    def now_s(self) -> float:
        """Seconds since the watch began."""
        return time.monotonic() - self._started_s

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(SAMPLE_S - self.now_s % SAMPLE_S)

    async def look(self) -> Sample:
        """Take a sample now, and keep it."""
        self._overlay.check()
        traffic, names = self._traffic, list(self._traffic.askers)
        statuses = dict(zip(names, await asyncio.gather(*map(self._ask, names)), strict=True))
        delivered = {host.name: host.delivered for host in traffic.hosts}
        sample = sample_of(statuses, at_s=self.now_s, published=traffic.acked(), delivered=delivered)
        self.samples.append(sample)
        return sample

    async def _ask(self, name: str) -> BrokerStatus:
        while True:
            try:
                return await self._traffic.askers[name].status()
            except ClientError:
                # The connection was lost; the client reconnects unless the broker is gone.
                self._overlay.check()
                await asyncio.sleep(SAMPLE_S / 10)


def sample_of(
    statuses: Mapping[str, BrokerStatus],
    *,
    at_s: float,
    published: Mapping[str, int],
    delivered: Mapping[str, int],
) -> Sample:
    """Make a sample from the statuses of all brokers."""
    pubends = statuses["pb"].congestion.pubends
    streams = {host: statuses[host].congestion.streams.values() for host in HOSTS}
    return Sample(
        at_s=at_s,
        published=tuple(published[pubend] for pubend in PUBENDS),
        allowed=tuple(pubends[pubend].allowed_msg_s or inf for pubend in PUBENDS),
        delivered=delivered,
        lag_s={host: lag_s(statuses["pb"], statuses[host]) for host in HOSTS},
        queued_bytes={name: told.outbox_bytes for name, told in statuses.items()},
        windows_ms={host: tuple(each.nack_window_ms for each in found) for host, found in streams.items()},
        horizon_rates={host: tuple(each.horizon_rate for each in found) for host, found in streams.items()},
        recovering={host: any(each.recovering for each in found) for host, found in streams.items()},
    )


def lag_s(source: BrokerStatus, host: BrokerStatus) -> float:
    """How far the slowest edge stream of a host is behind what its pubend has promised, by the statuses of both."""
    streams = host.guaranteed.streams
    lags_ms = [
        tick_ms(Tick(figures.promised + 1)) - tick_ms(Tick(streams[pubend].horizon))
        for pubend, figures in source.guaranteed.pubends.items()
        if pubend in streams
    ]
    return max([0, *lags_ms]) / 1_000
