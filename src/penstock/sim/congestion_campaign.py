"""Campaigns against congestion control: a random tree, links that narrow, fail and come back, then a verdict.

Whatever happened, everything must recover within bounded virtual time after the last fault: every host catches up, and
every pubend again publishes all it is offered. Nothing may be lost, duplicated or out of order, and no queue may ever
exceed its bound. Everything follows from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.broker.settings import BrokerSettings
from penstock.congestion.settings import CongestionSettings
from penstock.sim.campaign import BrokenLawError, NoProgressError
from penstock.sim.congestion_links import NarrowLink, add_narrow_link
from penstock.sim.congestion_traffic import PacedPublisher, TopicMessages, delivered, subscribe_to
from penstock.sim.world import World

__all__ = ["CongestionCampaign", "CongestionRun"]

_TOPICS: Final = 10
_WIRE_BYTES: Final = 360
_RATES_MSG_S: Final = (6.0, 10.0, 14.0)
_QUEUES_BYTES: Final = (4_000, 30_000, 5 * 1024 * 1024)
_AMPLE: Final = (1.6, 2.5, None)
"""Bandwidth of a healthy link, as a share of all traffic offered; None for no limit."""
_SQUEEZED: Final = (0.15, 0.4, 0.8)
_LASTS_MS: Final = (1_500, 6_000, 16_000)
_PAUSES_MS: Final = (500, 3_000, 8_000)
_RECOVER_MS: Final = 300_000
"""Virtual time in which everything must have recovered after the last fault."""
_CONTROL_BYTES_S: Final = 4_000
"""Extra bandwidth for control frames: a simulated one counts for more than its size."""
_FRAME_BYTES_MAX: Final = 64 * 1024
"""A queue may exceed its bound by one frame."""
_REGAINED: Final = 0.85
_LOOK_MS: Final = 1_000
_TICKS_PER_MS: Final = 1 << 16


@dataclass(slots=True)
class CongestionRun:
    """The outcome of one seed."""

    plan: str
    faults: list[str]
    recovered_ms: int
    """How long recovery took after the last fault."""
    published: int
    queue_max_bytes: int
    decreases: int
    """How often a pubend's rate was cut."""


class CongestionCampaign:
    """One seed's tree, harm and recovery."""

    def __init__(self, seed: int | str, *, checks: bool = False) -> None:
        """Draw a tree; with ``checks``, invariants are checked after every step of every broker."""
        self.world = World(f"congestion/{seed}", checks=checks, trace_lines=1_000)
        self._chance: Random = self.world.faults
        self._queue_bytes = self._chance.choice(_QUEUES_BYTES)
        self._rate = self._chance.choice(_RATES_MSG_S)
        self.profile = self._chance.choice(("paper", "swift"))
        self._pubends = tuple(f"b0.{number}" for number in range(1, self._chance.randrange(2, 5)))
        self.links = self._add_tree(self._chance.randrange(3, 7))
        self.hosts = [name for name in self.world.brokers if all(upper != name for upper, _ in self.links)]
        self.subscribers = [self.world.add_client(f"sub-{host}", host) for host in self.hosts]
        for client in self.subscribers:
            subscribe_to(client, self._chance.sample(range(_TOPICS), self._chance.choice((4, _TOPICS))))
        self.publishers = [self._add_publisher(pubend) for pubend in self._pubends]
        self.faults: list[str] = []

    def _add_tree(self, count: int) -> dict[tuple[str, str], NarrowLink]:
        names = [f"b{number}" for number in range(count)]
        pairs = [(names[self._chance.randrange(place)], names[place]) for place in range(1, count)]
        congestion = CongestionSettings.of_profile(self.profile)
        for number, name in enumerate(names, start=1):
            self.world.add_broker(
                BrokerSettings(
                    name=name,
                    number=number,
                    pubends=self._pubends if name == names[0] else (),
                    neighbours=tuple(far if near == name else near for near, far in pairs if name in (near, far)),
                    link_outbox_bytes=self._queue_bytes,
                    cache_bytes=self._chance.choice((4_000, 1 << 20)),
                    # Silence that brokers hold back to send with messages looks like congestion to hosts.
                    silence_ms=100,
                    retain_ms=3_600_000,
                    congestion=congestion,
                )
            )
        links = {pair: add_narrow_link(self.world, pair[1], pair[0]) for pair in pairs}
        for link in links.values():
            link.throttle(self._bandwidth(self._chance.choice(_AMPLE)))
        return links

    def _add_publisher(self, pubend: str) -> PacedPublisher:
        client = self.world.add_client(f"pub-{pubend}", "b0")
        messages = TopicMessages(_TOPICS, pubend, payload_bytes=100, wire_bytes=_WIRE_BYTES)
        return PacedPublisher(client, pubend, messages, clock=self.world.clock, rng=self.world.workload)

    def _bandwidth(self, share: float | None) -> int | None:
        if share is None:
            return None
        return int(share * self._rate * len(self._pubends) * _WIRE_BYTES) + _CONTROL_BYTES_S

    def run(self) -> CongestionRun:
        """Run traffic, do harm, repair and recover; raises if a law is broken or something does not recover."""
        if not self.world.run_until_ready():
            raise NoProgressError("the overlay did not get ready")
        self.world.run_for(2_000)
        for publisher in self.publishers:
            publisher.start(self._rate)
        self.world.run_for(4_000)
        for _ in range(self._chance.randrange(1, 4)):
            self._strike()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
        recovered_ms = self._recover()
        for publisher in self.publishers:
            publisher.stop()
        self.world.run_for(3_000)
        return self._verdict(recovered_ms)

    # --- harm

    def _strike(self) -> None:
        """Harm one link for a while, then restore it."""
        (upper, lower), link = self._chance.choice(list(self.links.items()))
        lasts_ms = self._chance.choice(_LASTS_MS)
        kind = self._chance.choice(("squeeze", "fail", "cut", "squeeze and fail"))
        self.faults.append(f"{self.world.elapsed_ms} ms: {kind} {upper}-{lower} for {lasts_ms} ms")
        before = link.options.bandwidth
        if "squeeze" in kind:
            link.throttle(self._bandwidth(self._chance.choice(_SQUEEZED)))
        if kind != "squeeze":
            self.world.cut(upper, lower, loud=kind != "cut")
        self.world.run_for(lasts_ms)
        if kind != "squeeze":
            self.world.heal(upper, lower)
        if kind == "squeeze and fail":
            # The recovery begins over a link that is still narrow.
            self.world.run_for(lasts_ms)
        link.throttle(before)

    # --- recovery, verdict

    def _recover(self) -> int:
        began_ms = self.world.elapsed_ms
        counts, quiet = self._counts(), 0
        while quiet < 3:
            if self.world.elapsed_ms - began_ms > _RECOVER_MS:
                raise NoProgressError(f"{self._lacking(counts)}; {self._told()}")
            counts = self._counts()
            self.world.run_for(_LOOK_MS)
            quiet = 0 if self._lacking(counts) else quiet + 1
        return self.world.elapsed_ms - began_ms

    def _counts(self) -> list[int]:
        return [publisher.client.acknowledged for publisher in self.publishers]

    def _lacking(self, before: list[int]) -> str:
        """What has not recovered, given the counts of a second ago; empty if everything has."""
        positions = self.world.broker("b0").core.status().guaranteed.pubends
        for host in self.hosts:
            streams = self.world.broker(host).core.status().guaranteed.streams
            for pubend in self._pubends:
                lag_ms = (positions[pubend].promised - streams[pubend].horizon) // _TICKS_PER_MS
                if lag_ms > 1_500:
                    return f"{host} is {lag_ms} ms behind {pubend}"
        for publisher, count in zip(self.publishers, before, strict=True):
            # Acknowledgements come in lumps: the count of a second may be off by one of them.
            wanted = _REGAINED * self._rate * _LOOK_MS / 1_000 - 3
            if publisher.client.acknowledged - count < wanted:
                return f"{publisher.pubend} published {publisher.client.acknowledged - count} messages in a second"
        return ""

    def _verdict(self, recovered_ms: int) -> CongestionRun:
        found = delivered(self.publishers, self.subscribers)
        wrong = (found.skipped, found.missing, found.duplicated, found.reordered)
        if any(wrong):
            raise BrokenLawError(f"skipped, missing, duplicated, reordered: {wrong}; {self._told()}")
        queue_max_bytes = max(link.queued_max_bytes for link in self.links.values())
        if queue_max_bytes > self._queue_bytes + _FRAME_BYTES_MAX:
            raise BrokenLawError(f"{queue_max_bytes} bytes waited for a link, more than {self._queue_bytes}")
        pubends = self.world.broker("b0").core.status().congestion.pubends.values()
        decreases = sum(each.decreases for each in pubends)
        return CongestionRun(self._described(), self.faults, recovered_ms, found.published, queue_max_bytes, decreases)

    def _described(self) -> str:
        links = ", ".join(f"{upper}-{lower}" for upper, lower in self.links)
        return (
            f"{self.profile}, {len(self._pubends)} pubends at {self._rate} msg/s, queues {self._queue_bytes}: {links}"
        )

    def _told(self) -> str:
        return "; ".join([self._described(), *self.faults])
