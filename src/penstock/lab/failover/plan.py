"""The overlay of ``failover-kill9``, its clients, and the blows drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Final, Literal, TypeAlias

from penstock.broker.candidate import LeaseSettings
from penstock.lab.delivery.kill9.traffic import Layout, PublisherPlace, SubscriberPlace
from penstock.lab.demo_overlay import OverlayPlan
from penstock.live.homes_config import PROFILES

__all__ = [
    "CANDIDATES",
    "GROUP",
    "HOSTS",
    "JOBS",
    "KINDS",
    "LAYOUT",
    "LIMIT_S",
    "PLAN",
    "REPLICAS_MIN",
    "Blow",
    "Kind",
    "draw_blows",
    "lease_of",
    "pubend_tables",
]

Kind: TypeAlias = Literal["kill", "stop", "cut", "stall", "silence", "database", "both"]

KINDS: Final[tuple[Kind, ...]] = ("kill", "stop", "cut", "stall", "silence", "database", "both")
"""What happens to the holder of a pubend, or to the database.

``kill``: the holder is killed. ``stop``: it is stopped for longer than its lease. ``cut``: its connections to the
database are reset, and new ones end at once. ``stall``: the network between them says nothing for a while, and then
delivers what it held back. ``silence``: it says nothing, and then resets. ``database``: the primary is killed, and its
standby promoted. ``both``: the primary and the holder are killed at once.
"""
CANDIDATES: Final = ("pb1", "pb2", "pb3")
"""The brokers that may hold the pubends."""
HOSTS: Final = ("sb1", "sb2")
"""The brokers of all publishers, subscribers and workers."""
REPLICAS_MIN: Final = {"orders": 0, "quotes": 1}
"""How many synchronous standbys each pubend insists on.

Commits wait for the standby either way while there is one. When there is none, ``quotes`` holds publishers back, as it
was told to, and ``orders`` goes on with what the database promises.
"""
LIMIT_S: Final = {"calm": 5.0, "swift": 1.5}
"""The longest pause that we allow, by profile."""
PLAN: Final = OverlayPlan(
    dict.fromkeys((*CANDIDATES, *HOSTS), ()),
    (
        *((host, candidate) for host in HOSTS for candidate in CANDIDATES),
        *combinations(CANDIDATES, 2),
        ("sb1", "sb2"),
    ),
)
"""Default settings. No host depends on one candidate to reach another."""
GROUP: Final = "workers"
JOBS: Final = f"run = '{GROUP}'"
"""What the members of the work queue want."""

_SELECTORS: Final = ("publisher >= 0", "publisher >= 0 AND volume < 100")
"""All messages but jobs, and few of them."""
LAYOUT: Final = Layout(
    tuple(PublisherPlace(pubend, pubend, doors) for pubend in REPLICAS_MIN for doors in (("sb1",), ("sb2", "sb1"))),
    (
        *(
            SubscriberPlace(host, selector, reports=selector == _SELECTORS[0])
            for host in HOSTS
            for selector in _SELECTORS
        ),
        *(SubscriberPlace(host, _SELECTORS[0], durable=f"ledger-{host}") for host in HOSTS),
    ),
)
"""At each host, a subscriber to everything reports what it receives; pauses are measured there."""

_LEASES: Final = (1.25, 2.5)
"""How long a holder is out of reach, in leases: always longer than one."""
_KILLED_S: Final = (0.0, 3.0)
"""How long a killed broker stays away."""
_DETECTED_S: Final = (0.2, 1.5)
"""How long it takes until the death of the primary is noticed, and its standby promoted."""
_REST_S: Final = (0.5, 2.0)


@dataclass(slots=True, frozen=True)
class Blow:
    """One fault."""

    kind: Kind
    pubend: str
    """Whose holder it concerns; all pubends are concerned if it is the database."""
    pause_s: float
    """Time until the holder is repaired, or the standby is promoted."""
    rest_s: float
    """Time from when messages flow again until the next blow."""


def draw_blows(rng: Random, count: int, *, lease_ms: int) -> list[Blow]:
    """Draw blows; of as many in a row as there are kinds, each is of another kind.

    >>> sorted(each.kind for each in draw_blows(Random(1), 7, lease_ms=2_000))
    ['both', 'cut', 'database', 'kill', 'silence', 'stall', 'stop']
    """
    kinds = _kinds(rng)
    return [_draw_blow(rng, next(kinds), lease_ms) for _ in range(count)]


def lease_of(profile: str) -> LeaseSettings:
    """The leases of a profile."""
    return PROFILES[profile]


def pubend_tables(url: str, *, profile: str) -> str:
    """The tables of the pubends for an overlay file, with their database at this url."""
    lines: list[str] = []
    for pubend, replicas_min in REPLICAS_MIN.items():
        listed = ", ".join(f'"{each}"' for each in CANDIDATES)
        lines += [f"[pubends.{pubend}]", f"brokers = [{listed}]", f'data = "{url}"']
        lines += [f"replicas_min = {replicas_min}", f'profile = "{profile}"']
    return "\n".join(lines) + "\n"


def _kinds(rng: Random) -> Iterator[Kind]:
    while True:
        yield from rng.sample(KINDS, len(KINDS))


def _draw_blow(rng: Random, kind: Kind, lease_ms: int) -> Blow:
    pubend = rng.choice(list(REPLICAS_MIN))
    if kind == "kill":
        # Some brokers come back at once, before anybody has noticed.
        pause_s = 0.0 if rng.random() < 0.3 else rng.uniform(*_KILLED_S)
    elif kind in ("database", "both"):
        pause_s = rng.uniform(*_DETECTED_S)
    else:
        pause_s = rng.uniform(*_LEASES) * lease_ms / 1_000
    return Blow(kind, pubend, pause_s, rng.uniform(*_REST_S))
