"""What ``balancing-live`` sees of real brokers, and its chart: figures 6b and 6e ([PADRES] section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.balancing.metrics import Load
from penstock.lab.balancing.charts import dress
from penstock.lab.balancing.live.plan import EDGES, POWERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Sample", "draw", "load_of", "returns"]

_COLOURS: Final = dict(zip(EDGES, ("#4477aa", "#ee6677", "#228833"), strict=True))


@dataclass(slots=True, frozen=True)
class Sample:
    """How the edges are at one moment."""

    at_s: float
    loads: Mapping[str, Load]
    subscribers: Mapping[str, int]
    sessions: int
    """Sessions of all edges, so far."""


def load_of(status: Mapping[str, Any]) -> Load:
    """The load of an edge, by what it tells of its balancing."""
    return Load(**{name: float(status[name]) for name in ("input", "output", "delay_s", "cpu", "memory")})


def returns(trails: Iterable[Sequence[str]]) -> int:
    """How often somebody came back to a broker that it had left.

    >>> returns([["B1", "B3"], ["B1", "B2", "B1", "B3", "B2"]])
    2
    """
    return sum(len(trail) - len(set(trail)) for trail in trails)


def draw(figure: Figure, samples: Sequence[Sample], *, joined_s: float, converged_s: float) -> None:
    """Who has how many subscribers, and how busy each edge is with them."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    total, powers = sum(samples[-1].subscribers.values()), sum(POWERS.values())
    for edge, power in POWERS.items():
        _curve(upper, edge, [(each.at_s, each.subscribers[edge]) for each in samples])
        upper.axhline(total * power / powers, color=_COLOURS[edge], linestyle="--", linewidth=0.8)
        _curve(lower, edge, [(each.at_s, each.loads[edge].output) for each in samples])
    upper.plot([], [], color="#555555", linestyle="--", linewidth=0.8, label="share by\nbandwidth")
    lower.axhline(1.0, color="#555555", linestyle="--", linewidth=0.8, label="all that\nit has")
    for axes in (upper, lower):
        axes.axvline(joined_s, color="#555555", linestyle=":", linewidth=1, label=f"all joined\n{joined_s:.0f} s")
        if converged_s < samples[-1].at_s:
            label = f"balanced\n{converged_s:.0f} s"
            axes.axvline(converged_s, color="#aa3377", linestyle=":", linewidth=1, label=label)
    dress(upper, "Real brokers: subscribers of each edge, as figure 6e", "", "subscribers")
    dress(lower, "Output utilisation of each edge, as figure 6b", "time (s)", "output utilization ratio")


def _curve(axes: Axes, edge: str, points: Sequence[tuple[float, float]]) -> None:
    label = f"{edge} (bandwidth {POWERS[edge]})"
    axes.plot(*zip(*points, strict=True), color=_COLOURS[edge], linewidth=1.3, label=label)
