"""Congestion control in large trees: 10, 100 and 1,000 subscriber-hosting brokers, a tenth behind narrow links.

[Gryphon] section 3.1 promises that alerts are consolidated, so that a pubend hears one per query however many hosts
there are. Rates are small here, so that a thousand brokers fit into a simulation: what counts is how many alerts
arrive, and how the time to adapt depends on depth.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock.broker.settings import BrokerSettings
from penstock.congestion.settings import CongestionSettings
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.frame import CONTROLLED, congestion_settings
from penstock.lab.gryphon.series import adapt_s
from penstock.sim.congestion_links import NarrowLink, add_narrow_link
from penstock.sim.congestion_traffic import PacedPublisher, TopicMessages, delivered, subscribe_to
from penstock.sim.world import World
from penstock.tracking.settings import TrackingSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SCALE", "ScaledTree"]

_SIZES: Final = (10, 100, 1_000)
_CHILDREN: Final = 10
"""Brokers below each one in between: ten times as many hosts are one level more."""
_RATE_MSG_S: Final = 8.0
_WIRE_BYTES: Final = 360
_NARROW: Final = 0.5
"""The narrow links carry this share of what is published."""
_WARM_MS: Final = 3_000
_PUBEND: Final = "root.1"


@dataclass(slots=True, frozen=True)
class _Found:
    hosts: int
    depth: int
    raised_per_s: float
    ucas_per_s: float
    adapt_s: float
    utilisation: float
    lost: int
    wall_s: float


class ScaledTree:
    """A tree with a pubend at its root and a host at every leaf."""

    def __init__(self, hosts: int, settings: CongestionSettings, *, seed: int) -> None:
        self.world = World(seed, trace_lines=100)
        self.links: dict[str, NarrowLink] = {}
        """Links, by the broker below."""
        levels = _levels(hosts)
        self.depth = len(levels) - 1
        self._add_brokers(levels, settings)
        self.leaves = levels[-1]
        self.subscribers = [self.world.add_client(f"at-{leaf}", leaf) for leaf in self.leaves]
        for client in self.subscribers:
            subscribe_to(client, range(1))
        self.world.run_until_ready(limit_ms=120_000)
        self.world.run_for(_WARM_MS)
        publisher = self.world.add_client("publisher", "root")
        messages = TopicMessages(1, _PUBEND, payload_bytes=100, wire_bytes=_WIRE_BYTES)
        self.publisher = PacedPublisher(publisher, _PUBEND, messages, clock=self.world.clock, rng=self.world.workload)

    def _add_brokers(self, levels: list[list[str]], settings: CongestionSettings) -> None:
        neighbours: dict[str, list[str]] = {name: [] for level in levels for name in level}
        pairs = list(_pairs(levels))
        for upper, lower in pairs:
            neighbours[upper].append(lower)
            neighbours[lower].append(upper)
        for number, (name, others) in enumerate(neighbours.items(), start=1):
            self.world.add_broker(
                BrokerSettings(
                    name=name,
                    number=number,
                    pubends=(_PUBEND,) if name == "root" else (),
                    neighbours=tuple(others),
                    congestion=settings,
                    tracking=TrackingSettings(strategy="null"),
                )
            )
        for upper, lower in pairs:
            self.links[lower] = add_narrow_link(self.world, lower, upper)

    def alerts(self) -> tuple[int, int]:
        """How many alerts all hosts have raised so far, and how many the pubend has heard."""
        counts = [broker.core.status().counts for broker in self.world.brokers.values()]
        return sum(each["ucas_raised"] for each in counts), sum(each["ucas_heard"] for each in counts)


def _levels(hosts: int) -> list[list[str]]:
    levels = [["root"]]
    while _CHILDREN ** len(levels) < hosts:
        levels.append([f"n{len(levels)}.{number}" for number in range(_CHILDREN ** len(levels))])
    levels.append([f"host.{number}" for number in range(hosts)])
    return levels


def _pairs(levels: list[list[str]]) -> Iterator[tuple[str, str]]:
    for upper, lower in pairwise(levels):
        for number, name in enumerate(lower):
            yield upper[number * len(upper) // len(lower)], name


def _measured(hosts: int, settings: CongestionSettings, *, seed: int, narrow_s: int) -> _Found:
    began = time.perf_counter()
    tree = ScaledTree(hosts, settings, seed=seed)
    tree.publisher.start(_RATE_MSG_S)
    tree.world.run_for(_WARM_MS)
    # Every tenth host is behind a narrow link: many alert, and one alert per query must reach the pubend.
    bandwidth = int(_NARROW * _RATE_MSG_S * _WIRE_BYTES)
    for leaf in tree.leaves[::_CHILDREN]:
        tree.links[leaf].throttle(bandwidth)
    raised, heard = tree.alerts()
    first_s = tree.world.elapsed_ms / 1000
    points, count = [], len(tree.publisher.client.published)
    for _ in range(narrow_s):
        tree.world.run_for(1_000)
        points.append((tree.world.elapsed_ms / 1000, float(len(tree.publisher.client.published) - count)))
        count = len(tree.publisher.client.published)
    last_s = tree.world.elapsed_ms / 1000
    raised, heard = (now - before for now, before in zip(tree.alerts(), (raised, heard), strict=True))
    took_s = adapt_s(points, first_s, last_s)
    rates = [rate for at_s, rate in points if at_s > first_s + took_s]
    for leaf in tree.leaves[::_CHILDREN]:
        tree.links[leaf].throttle(None)
    tree.publisher.stop()
    tree.world.run_for(4_000)
    found = delivered([tree.publisher], tree.subscribers)
    return _Found(
        hosts,
        tree.depth,
        raised / narrow_s,
        heard / narrow_s,
        took_s,
        sum(rates) / max(len(rates), 1) / (_NARROW * _RATE_MSG_S),
        found.skipped + found.missing + found.duplicated + found.reordered,
        time.perf_counter() - began,
    )


def _run(context: Context) -> Mapping[str, float]:
    sizes = [size for size in _SIZES if size <= context.integer("max_hosts")]
    settings = congestion_settings(context)
    context.reporter.stage("trees of growing size", total=len(sizes))
    found = []
    for size in sizes:
        found.append(_measured(size, settings, seed=context.seed, narrow_s=context.integer("narrow_s")))
        context.reporter.note(f"{size:,} hosts took {found[-1].wall_s:.1f} s")
        context.reporter.advance()
    context.figure(lambda figure: _draw(figure, found))
    measured: dict[str, float] = {}
    for each in found:
        measured[f"depth_{each.hosts}"] = each.depth
        measured[f"raised_per_s_{each.hosts}"] = round(each.raised_per_s, 3)
        measured[f"ucas_per_s_{each.hosts}"] = round(each.ucas_per_s, 3)
        measured[f"adapt_s_{each.hosts}"] = round(each.adapt_s, 1)
        measured[f"utilisation_{each.hosts}"] = round(each.utilisation, 3)
        measured[f"wrong_{each.hosts}"] = each.lost
    return measured


def _draw(figure: Figure, found: list[_Found]) -> None:
    above, below = figure.subplots(2, 1)
    hosts = [each.hosts for each in found]
    above.plot(hosts, [each.raised_per_s for each in found], marker="s", color="#cc6677", label="raised by hosts")
    above.plot(hosts, [each.ucas_per_s for each in found], marker="o", color="#4477aa", label="heard by the pubend")
    above.set(xscale="log", yscale="symlog", xlabel="subscriber-hosting brokers", ylabel="UCAs per second")
    above.set_ylim(bottom=0)
    above.set_title("Alerts that hosts raise, and those that the pubend hears", fontsize=9, loc="left")
    above.legend(fontsize=8, frameon=False, loc="upper left")
    below.plot([each.depth for each in found], [each.adapt_s for each in found], marker="o", color="#cc6677")
    below.set(xlabel="links from pubend to host", ylabel="time to adapt (s)")
    below.set_xticks([each.depth for each in found])
    below.set_ylim(bottom=0)
    below.set_title("Adaptation by depth", fontsize=9, loc="left")
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.3)


SCALE: Final = Experiment(
    name="congestion-scale",
    summary="alerts per second at a pubend stay the same for 10, 100 and 1,000 subscriber-hosting brokers",
    source="our own; [Gryphon] section 3.1 promises that alerts are consolidated",
    parameters=(
        *CONTROLLED,
        Parameter("max_hosts", 1_000, "hosts of the largest tree", quick=100, minimum=10),
        Parameter("narrow_s", 40, "seconds for which links are narrow", quick=30, minimum=20),
    ),
    published={},
    run=_run,
)
