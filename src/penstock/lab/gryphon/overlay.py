"""The overlays of the congestion control paper, with its traffic, watched from outside ([Gryphon] sections 2 and 5).

Brokers are the real ones, in virtual time. One publisher per pubend offers its share of the rate and waits while it is
held back. Messages carry a payload of 100 bytes and take 360 bytes on a link between brokers, if sent alone; answers to
NACKs are sent many to a frame and take a tenth less. Each of 250 topics has two messages a second, and each subscriber
one topic. Output queues hold 5 MB, as in the paper; a broker caches about the last ten seconds of every stream. Logs
keep everything: whether messages are lost must not depend on how long a run is. Tracking is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Final

from penstock.broker.settings import BrokerSettings
from penstock.congestion.settings import CongestionSettings
from penstock.lab.gryphon.series import Sample
from penstock.protocol.frames import Frame
from penstock.protocol.stream_frames import CongestionAlert
from penstock.sim.client import SimClient
from penstock.sim.congestion_links import NarrowLink, add_narrow_link
from penstock.sim.congestion_traffic import Delivered, PacedPublisher, TopicMessages, delivered, subscribe_to
from penstock.sim.host import CostModel
from penstock.sim.world import START_MS, World
from penstock.tracking.settings import TrackingSettings

__all__ = [
    "KB",
    "OFFERED_MSG_S",
    "QUEUE_BYTES",
    "SIMPLE",
    "TOPICS",
    "WIRE_BYTES",
    "Alert",
    "GryphonOverlay",
    "GryphonPlan",
]

KB: Final = 1024
"""The paper's KB are binary."""
OFFERED_MSG_S: Final = 500.0
"""Offered to all pubends together."""
WIRE_BYTES: Final = 360
PAYLOAD_BYTES: Final = 100
TOPICS: Final = 250
QUEUE_BYTES: Final = 5 * KB * KB
_PUBENDS: Final = 4
_CACHE_BYTES: Final = 480 * KB
"""The size of 1,250 messages, which are ten seconds of a pubend."""
_RETAIN_MS: Final = 3_600_000
_SAMPLE_MS: Final = 500
_SETTLE_MS: Final = 2_000
_SILENCE_MS: Final = 1_000
_NARROWED_SILENCE_MS: Final = 100
"""How long brokers in between hold silence back, to send it along with messages."""
_TOPICS_PER_CLIENT: Final = 25
_TICKS_PER_S: Final = 65_536_000


@dataclass(slots=True, frozen=True)
class GryphonPlan:
    """The layout of an overlay; the publisher-hosting broker is the first one named."""

    links: tuple[tuple[str, str], ...]
    topics: Mapping[str, Sequence[int]]
    """By subscriber-hosting broker: the topics that its subscribers want."""
    offered_msg_s: float = OFFERED_MSG_S
    pubends: int = _PUBENDS
    costs: Mapping[str, CostModel] = field(default_factory=dict)
    """By broker: the cost of its input; zero if not given."""
    window_bytes: int = 4 * KB * KB
    """Bytes that may be in flight or unread on a link; if the host is busy, the rest waits in the sender's queue."""

    @property
    def publisher(self) -> str:
        """The broker with the pubends."""
        return self.links[0][0]

    @property
    def brokers(self) -> tuple[str, ...]:
        """All brokers, in the order in which the links name them."""
        return tuple(dict.fromkeys(name for pair in self.links for name in pair))


SIMPLE: Final = GryphonPlan((("PB", "IB"), ("IB", "SB1"), ("IB", "SB2")), {"SB1": range(TOPICS), "SB2": range(TOPICS)})
"""The overlay of figure 1."""


@dataclass(slots=True, frozen=True)
class Alert:
    """A UCA as it arrived at the publisher-hosting broker."""

    at_s: float
    pubend: str
    nonrec: float
    rec: float


class GryphonOverlay:
    """A simulated overlay at work."""

    def __init__(self, plan: GryphonPlan, settings: CongestionSettings, *, seed: int) -> None:
        self.plan = plan
        self.world = World(seed, trace_lines=100)
        self.samples: list[Sample] = []
        self.alerts: list[Alert] = []
        self._settings = settings
        self._rng = Random(f"{seed}/gryphon")
        self.pubends = tuple(f"{plan.publisher}.{number}" for number in range(1, plan.pubends + 1))
        for number, name in enumerate(plan.brokers, start=1):
            self._add_broker(number, name)
        self.links = {pair: self._add_link(pair) for pair in plan.links}
        self.publishers = [self._add_publisher(pubend) for pubend in self.pubends]
        self.subscribers = {host: self._add_subscribers(host, topics) for host, topics in plan.topics.items()}
        self._journal = self.world.broker(plan.publisher).disk.journal = []
        self._counted = 0
        self._lag_end_s: float | None = None
        self._published = dict.fromkeys(self.pubends, 0)
        is_ready = self.world.run_until_ready()
        # Brokers that do not know all others yet confirm early: publishing must wait until all do.
        self.world.run_for(_SETTLE_MS)
        assert is_ready, "an overlay without harm gets ready"
        for publisher in self.publishers:
            publisher.start(plan.offered_msg_s / plan.pubends)

    def _add_broker(self, number: int, name: str) -> None:
        plan = self.plan
        self.world.add_broker(
            BrokerSettings(
                name=name,
                number=number,
                pubends=self.pubends if name == plan.publisher else (),
                neighbours=tuple(far if near == name else near for near, far in plan.links if name in (near, far)),
                link_outbox_bytes=QUEUE_BYTES,
                cache_bytes=_CACHE_BYTES,
                retain_ms=_RETAIN_MS,
                tracking=TrackingSettings(strategy="null"),
                # Held back for a second, silence would look like congestion to hosts that get few messages.
                silence_ms=_SILENCE_MS if name == plan.publisher else _NARROWED_SILENCE_MS,
                congestion=self._settings,
            ),
            cost=plan.costs.get(name),
        )

    def _add_link(self, pair: tuple[str, str]) -> NarrowLink:
        # The downstream broker dials, so the first of a pair sees what arrives from downstream.
        watch = self._watch if pair[0] == self.plan.publisher else None
        return add_narrow_link(self.world, pair[1], pair[0], watch=watch, window_bytes=self.plan.window_bytes)

    def _add_publisher(self, pubend: str) -> PacedPublisher:
        client = self.world.add_client(f"pub-{pubend}", self.plan.publisher)
        messages = TopicMessages(TOPICS, pubend, payload_bytes=PAYLOAD_BYTES, wire_bytes=WIRE_BYTES)
        return PacedPublisher(client, pubend, messages, clock=self.world.clock, rng=Random(self._rng.getrandbits(48)))

    def _add_subscribers(self, host: str, topics: Sequence[int]) -> list[SimClient]:
        """Add a few clients with many subscriptions each: a client for each would only cost time."""
        clients = []
        for start in range(0, len(topics), _TOPICS_PER_CLIENT):
            client = self.world.add_client(f"sub-{host}-{start}", host)
            subscribe_to(client, topics[start : start + _TOPICS_PER_CLIENT])
            clients.append(client)
        return clients

    # --- events

    @property
    def now_s(self) -> float:
        """Virtual time since the world began."""
        return self.world.elapsed_ms / 1000

    def run(self, seconds: float) -> None:
        """Let time pass, and take a sample twice a second."""
        end_ms = self.world.elapsed_ms + round(seconds * 1000)
        while self.world.elapsed_ms < end_ms:
            self.world.run_for(min(_SAMPLE_MS, end_ms - self.world.elapsed_ms))
            self.samples.append(self._sample())

    def throttle(self, near: str, far: str, kbytes_s: float | None) -> None:
        """Set the bandwidth of a link; None for no limit."""
        self.links[near, far].throttle(None if kbytes_s is None else round(kbytes_s * KB))

    def fail(self, near: str, far: str) -> None:
        """Flush the queues of a link and close its connection, as the paper does."""
        self.world.cut(near, far, loud=True)

    def mend(self, near: str, far: str) -> None:
        """Restore a link, and wait until it is connected."""
        self.world.heal(near, far)
        is_up = self.world.run_until(lambda: self.links[near, far].is_connected, limit_ms=20_000)
        assert is_up, f"the link {near}-{far} is dialled again"
        self.samples.append(self._sample())

    def tune(self, settings: CongestionSettings) -> None:
        """Change the settings of congestion control at all brokers."""
        for broker in self.world.brokers.values():
            broker.apply(replace(broker.settings, congestion=settings))

    def stop(self) -> None:
        """Stop publishing, and give messages in flight time to arrive."""
        self._lag_end_s = self.lag_end_s
        for publisher in self.publishers:
            publisher.stop()
        self.run(2)

    # --- observations

    def lag_s(self, host: str) -> float:
        """How far the slowest edge stream of a host is behind its pubend."""
        return max(self._lags(host).values(), default=0.0)

    @property
    def lag_end_s(self) -> float:
        """How far behind the slowest host is, or was when publishing ended: silence is announced too seldom to tell."""
        if self._lag_end_s is not None:
            return self._lag_end_s
        return max(self.lag_s(host) for host in self.plan.topics)

    def delivered(self) -> Delivered:
        """Deliveries to subscribers, compared with what was published."""
        return delivered(self.publishers, [client for clients in self.subscribers.values() for client in clients])

    @property
    def queue_max_bytes(self) -> int:
        """The most bytes that ever waited in a queue between brokers."""
        return max(link.queued_max_bytes for link in self.links.values())

    def run_until(self, is_reached: Callable[[], bool], *, limit_s: float) -> bool:
        """Run until a condition holds, checked twice a second, for at most ``limit_s``; return whether it holds."""
        end_s = self.now_s + limit_s
        while not is_reached():
            if self.now_s >= end_s:
                return False
            self.run(_SAMPLE_MS / 1000)
        return True

    def _lags(self, host: str) -> dict[str, float]:
        positions = self.world.broker(self.plan.publisher).core.status().guaranteed.pubends
        streams = self.world.broker(host).core.status().guaranteed.streams
        return {
            pubend: max(positions[pubend].promised + 1 - streams[pubend].horizon, 0) / _TICKS_PER_S
            for pubend in self.pubends
            if pubend in streams
        }

    def _sample(self) -> Sample:
        status = {name: broker.core.status() for name, broker in self.world.brokers.items()}
        here = status[self.plan.publisher]
        for pubend, _, _ in self._journal[self._counted :]:
            self._published[pubend] += 1
        self._counted = len(self._journal)
        streams = {host: status[host].congestion.streams for host in self.plan.topics}
        return Sample(
            at_s=self.now_s,
            published=tuple(self._published.values()),
            allowed=tuple(here.congestion.pubends[each].allowed_msg_s or inf for each in self.pubends),
            delivered={host: sum(len(each.deliveries) for each in own) for host, own in self.subscribers.items()},
            lag_s={host: max(self._lags(host).values(), default=0.0) for host in self.plan.topics},
            queued_bytes={f"{near}-{far}": link.queued_bytes for (near, far), link in self.links.items()},
            windows_ms={host: tuple(each.nack_window_ms for each in streams[host].values()) for host in streams},
            horizon_rates={host: tuple(each.horizon_rate for each in streams[host].values()) for host in streams},
            recovering={host: any(each.recovering for each in streams[host].values()) for host in streams},
        )

    def _watch(self, node: str, frames: list[Frame]) -> None:
        if node == self.plan.publisher:
            at_s = (self.world.clock.now_ms - START_MS) / 1000
            self.alerts += [
                Alert(at_s, frame.pubend, frame.min_nonrec, frame.min_rec)
                for frame in frames
                if isinstance(frame, CongestionAlert)
            ]
