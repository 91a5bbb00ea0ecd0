"""Draws one round of the live fuzz from its seed: overlay, limits, clients and blows.

The seed fixes all of this. It does not fix exactly when things happen: that is up to the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Literal, TypeAlias

from bench.live_fuzz.quotes import SELECTORS

__all__ = [
    "BLOWS",
    "KNOWN",
    "Blow",
    "BlowKind",
    "Keeping",
    "Limits",
    "Link",
    "Missing",
    "PublisherKind",
    "PublisherPlan",
    "RoundPlan",
    "SubscriberPlan",
    "SubscriptionPlan",
    "draw_round",
]

Link: TypeAlias = tuple[str, str]
PublisherKind: TypeAlias = Literal["async", "sync", "numbered", "forked"]
Keeping: TypeAlias = Literal["plain", "durable", "manual", "stored", "durable-stored"]
Missing: TypeAlias = Literal["fail", "earliest", "latest"]
BrokerBlow: TypeAlias = Literal["kill", "term", "stop", "hang-up", "start-hang-up", "full-disk", "drain"]
LinkBlow: TypeAlias = Literal["cut", "stall", "silence", "delay", "trickle"]
ClientBlow: TypeAlias = Literal["client-cut", "client-stall", "client-silence", "client-delay", "client-trickle"]
LifeBlow: TypeAlias = Literal["death", "leave"]
BlowKind: TypeAlias = BrokerBlow | LinkBlow | ClientBlow | LifeBlow
BLOWS: Final[dict[BlowKind, float]] = {
    "kill": 6.0,
    "term": 3.0,
    "stop": 3.0,
    "hang-up": 2.0,
    "start-hang-up": 1.0,
    "full-disk": 2.0,
    "drain": 2.0,
    "cut": 2.0,
    "stall": 2.0,
    "silence": 2.0,
    "delay": 1.0,
    "trickle": 2.0,
    "client-cut": 2.0,
    "client-stall": 2.0,
    "client-silence": 1.0,
    "client-delay": 1.0,
    "client-trickle": 1.0,
    "death": 7.0,
    "leave": 2.0,
}
"""Relative probability of each kind of blow."""
_GENTLE: Final[dict[BlowKind, float]] = {
    kind: BLOWS[kind] for kind in ("hang-up", "delay", "trickle", "client-delay", "client-trickle")
}
"""Blows after which no pubend waits for anybody: otherwise none would trim its log within a round."""
KNOWN: Final = {
    "forked-client": "a client that was made before a fork is opened in each child",
    "lapsed-resume": "a durable subscription that resumes behind a lapsed log must be told what it lost",
    "restart-grace": "positions are kept for all of grace_ms, also when their host was restarted",
    "small-store": "a store at data_bytes_max gets room again, also if durable names are claimed meanwhile",
}
"""Behaviours that the fuzz requires unless ``--without`` turns them off, by name."""

_HARM_S: Final = (22.0, 32.0)
_PAUSE_S_MAX: Final = 4.0
_ABSENCE_GRACE_MS: Final = 16_000
"""The grace period of rounds in which a client is away for most of it."""
_AWAY_SHARE: Final = 0.75
"""The share of that grace: too much if a pubend keeps positions for half of it, but well within what is promised."""
_PUBLISH_RATE: Final = 140.0
"""Messages per second of all publishers together; a machine with two cores must keep up."""


@dataclass(slots=True, frozen=True)
class Limits:
    """Settings of all brokers that matter to the judge."""

    grace_ms: int = 60_000
    retain_ms: int = 300_000
    retain_bytes_max: int = 4_294_967_296
    retain_policy: Literal["hold", "lapse"] = "hold"
    data_bytes_max: int = 0
    """Size at which the store of a broker counts as full; 0 for the size of the disk."""
    others: dict[str, int] = field(default_factory=dict)
    """Settings that must not change the guarantees."""

    def settings(self) -> dict[str, int]:
        """The numeric defaults for all brokers in the overlay file."""
        return {
            "grace_ms": self.grace_ms,
            "retain_ms": self.retain_ms,
            "retain_bytes_max": self.retain_bytes_max,
            **self.others,
        }


@dataclass(slots=True, frozen=True)
class PublisherPlan:
    """A process that publishes."""

    name: str
    kind: PublisherKind
    brokers: tuple[str, ...]
    pubends: tuple[str, ...]
    """Pubends to choose from for each message; empty to leave the choice to the client."""
    rate: float
    cancels: bool
    """Whether some of its calls are cancelled."""
    children: int = 0
    """How many child processes publish with a client that was made before the fork."""


@dataclass(slots=True, frozen=True)
class SubscriptionPlan:
    """A subscription of a subscriber process."""

    selector: int
    """Index of the selector in ``SELECTORS``."""
    keeping: Keeping
    durable: str
    """Its durable name; empty if it has none."""
    start: Literal["latest", "earliest"]
    missing: Missing
    style: Literal["batch", "get", "iterate"]


@dataclass(slots=True, frozen=True)
class SubscriberPlan:
    """A process that subscribes."""

    name: str
    brokers: tuple[str, ...]
    subscriptions: tuple[SubscriptionPlan, ...]
    is_sync: bool
    cancels: bool


@dataclass(slots=True, frozen=True)
class Blow:
    """One disturbance, and the time until it is repaired."""

    at_s: float
    kind: BlowKind
    target: str | Link
    """A broker, a link of two brokers, or a client process."""
    pause_s: float


@dataclass(slots=True, frozen=True)
class RoundPlan:
    """Everything that is drawn from a seed."""

    seed: int
    pubends: dict[str, tuple[str, ...]]
    """The pubends that each broker hosts."""
    links: tuple[Link, ...]
    limits: Limits
    publishers: tuple[PublisherPlan, ...]
    subscribers: tuple[SubscriberPlan, ...]
    blows: tuple[Blow, ...]
    harm_s: float
    off: tuple[str, ...] = ()
    """Names of ``KNOWN`` behaviours that are not required."""
    small_disk: str = ""
    """The broker whose data folder is a small file system; empty if no blow needs one."""

    @property
    def all_pubends(self) -> tuple[str, ...]:
        """The pubends of all brokers."""
        return tuple(pubend for pubends in self.pubends.values() for pubend in pubends)


def draw_round(seed: int, off: Sequence[str] = ()) -> RoundPlan:
    """Draw the round of a seed.

    >>> draw_round(7) == draw_round(7)
    True
    """
    rng = Random(f"live/{seed}")
    names = [f"b{number}" for number in range(1, rng.randint(3, 6) + 1)]
    sources = rng.sample(names, k=rng.randint(1, min(3, len(names) - 1)))
    pubends = {
        name: tuple(f"{name}.{letter}" for letter in "ab"[: rng.randint(1, 2)]) if name in sources else ()
        for name in names
    }
    links = _draw_links(rng, names)
    harm_s = rng.uniform(*_HARM_S)
    publishers = _draw_publishers(rng, pubends)
    subscribers = _draw_subscribers(rng, names)
    small_disk = rng.choice(sources)
    limits = _draw_limits(rng)
    if "small-store" in off:
        limits = replace(limits, data_bytes_max=0)
    targets = _Targets(names, sources, links, publishers, subscribers, small_disk)
    if limits.grace_ms == _ABSENCE_GRACE_MS:
        subscribers = _with_absentee(rng, subscribers)
        blows = [*_draw_blows(rng, targets, _GENTLE, harm_s), *_draw_absence(rng, subscribers[1])]
    else:
        blows = _draw_blows(rng, targets, BLOWS, harm_s)
    return RoundPlan(
        seed=seed,
        pubends=pubends,
        links=links,
        limits=limits,
        publishers=publishers,
        subscribers=subscribers,
        blows=tuple(sorted(blows, key=lambda blow: blow.at_s)),
        harm_s=harm_s,
        off=tuple(off),
        small_disk=small_disk,
    )


def _draw_links(rng: Random, names: Sequence[str]) -> tuple[Link, ...]:
    """A tree, and up to two links across it."""
    links: dict[Link, None] = {}
    for place, name in enumerate(names[1:], start=1):
        links[name, rng.choice(names[:place])] = None
    for _ in range(rng.randint(0, 2)):
        left, right = rng.sample(names, k=2)
        if (left, right) not in links and (right, left) not in links:
            links[left, right] = None
    return tuple(links)


def _draw_limits(rng: Random) -> Limits:
    others = {"heartbeat_ms": 250, "silent_ms": 2_000}
    if rng.random() < 0.4:
        others |= {
            "cache_bytes": rng.choice((500, 5_000, 50_000)),
            "receive_window_ms": rng.choice((200, 1_000)),
            "receive_window_bytes": rng.choice((2_000, 20_000)),
            "catch_ups_max": rng.choice((1, 2)),
        }
    if rng.random() < 0.3:
        others |= {"credit_bytes": rng.choice((2_000, 20_000)), "link_outbox_bytes": 20_000}
    match rng.choice(("usual", "short", "lapse", "hold", "small-store")):
        case "short":
            grace_ms = rng.choice((rng.randint(5, 12) * 1_000, _ABSENCE_GRACE_MS))
            # A large cache would still have what the log has trimmed.
            others["cache_bytes"] = 500
            return Limits(grace_ms=grace_ms, retain_ms=1_000, others=others)
        case "lapse":
            size = rng.choice((40_000, 100_000, 250_000))
            return Limits(12_000, 1_000, size, "lapse", others=others)
        case "hold":
            # An absent subscriber holds publishers back until the grace is over: keep that short of most of a round.
            return Limits(rng.randint(5, 8) * 1_000, 1_000, rng.choice((100_000, 250_000)), others=others)
        case "small-store":
            size = rng.choice((400_000, 800_000))
            return Limits(rng.randint(5, 8) * 1_000, 1_000, data_bytes_max=size, others=others)
    return Limits(others=others)


def _draw_publishers(rng: Random, pubends: dict[str, tuple[str, ...]]) -> tuple[PublisherPlan, ...]:
    sources = [name for name, hosted in pubends.items() if hosted]
    kinds: list[PublisherKind] = ["async", rng.choice(("sync", "numbered", "forked"))]
    kinds += rng.choices(("async", "sync", "numbered", "forked"), k=rng.randint(0, 2))
    plans = []
    for number, kind in enumerate(kinds):
        source = rng.choice(sources)
        named = tuple(rng.sample(pubends[source], k=len(pubends[source])))
        # A publisher that numbers its messages must name one pubend: each pubend remembers numbers separately.
        chosen = named[:1] if kind == "numbered" else rng.choice(((), named[:1], named))
        plan = PublisherPlan(
            name=f"p{number}",
            kind=kind,
            brokers=(source,),
            pubends=chosen,
            rate=_PUBLISH_RATE / len(kinds),
            cancels=kind in {"async", "sync"} and rng.random() < 0.7,
            children=2 if kind == "forked" else 0,
        )
        plans.append(plan)
    return tuple(plans)


def _draw_subscribers(rng: Random, names: Sequence[str]) -> tuple[SubscriberPlan, ...]:
    """The first subscriber asks for everything and is never killed, so that almost every message has a witness."""
    plans = [_draw_subscriber(rng, "s0", names, is_witness=True)]
    plans += [_draw_subscriber(rng, f"s{number}", names) for number in range(1, rng.randint(4, 6))]
    return tuple(plans)


def _draw_subscriber(rng: Random, name: str, names: Sequence[str], *, is_witness: bool = False) -> SubscriberPlan:
    is_sync = not is_witness and rng.random() < 0.25
    count = 1 if is_sync else rng.randint(1, 2)
    keepings: tuple[Keeping, ...] = ("plain", "durable", "manual", "stored", "durable-stored")
    subscriptions = []
    for number in range(count):
        keeping = "durable" if is_witness and number == 0 else rng.choice(keepings)
        subscription = SubscriptionPlan(
            selector=0 if is_witness and number == 0 else rng.randrange(len(SELECTORS)),
            keeping=keeping,
            durable="" if keeping in {"plain", "stored"} else f"{name}/{number}",
            start=rng.choice(("latest", "latest", "earliest")),
            missing=rng.choice(("fail", "earliest", "latest")),
            style="get" if is_sync else rng.choice(("batch", "get", "iterate")),
        )
        subscriptions.append(subscription)
    brokers = tuple(rng.sample(names, k=rng.randint(1, min(3, len(names)))))
    return SubscriberPlan(name, brokers, tuple(subscriptions), is_sync, cancels=rng.random() < 0.6)


@dataclass(slots=True, frozen=True)
class _Targets:
    """What the blows can hit."""

    names: Sequence[str]
    sources: Sequence[str]
    links: Sequence[Link]
    publishers: Sequence[PublisherPlan]
    subscribers: Sequence[SubscriberPlan]
    small_disk: str

    def draw(self, rng: Random, kind: BlowKind) -> str | Link:
        """Draw a target for a blow of this kind."""
        if kind == "full-disk":
            return self.small_disk
        if kind in {"cut", "stall", "silence", "delay", "trickle"}:
            return rng.choice(self.links)
        clients = [each.name for each in self.publishers] + [each.name for each in self.subscribers]
        if kind.startswith("client-"):
            return rng.choice(clients)
        if kind in {"death", "leave"}:
            numbered = [each.name for each in self.publishers if each.kind == "numbered"]
            # The first subscriber is the witness.
            mortal = [each.name for each in self.subscribers[1:]]
            return rng.choice(mortal + (numbered if kind == "death" else []))
        return rng.choice(self.names)


def _draw_blows(rng: Random, targets: _Targets, likely: Mapping[BlowKind, float], harm_s: float) -> list[Blow]:
    kinds = rng.choices(list(likely), weights=list(likely.values()), k=rng.randint(12, 26))
    blows = []
    for kind in kinds:
        target = targets.draw(rng, kind)
        # Some targets come back at once, before anybody has noticed; some clients stay away longer than a grace.
        longest_s = 14.0 if kind in {"death", "leave"} and rng.random() < 0.2 else _PAUSE_S_MAX
        pause_s = 0.0 if rng.random() < 0.25 else rng.uniform(0.05, longest_s)
        blows.append(Blow(rng.uniform(0.5, harm_s - 2.0), kind, target, pause_s))
    return blows


def _with_absentee(rng: Random, subscribers: Sequence[SubscriberPlan]) -> tuple[SubscriberPlan, ...]:
    """Make the second subscriber not durable, at the same host as the third, which stays there."""
    witness, absentee, companion, *others = subscribers
    host = (rng.choice(absentee.brokers),)
    keeping: Keeping = rng.choice(("plain", "stored"))
    subscription = replace(absentee.subscriptions[0], keeping=keeping, durable="")
    absentee = replace(absentee, brokers=host, subscriptions=(subscription,))
    return witness, absentee, replace(companion, brokers=host), *others


def _draw_absence(rng: Random, absentee: SubscriberPlan) -> list[Blow]:
    """Blows that keep a client away for most of the grace, and restart its host meanwhile."""
    at_s = rng.uniform(3.0, 8.0)
    away_s = _AWAY_SHARE * _ABSENCE_GRACE_MS / 1000
    return [Blow(at_s, "client-cut", absentee.name, away_s), Blow(at_s + 0.3, "kill", absentee.brokers[0], 0.0)]
