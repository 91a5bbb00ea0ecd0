"""Draws the plan of a campaign against guaranteed delivery: the overlay's shape, its pubends and its limits.

Limits are sane, or hostile in some respects: windows, caches and outboxes that hold next to nothing, logs that fill up
soon. All brokers of an overlay have the same limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from penstock.broker.settings import BrokerSettings
from penstock.sim.candidates import HomePlan
from penstock.sim.faults import LASTS_MS_MAX
from penstock.sim.topologies import broker_names, tree

__all__ = ["DeliveryPlan", "draw_plan"]

_LIMITS: Final[Mapping[str, tuple[Any, ...]]] = {
    "receive_window_ms": (10_000, 10_000, 150),
    "receive_window_bytes": (16 << 20, 16 << 20, 600),
    "cache_bytes": (16 << 20, 4_000, 300),
    "catch_ups_max": (4, 1),
    "link_outbox_bytes": (64 << 20, 64 << 20, 1_500),
    "client_outbox_bytes": (64 << 20, 64 << 20, 4_000),
    "credit_bytes": (2 << 20, 2 << 20, 400),
    "held_back_bytes": (128 << 20, 2_000),
    "silence_ms": (1_000, 300),
    "lease_ms": (5_000, 2_000),
    "retain_ms": (120_000, 20_000, 1_000),
    "acknowledge_ms": (250, 1),
}
_FULL_LOG: Final = 0.2
"""Probability that logs have a maximum size low enough to be reached."""
_LATENCIES_US: Final = (0, 500, 5_000, 50_000)
_BANDWIDTHS: Final = (None, None, None, 200_000, 20_000)


@dataclass(slots=True, frozen=True)
class DeliveryPlan:
    """An overlay, as it was drawn."""

    pairs: tuple[tuple[str, str], ...]
    """The brokers between which there are links."""
    brokers: tuple[BrokerSettings, ...]
    limits: Mapping[str, Any]
    """The settings that all brokers share."""
    payload_bytes: tuple[int, ...]
    """The sizes from which each message's payload is drawn."""
    links: tuple[Mapping[str, Any], ...]
    """Options of each link."""
    homes: tuple[HomePlan, ...] = ()
    """The homes of pubends with candidates; these pubends are in no broker's list."""

    @property
    def pubends(self) -> list[str]:
        """All pubends."""
        own = [pubend for settings in self.brokers for pubend in settings.pubends]
        return own + [home.pubend for home in self.homes]

    @property
    def hosts(self) -> list[BrokerSettings]:
        """The brokers with pubends."""
        return [each for each in self.brokers if each.pubends]

    @property
    def may_lapse(self) -> bool:
        """Whether logs at their maximum drop messages that somebody may still want."""
        return str(self.limits["retain_policy"]) == "lapse"

    def described(self) -> list[str]:
        """The plan as readable lines."""
        lines = [f"links: {', '.join('-'.join(pair) for pair in self.pairs)}"]
        for host in self.hosts:
            marked = [f"{each} (best effort)" if each in host.best_effort else each for each in host.pubends]
            lines.append(f"pubends of {host.name}: {', '.join(marked)}")
        lines += [home.described() for home in self.homes]
        usual = BrokerSettings(name="usual")
        unusual = [
            f"{name} {value:,}" if type(value) is int else f"{name} {value}"
            for name, value in self.limits.items()
            if value != getattr(usual, name)
        ]
        return [*lines, f"limits: {', '.join(unusual)}"]


def draw_plan(chance: Random, *, brokers_max: int = 6) -> DeliveryPlan:
    """Draw an overlay of at most this many brokers."""
    names = broker_names(chance.randrange(2, brokers_max + 1))
    pairs = _drawn_links(names, chance)
    limits, payload_bytes = _drawn_limits(chance)
    hosts = chance.sample(names, chance.randrange(1, min(3, len(names)) + 1))
    brokers = [
        BrokerSettings(
            name=name,
            number=number,
            neighbours=tuple(far if near == name else near for near, far in pairs if name in (near, far)),
            **(_drawn_pubends(name, chance) if name in hosts else {}),
            **limits,
        )
        for number, name in enumerate(names, start=1)
    ]
    # Large messages would take for ever on the slowest links.
    bandwidths = _BANDWIDTHS if max(payload_bytes) < 1_000 else _BANDWIDTHS[:-1]
    links = [
        {
            "latency_us": chance.choice(_LATENCIES_US),
            "jitter_us": chance.choice((0, 2_000)),
            "bandwidth": chance.choice(bandwidths),
        }
        for _ in pairs
    ]
    return DeliveryPlan(tuple(pairs), tuple(brokers), limits, payload_bytes, tuple(links))


def _drawn_links(names: list[str], chance: Random) -> list[tuple[str, str]]:
    links = tree(names, children=chance.randrange(1, 4))
    for _ in range(chance.randrange(len(names))):
        one, other = chance.sample(names, 2)
        if (one, other) not in links and (other, one) not in links:
            links.append((one, other))
    return links


def _drawn_pubends(name: str, chance: Random) -> dict[str, Any]:
    guaranteed = tuple(f"{name}.{number}" for number in range(chance.randrange(1, 3)))
    best_effort = (f"{name}.quick",) if chance.random() < 0.3 else ()
    return {"pubends": guaranteed + best_effort, "best_effort": best_effort}


def _drawn_limits(chance: Random) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The limits, and payload sizes that go with them."""
    limits = {name: chance.choice(values) for name, values in _LIMITS.items()}
    # Long enough to wait for clients that are away while a blow lasts, or several in a row.
    limits["grace_ms"] = 5 * LASTS_MS_MAX
    limits["retain_policy"] = "hold"
    payload_bytes: tuple[int, ...] = (0, 90)
    if chance.random() < _FULL_LOG:
        limits["retain_policy"] = chance.choice(("hold", "lapse"))
        limits["retain_bytes_max"] = 20_000
        if limits["retain_policy"] == "lapse":
            # A log knows its size in steps of 64 KiB: it takes large messages to reach several.
            limits["retain_bytes_max"], payload_bytes = 200_000, (0, 6_000)
            # A client whose outbox holds less than a few messages would always be declared slow.
            limits["client_outbox_bytes"] = max(limits["client_outbox_bytes"], 200_000)
    return limits, payload_bytes
