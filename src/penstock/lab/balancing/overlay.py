"""The overlays of the load balancing paper with its quote workload, watched from outside ([PADRES] section 6).

Brokers are the real ones, on modelled machines. Every pubend is guaranteed, so that an oracle finds the messages that
migrations lose or repeat. Each publisher publishes one company's quotes, at its own rate; subscribers have one
subscription each and all join the same broker. Congestion control is off: the paper has none, and it would hide the
overload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from math import ceil
from random import Random
from typing import Any, Final

import numpy as np

from penstock.balancing.balancer import Balancer
from penstock.balancing.metrics import Load
from penstock.balancing.reporting import Estimate
from penstock.balancing.settings import BalancingSettings
from penstock.broker.broker import Broker
from penstock.broker.mechanisms.balancing import Balancing
from penstock.broker.settings import BrokerSettings
from penstock.congestion.settings import CongestionSettings
from penstock.matching.index import MatchIndex
from penstock.model.body import decode_attributes
from penstock.selectors.selector import Selector
from penstock.sim.balancing_hosts import Machine, PoweredHost, power
from penstock.sim.client import SimClient
from penstock.sim.crowd import Member, OutputPort
from penstock.sim.workloads.quotes import Publication, QuoteWorkload
from penstock.sim.world import START_MS, World
from penstock.tracking.settings import TrackingSettings

__all__ = ["BalancingOverlay", "BalancingPlan", "BalancingVerdict", "Sample"]

_PUBEND: Final = "quotes"
_DAYS: Final = 400
_SAMPLE_S: Final = 5
_PUBLISHERS_FROM_S: Final = 5.0
_QUIET_MS: Final = 600_000
"""Heartbeats of so many clients would only cost time: with constant traffic none are sent in either direction."""
_REPORT_MS: Final = 5_000
_DRAIN_MS_MAX: Final = 86_400_000


@dataclass(slots=True, frozen=True)
class BalancingPlan:
    """The layout of an overlay, and who joins it."""

    heads: Mapping[str, Machine]
    """Cluster heads, in the order of the chain that they form; the first one hosts the publishers."""
    edges: Mapping[str, tuple[str, Machine]]
    """For each edge, the head of its cluster and the machine."""
    joined: str
    """The edge that all subscribers join."""
    subscribers: int = 2_000
    joins_s: tuple[float, float] = (10.0, 1010.0)
    zero_share: float = 0.25
    """The share of subscribers whose selector never matches."""
    publishers: int = 40
    published_at: str = ""
    """The broker that all publishers join; empty for the first head."""
    pubends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The pubends of brokers; publishers choose among them by hash. If empty, there is one, at the first head."""
    rate_max_msg_s: float = 1.0
    """Publishers' rates are drawn between 0 and this."""
    group: str = ""
    """The group of heads that share their own clients; empty, as in the paper: heads are not balanced."""
    are_heads: bool = False
    """Whether the edges are heads of clusters of their own, in the group; then the heads only link them."""
    beat_s: float = 0.0
    """If not 0, publishers publish on a beat of this length: batches cost the simulator less than single messages."""


@dataclass(slots=True, frozen=True)
class Sample:
    """The state of the edges at one moment."""

    at_s: float
    loads: Mapping[str, Load]
    subscribers: Mapping[str, int]
    publishers: Mapping[str, int]
    delay_ms: Mapping[str, float]
    """By broker: mean delay of deliveries to its clients since the last sample."""
    messages: int
    """Publications carried and delivered by all brokers so far."""
    control: int
    """Balancing messages so far."""
    sessions: int
    migrations: int
    states: Mapping[str, str]


@dataclass(slots=True)
class BalancingVerdict:
    """Deliveries to subscribers, compared with what was published."""

    deliveries: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0


@dataclass(slots=True)
class _Publisher:
    client: SimClient
    quotes: Iterable[Publication]
    interval_us: float


class BalancingOverlay:
    """A simulated overlay at work."""

    def __init__(self, plan: BalancingPlan, settings: BalancingSettings, *, seed: int, scale: float = 1.0) -> None:
        """Make an overlay in which each subscriber costs as much as ``scale`` of them, for quick runs with few."""
        self.plan, self.seed, self._scale = plan, seed, scale
        self._pubends = plan.pubends or {next(iter(plan.heads)): (_PUBEND,)}
        self.world = World(seed, trace_lines=100)
        self._rng = Random(f"{seed}/balancing")
        self._settings = settings
        self._is_publishing = True
        self.hosts: dict[str, PoweredHost] = {}
        self.ports: dict[str, OutputPort] = {}
        heads = list(plan.heads)
        links = list(pairwise(heads)) + [(head, edge) for edge, (head, _) in plan.edges.items()]
        machines = {**plan.heads, **{edge: machine for edge, (_, machine) in plan.edges.items()}}
        for number, (name, machine) in enumerate(machines.items(), start=1):
            self._add_broker(number, name, machine, [pair for pair in links if name in pair])
        for near, far in links:
            # The broker further out dials.
            self.world.add_link(far, near, window_bytes=1 << 30)
        self.members: list[Member] = []
        self.samples: list[Sample] = []
        self._counted: dict[str, tuple[int, int]] = {}
        self._markets = QuoteWorkload(self._rng, plan.publishers, days=_DAYS)
        self.publishers = self._publishers()
        self._journal: list[tuple[str, int, bytes]] = []
        for name in self._pubends:
            self.world.broker(name).disk.journal = self._journal
        self._plan_joins()

    def _add_broker(self, number: int, name: str, machine: Machine, links: Sequence[tuple[str, str]]) -> None:
        plan = self.plan
        neighbours = tuple(far if near == name else near for near, far in links)
        is_edge, is_linking = name in plan.edges and not plan.are_heads, plan.are_heads and name in plan.heads
        cluster = plan.edges[name][0] if is_edge else name
        changes: dict[str, Any] = {
            each: getattr(self._settings, each) for each in BalancingSettings.__dataclass_fields__
        }
        changes |= {"is_on": True, "cluster": cluster, "output_bandwidth": round(machine.bytes_s / self._scale)}
        changes["role"] = "edge" if is_edge else "head"
        # The messages of a group would count as overhead in the paper's experiments.
        changes["heads"] = "" if is_linking else plan.group
        settings = BrokerSettings(
            name=name,
            number=number,
            pubends=self._pubends.get(name, ()),
            neighbours=neighbours,
            heartbeat_ms=_QUIET_MS,
            silent_ms=1_000 * _QUIET_MS,
            report_ms=_REPORT_MS,
            acknowledge_ms=_REPORT_MS,
            silence_ms=_REPORT_MS,
            lease_ms=_QUIET_MS,
            link_outbox_bytes=1 << 32,
            client_outbox_bytes=1 << 32,
            held_back_bytes=1 << 40,
            receive_window_ms=3_600_000,
            receive_window_bytes=1 << 28,
            cache_bytes=1 << 24,
            retain_ms=36_000_000,
            congestion=CongestionSettings(pdcc=False, sample_ms=_REPORT_MS),
            balancing=BalancingSettings(**changes),
            tracking=TrackingSettings(strategy="null"),
        )
        broker = self.world.add_broker(settings)
        self.hosts[name] = power(broker, machine, self.world.clock, scale=self._scale)
        self.ports[name] = OutputPort(self.world.clock, settings.balancing.output_bandwidth)

    # --- publishers and subscribers

    def _publishers(self) -> list[_Publisher]:
        by_symbol: dict[str, list[Publication]] = {}
        for quote in self._markets.publications(self.plan.publishers * _DAYS):
            by_symbol.setdefault(str(quote["symbol"]), []).append(quote)
        joined, made = self.plan.published_at or next(iter(self.plan.heads)), []
        for number, quotes in enumerate(by_symbol.values()):
            rate = self._rng.uniform(0, self.plan.rate_max_msg_s)
            client = self.world.add_client(f"publisher-{number}", joined, choice="hash")
            start = self._rng.randrange(len(quotes))
            made.append(_Publisher(client, islice(cycle(quotes), start, None), 1e6 / max(rate, 1e-3)))
        return made

    def start(self) -> None:
        """Wait until the overlay is ready, and let publishers begin five seconds after the start of the world."""
        assert self.world.run_until_ready(), "an overlay without harm gets ready"
        clock = self.world.clock
        begin_us = (START_MS * 1_000) + round(_PUBLISHERS_FROM_S * 1e6)
        for publisher in self.publishers:
            quotes = iter(publisher.quotes)
            self._publish_at(
                publisher, quotes, max(begin_us, clock.now_us) + self._rng.random() * publisher.interval_us
            )

    def _publish_at(self, publisher: _Publisher, quotes: Any, at_us: float) -> None:
        def publish() -> None:
            if not self._is_publishing:
                return
            publisher.client.publish(next(quotes))
            self._publish_at(publisher, quotes, at_us + publisher.interval_us)

        beat_us = self.plan.beat_s * 1e6
        due_us = ceil(at_us / beat_us) * beat_us if beat_us else at_us
        self.world.clock.at(max(int(due_us), self.world.clock.now_us), publish)

    def stop(self) -> None:
        """Stop publishing, and wait until all subscribers are past the last message."""
        self._is_publishing = False
        limit_ms = self.world.elapsed_ms + _DRAIN_MS_MAX
        self.world.run_for(3 * _REPORT_MS)
        last = {pubend: tick for pubend, tick, _ in self._journal}
        while self.world.elapsed_ms < limit_ms and any(
            member.positions.get(pubend, 0) <= tick
            for member in self.members
            if member.is_subscribed
            for pubend, tick in last.items()
        ):
            self.world.run_for(_SAMPLE_S * 1000)

    def double_half(self) -> list[int]:
        """Double the rate of half of the publishers, and return their places."""
        chosen = self._rng.sample(range(len(self.publishers)), len(self.publishers) // 2)
        for place in chosen:
            self.publishers[place].interval_us /= 2
        return chosen

    def halve(self, places: Iterable[int]) -> None:
        """Halve the rate of the publishers at these places."""
        for place in places:
            self.publishers[place].interval_us *= 2

    def _plan_joins(self) -> None:
        plan, clock = self.plan, self.world.clock
        brokers = {name: (self.world.broker(name), self.ports[name]) for name in plan.edges}
        zero = round(plan.subscribers * plan.zero_share)
        selectors = list(self._markets.subscriptions(plan.subscribers - zero))
        # These never match: each asks for a different company that does not exist.
        selectors += [f"class = 'STOCK' AND symbol = '-{number:04d}'" for number in range(zero)]
        self._rng.shuffle(selectors)
        first_s, last_s = plan.joins_s
        for number, selector in enumerate(selectors):
            member = Member(f"s{number:04d}", selector, clock=clock, brokers=brokers)
            self.members.append(member)
            at_us = START_MS * 1_000 + round(self._rng.uniform(first_s, last_s) * 1e6)
            clock.at(at_us, lambda member=member: member.join(plan.joined))  # type: ignore[misc]

    # --- time

    @property
    def now_s(self) -> float:
        """Virtual time since the world began."""
        return self.world.elapsed_ms / 1000

    def run_until(self, end_s: float) -> None:
        """Let time pass, and take samples."""
        end_ms = round(end_s * 1000)
        while self.world.elapsed_ms < end_ms:
            self.world.run_for(min(_SAMPLE_S * 1000, end_ms - self.world.elapsed_ms))
            self.samples.append(self._sample())

    # --- observations

    def balancing(self, name: str) -> Balancing:
        """The balancing of one broker."""
        found = self._core(name).balancing
        assert found is not None
        return found

    def estimates(self) -> list[tuple[str, Estimate]]:
        """Estimated and actual loads of all edges, in order of time."""
        found = []
        for name in self.plan.edges:
            found += [(name, each) for each in self._balancer(name).estimates]
        return sorted(found, key=lambda each: each[1].at_ms)

    def counts(self, what: str) -> int:
        """The sum of a counter over all balancers and heads."""
        return sum(part.counts.get(what, 0) for name in self.world.brokers for part in self.balancing(name).parts)

    def _balancer(self, name: str) -> Balancer:
        found = self.balancing(name).balancer
        assert found is not None
        return found

    def _core(self, name: str) -> Broker:
        core = self.world.broker(name).core
        assert isinstance(core, Broker)
        return core

    def _sample(self) -> Sample:
        edges = {name: self._balancer(name) for name in self.plan.edges}
        loads = {name: each.load for name, each in edges.items()}
        subscribers = dict.fromkeys(self.plan.edges, 0)
        for member in self.members:
            if member.current is not None:
                subscribers[member.current.broker.name] += 1
        publishers = dict.fromkeys(self.world.brokers, 0)
        for each in self.publishers:
            publishers[each.client.place] += 1
        return Sample(
            self.now_s,
            loads,
            subscribers,
            publishers,
            self._delays(),
            self._messages(),
            self._control(),
            self.counts("sessions"),
            sum(member.moves for member in self.members),
            {name: each.standing.state.value for name, each in edges.items()},
        )

    def _delays(self) -> dict[str, float]:
        """Mean delay from publication (its tick) to arrival, by edge, for deliveries since the last sample."""
        delays = {}
        for name, port in self.ports.items():
            if name in self.plan.edges:
                before_us, before = self._counted.get(name, (0, 0))
                self._counted[name] = (port.delay_us, port.delivered)
                count = port.delivered - before
                delays[name] = (port.delay_us - before_us) / count / 1_000 if count else 0.0
        return delays

    def _messages(self) -> int:
        delivered = sum(port.delivered for port in self.ports.values())
        return delivered + sum(host.arrived for host in self.hosts.values())

    def _control(self) -> int:
        """Count PIE messages and letters, once per hop, and the frames by which members move."""
        routed = sum(self._core(name).rooms.router.counts["system_forwarded"] for name in self.world.brokers)
        return routed + sum(member.control for member in self.members)

    def verdict(self) -> BalancingVerdict:
        """Compare what every subscriber got with what it is owed from its starting position on."""
        found, index = BalancingVerdict(), MatchIndex()
        for number, member in enumerate(self.members):
            index.add(number, Selector.parse(member.selector))
        for pubend in [each for names in self._pubends.values() for each in names]:
            self._judge(pubend, index, found)
        return found

    def _judge(self, pubend: str, index: MatchIndex, found: BalancingVerdict) -> None:
        owed: list[list[int]] = [[] for _ in self.members]
        starts = np.array([member.starts.get(pubend, 2**63) for member in self.members], np.uint64)
        for name, tick, body in self._journal:
            if name != pubend:
                continue
            for number in index.find(decode_attributes(body)).ids().tolist():
                if tick >= starts[number]:
                    owed[number].append(tick)
        for member, expected in zip(self.members, owed, strict=True):
            got = np.array(member.ticks.get(pubend, ()), np.uint64)
            found.deliveries += len(got)
            unique = np.unique(got)
            found.duplicated += len(got) - len(unique)
            found.reordered += int((got[1:] <= got[:-1]).sum()) if len(got) > 1 else 0
            found.lost += len(np.setdiff1d(np.array(expected, np.uint64), unique, assume_unique=True))
