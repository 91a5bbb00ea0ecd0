"""A fluid model of brokers that balance themselves: the real balancers, loads by formula, no brokers and no network.

Every publication of a small market stands for a share of the rate. A broker gets those that any of its subscribers
wants; matching takes time in proportion to its subscribers, by its power. Letters arrive in the next step, and
subscribers a step later. Cheap enough to watch thousands of seconds in a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import numpy.typing as npt

from penstock.balancing.balancer import Balancer
from penstock.balancing.clusters import ClusterHead
from penstock.balancing.metrics import Load, Measurement
from penstock.balancing.offload.instance import Interest, Profile
from penstock.balancing.ports import Command, MayGo, Note, Publish
from penstock.balancing.press import Press
from penstock.balancing.settings import BalancingSettings
from penstock.matching.covering_set import CoveringSet
from penstock.model.metrics import Metric
from penstock.selectors.selector import Selector
from penstock.sim.workloads.quotes import QuoteWorkload

START_MS = 1_000_000
MESSAGE_BYTES = 220.0
DELAY_S = 0.00021
"""For each subscription, on a broker of power 1."""
BANDWIDTH = 75_000.0


@dataclass
class Subscriber:
    name: str
    selector: Selector
    wants: npt.NDArray[np.bool_]
    trail: list[tuple[float, str]] = field(default_factory=list)


class ModelHost:
    """One broker."""

    def __init__(self, model: Model, name: str, power: float) -> None:
        self.model, self.name, self.power = model, name, power
        self.clients: dict[int, Subscriber] = {}
        self.watched: tuple[str, ...] = ()
        self.messages = self.bytes_out = self.matched_ns = 0.0
        self.backlog_s = 0.0
        self._serial = 0
        self._sampled: Profile | None = None
        self._totals: tuple[float, float] | None = None

    def totals(self) -> tuple[float, float]:
        """The share of all publications that somebody here wants, and the sum of all shares."""
        if self._totals is None:
            wants = np.array([each.wants for each in self.clients.values()])
            self._totals = (float(wants.any(axis=0).mean()), float(wants.mean(axis=1).sum())) if len(wants) else (0, 0)
        return self._totals

    @property
    def address(self) -> str:
        return self.name

    def add(self, subscriber: Subscriber) -> None:
        self._serial += 1
        self.clients[self._serial] = subscriber
        self._totals = None
        subscriber.trail.append((self.model.now_ms / 1000, self.name))

    @property
    def delay_s(self) -> float:
        return DELAY_S * len(self.clients) / self.power

    def rate(self) -> float:
        return self.model.rate_msg_s * self.totals()[0]

    def measurement(self, seconds: float, now_ms: int) -> Measurement:
        rate = self.rate()
        output = self.totals()[1] * self.model.rate_msg_s * MESSAGE_BYTES
        self.messages += rate * seconds
        self.matched_ns += rate * seconds * self.delay_s * 1e9
        self.bytes_out += output * seconds
        cpu = min(rate * self.delay_s, 1.0)
        return Measurement(
            now_ms,
            int(self.messages),
            int(self.bytes_out),
            int(self.messages),
            int(self.matched_ns),
            len(self.clients),
            cpu,
            0.1,
        )

    def covering_set(self, count_max: int) -> tuple[str, ...]:
        covering = CoveringSet()
        for each in self.clients.values():
            covering.add(each.selector)
        return tuple(map(str, covering))[:count_max]

    def has_movable(self) -> bool:
        return bool(self.clients)

    def begin_sampling(self, covering: Sequence[Selector], samples_max: int, may_go: MayGo) -> None:
        gathered: dict[str, list[int]] = {}
        for connection, each in self.clients.items():
            gathered.setdefault(str(each.selector), []).append(connection)
        interests = []
        for name, connections in gathered.items():
            movable = tuple(each for each in connections if may_go(self.clients[each].name))
            selector = self.clients[connections[0]].selector
            interests.append(Interest(name, movable, len(movable) < len(connections), 1, (selector,)))
        wants = np.array([self.clients[connections[0]].wants for connections in gathered.values()])
        press = Press(len(interests), samples_max=samples_max)
        heard = np.flatnonzero(wants.any(axis=0)) if len(wants) else np.zeros(0, np.int64)
        for place in [self.model.rng.choice(heard.tolist()) for _ in range(samples_max if len(heard) else 0)]:
            publication = self.model.publications[place]
            press.record(
                np.flatnonzero(wants[:, place]), is_covered=any(each.matches(publication) for each in covering)
            )
        self._sampled = Profile(interests, press, MESSAGE_BYTES)

    def is_sampled(self) -> bool:
        return True

    def end_sampling(self) -> Profile:
        assert self._sampled is not None
        return self._sampled

    def client_of(self, connection: int) -> str:
        return self.clients[connection].name

    def move(self, connections: Sequence[int], broker: str, address: str, session: int, *, now_ms: int) -> int:
        assert address == broker
        self._totals = None
        self.model.moving += [(now_ms + 1000, broker, session, self.clients.pop(each)) for each in connections]
        self.model.migrations += len(connections)
        return len(connections)

    def watch(self, clusters: Sequence[str]) -> None:
        self.watched = tuple(clusters)


class Model:
    """Some clusters at work."""

    def __init__(
        self,
        clusters: dict[str, dict[str, float]],
        *,
        seed: int = 1,
        rate_msg_s: float = 20.0,
        settings: BalancingSettings | None = None,
        symbols: int = 10,
        publications: int = 80,
    ) -> None:
        """Edges by head, each with its power; heads are neighbours in a chain, and hear each other."""
        self.rng, self.rate_msg_s = Random(seed), rate_msg_s
        self.market = QuoteWorkload(Random(seed), symbols, days=40)
        self.publications = self.market.sample(publications)
        self.now_ms = START_MS
        self.migrations = 0
        self.moving: list[tuple[int, str, int, Subscriber]] = []
        self.notes: list[Note] = []
        self.published: list[Publish] = []
        self.hosts: dict[str, ModelHost] = {}
        self.edges: dict[str, Balancer] = {}
        self.heads: dict[str, ClusterHead] = {}
        self.cluster_of: dict[str, str] = {}
        settings = settings or BalancingSettings(is_on=True)
        names = list(clusters)
        for place, (head, edges) in enumerate(clusters.items()):
            for name, power in edges.items():
                host = self.hosts[name] = ModelHost(self, name, power)
                own = {each: getattr(settings, each) for each in BalancingSettings.__dataclass_fields__}
                own["output_bandwidth"] = round(BANDWIDTH * power)
                self.cluster_of[name] = head
                self.edges[name] = Balancer(name, head, BalancingSettings(**own), host, self.rng)
            near = [*names[max(place - 1, 0) : place], *names[place + 1 : place + 2], *edges]
            host = self.hosts[head] = ModelHost(self, head, 20.0)
            self.heads[head] = ClusterHead(head, head, settings, host, self.rng, neighbours=near)
            self.cluster_of[head] = head

    def subscribers(self, count: int, *, zero_share: float = 0.25) -> list[Subscriber]:
        zero = round(count * zero_share)
        texts = list(self.market.subscriptions(count - zero))
        texts += [f"class = 'STOCK' AND symbol = '-{each}'" for each in range(zero)]
        self.rng.shuffle(texts)
        made = []
        for place, text in enumerate(texts):
            selector = Selector.parse(text)
            wants = np.array([selector.matches(each) for each in self.publications], np.bool_)
            made.append(Subscriber(f"s{place}", selector, wants))
        return made

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self._step()

    def _step(self) -> None:
        self.now_ms += 1000
        now_ms = self.now_ms
        due = [move for move in self.moving if move[0] <= now_ms]
        self.moving = [move for move in self.moving if move[0] > now_ms]
        for _, broker, _, subscriber in due:
            self.hosts[broker].add(subscriber)
        for _, broker, session, _ in due:
            self.carry_out(self.edges[broker].on_arrived(session, now_ms=now_ms))
        for name, balancer in self.edges.items():
            balancer.measure(self.hosts[name].measurement(1.0, now_ms))
        everybody: list[Balancer | ClusterHead] = [*self.edges.values(), *self.heads.values()]
        for each in everybody:
            due_ms = each.next_deadline()
            if due_ms is not None and due_ms <= now_ms:
                self.carry_out(each.on_deadline(now_ms=now_ms))

    def carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Note):
                self.notes.append(command)
                continue
            self.published.append(command)
            everybody: dict[str, Balancer | ClusterHead] = {**self.edges, **self.heads}
            for name, balancer in everybody.items():
                if self._is_for(name, command):
                    self.carry_out(balancer.on_publication(command.attributes, command.payload, now_ms=self.now_ms))

    def _is_for(self, name: str, publish: Publish) -> bool:
        attributes = publish.attributes
        if "$to" in attributes:
            return attributes["$to"] == name
        return attributes["$cluster"] in (self.cluster_of[name], *self.hosts[name].watched)

    # --- what is seen

    def load(self, name: str) -> Load:
        """As it really is, now."""
        host = self.hosts[name]
        output = host.totals()[1] * self.rate_msg_s * MESSAGE_BYTES
        return Load(host.rate() * host.delay_s, output / (BANDWIDTH * host.power), host.delay_s)

    def spread(self, metric: Metric, names: Sequence[str] = ()) -> float:
        """The largest difference between any two edges."""
        values = [self.load(name).value(metric, delay_norm_s=0.1) for name in (names or self.edges)]
        return max(values) - min(values)

    def returns(self) -> int:
        """Subscribers that went back to a broker they had left."""
        found = 0
        for host in self.hosts.values():
            for each in host.clients.values():
                names = [name for _, name in each.trail]
                found += len(names) != len(set(names))
        return found
