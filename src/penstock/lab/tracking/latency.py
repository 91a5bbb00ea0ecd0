"""What tracking costs a live broker in processor time and latency ([Tracking] section 5, figure 3).

One broker process has the clients of the paper: 200 publishers, 500 subscribers, 500 topics. First, strategies take
turns: a round has a fresh broker for every strategy, and loads them in short turns and varying order. A broker that is
kept waiting takes more messages at once, and less time for each, so other load on the machine must hit all brokers
alike. A ratio compares a broker with the one without tracking in the same round. Processor time includes storing up to
Tp after the last message; as the clock runs on while other brokers are loaded, more is stored for each message than
under steady load. Then a broker without tracking, and one for every row of Table 2, are loaded once, steadily and for
longer than Tp.

Deviation: pubends are best effort, since the paper's runs write nothing but tracking to disk; guaranteed ones take more
time for each message, so that the ratio would be lower.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.measuring import collector_at_rest
from penstock.lab.frame.parameters import Parameter
from penstock.lab.tracking.broker import broker_command
from penstock.lab.tracking.swarm import Load, Swarm, cpu_s
from penstock.lab.tracking.table import Configuration, configurations
from penstock.sim.workloads import TopicWorkload
from penstock.tracking.settings import TrackingSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TRACKING_LATENCY", "Driven", "draw", "interval"]

_STRATEGIES: Final = ("null", "exact", "bloom")
_BROKER: Final = "b1"
_PERSIST_S: Final = 1.1
"""Time after the last message, by which everything that waits for Tp is stored."""
_WARM_S: Final = 0.5
_TURN_S: Final = 2.0
"""Longer than the persistence interval: a broker loaded only briefly stores as often, but for fewer messages."""
_FILES: Final = 8_192
_RESAMPLES: Final = 2_000
_COLOURS: Final = {"null": "0.5", "exact": "C1", "bloom": "C0"}


@dataclass(slots=True, frozen=True)
class Driven:
    """The figures of a broker under load."""

    messages: int
    cpu_us: float
    """Processor time per message, in microseconds."""
    seconds: float
    p50_ms: float
    p99_ms: float
    mean_ms: float


class _Loaded:
    """A broker with some tracking strategy, and its clients."""

    def __init__(self, overlay: DemoOverlay, swarm: Swarm) -> None:
        self._pid, self._swarm = overlay.pid(_BROKER), swarm
        self.begin()

    def begin(self) -> None:
        """Start counting from zero."""
        self._cpu_s, self._seconds, self._messages = cpu_s(self._pid), 0.0, 0
        self._latencies_ns: list[int] = []

    def drive(self, *, seconds: float, rate: float) -> None:
        """Load the broker for a while."""
        started_s = time.perf_counter()
        messages, latencies_ns = self._swarm.drive(seconds=seconds, rate=rate)
        self._seconds += time.perf_counter() - started_s
        self._messages += messages
        self._latencies_ns += latencies_ns

    def driven(self) -> Driven:
        """The figures since ``begin``."""
        took_ms = np.array(self._latencies_ns, dtype=np.float64) / 1e6
        p50, p99 = np.percentile(took_ms, (50, 99))
        cpu_us = (cpu_s(self._pid) - self._cpu_s) / self._messages * 1e6
        return Driven(self._messages, cpu_us, self._seconds, float(p50), float(p99), float(took_ms.mean()))


@contextmanager
def _loaded(tracking: TrackingSettings, load: Load, service: str, *, rate: float) -> Iterator[_Loaded]:
    """A fresh broker with all its clients, warmed up."""
    # Heartbeats would only disturb the measurement.
    plan = OverlayPlan(
        {_BROKER: (f"{_BROKER}.a",)}, defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000}, service=service
    )
    with DemoOverlay(plan, command=broker_command(tracking)) as overlay:
        with Swarm(overlay.port(_BROKER), load) as swarm:
            loaded = _Loaded(overlay, swarm)
            loaded.drive(seconds=_WARM_S, rate=rate)
            loaded.begin()
            yield loaded
        overlay.check()


def _run(context: Context) -> Mapping[str, float]:
    _allow_many_files()
    load = Load(TopicWorkload(context.rng))
    with collector_at_rest():
        rounds = _rounds(context, load)
        swept = _sweep(context, load) if context.number("sweep_seconds") else {}
    metrics = _compared(rounds, Random(context.rng.getrandbits(64)))
    for each, driven in swept.items():
        name = "untracked" if each is None else each.metric
        metrics |= {f"p50_ms_{name}": round(driven.p50_ms, 3), f"p99_ms_{name}": round(driven.p99_ms, 3)}
        metrics |= {f"mean_ms_{name}": round(driven.mean_ms, 3), f"cpu_us_{name}": round(driven.cpu_us, 2)}
        metrics[f"messages_per_s_{name}"] = round(driven.messages / driven.seconds, 1)
    bars = {("null" if each is None else each.label): driven for each, driven in swept.items()}
    context.figure(lambda figure: draw(figure, rounds, bars))
    return metrics


def _rounds(context: Context, load: Load) -> dict[str, list[Driven]]:
    """Load the strategies in turn, each of them many times in every round."""
    count, rate = context.integer("pairs"), context.number("rate")
    turns = max(round(context.number("seconds") / _TURN_S), 1)
    turn_s = context.number("seconds") / turns
    context.reporter.stage(f"{count} rounds of null, exact and bloom", total=count)
    found: dict[str, list[Driven]] = {each: [] for each in _STRATEGIES}
    for number in range(count):
        with ExitStack() as stack:
            brokers = {
                each: stack.enter_context(
                    _loaded(TrackingSettings(strategy=each), load, context.text("service"), rate=rate)
                )
                for each in context.rng.sample(_STRATEGIES, k=len(_STRATEGIES))
            }
            for broker in brokers.values():
                broker.begin()
            for _ in range(turns):
                for each in context.rng.sample(_STRATEGIES, k=len(_STRATEGIES)):
                    brokers[each].drive(seconds=turn_s, rate=rate)
            time.sleep(_PERSIST_S)
            for each, driven in found.items():
                driven.append(brokers[each].driven())
        cpu = ", ".join(f"{each} {driven[-1].cpu_us:.1f} µs" for each, driven in found.items())
        context.reporter.note(f"round {number + 1}: {cpu}; bloom / null {_ratio(found, 'bloom', number):.3f}")
        context.reporter.advance()
    return found


def _sweep(context: Context, load: Load) -> dict[Configuration | None, Driven]:
    """Load a broker without tracking, and one for every row of Table 2, for longer than they wait to store."""
    listed = list(configurations())
    context.reporter.stage(f"{len(listed)} configurations of Table 2", total=len(listed) + 1)
    found: dict[Configuration | None, Driven] = {}
    for each in (None, *listed):
        tracking = TrackingSettings(strategy="null") if each is None else each.settings(keep_filling=True)
        least_s = 0 if each is None else each.persist_s + 1
        rate = context.number("rate")
        with _loaded(tracking, load, context.text("service"), rate=rate) as loaded:
            loaded.drive(seconds=max(context.number("sweep_seconds"), least_s), rate=rate)
            time.sleep(_PERSIST_S)
            found[each] = loaded.driven()
        context.reporter.advance()
    return found


def _compared(rounds: Mapping[str, list[Driven]], rng: Random) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for each in ("exact", "bloom"):
        ratios = [_ratio(rounds, each, number) for number in range(len(rounds["null"]))]
        metrics |= _with_interval(f"cpu_ratio_{each}", ratios, rng, digits=4)
    for each, driven in rounds.items():
        metrics |= _with_interval(f"cpu_us_{each}", [one.cpu_us for one in driven], rng, digits=2)
        metrics |= _with_interval(f"p50_ms_{each}", [one.p50_ms for one in driven], rng, digits=3)
        metrics |= _with_interval(f"p99_ms_{each}", [one.p99_ms for one in driven], rng, digits=3)
    metrics["pairs"] = len(rounds["null"])
    return metrics


def _ratio(rounds: Mapping[str, list[Driven]], strategy: str, number: int) -> float:
    return rounds[strategy][number].cpu_us / rounds["null"][number].cpu_us


def _with_interval(name: str, values: Sequence[float], rng: Random, *, digits: int) -> dict[str, float]:
    low, high = interval(values, rng)
    return {
        name: round(median(values), digits),
        f"{name}_low": round(low, digits),
        f"{name}_high": round(high, digits),
    }


def interval(values: Sequence[float], rng: Random) -> tuple[float, float]:
    """The 95 % confidence interval of the median, by resampling."""
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return medians[_RESAMPLES * 25 // 1_000], medians[_RESAMPLES * 975 // 1_000]


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))


def draw(figure: Figure, rounds: Mapping[str, Sequence[Driven]], swept: Mapping[str, Driven]) -> None:
    """Draw the rounds and, if there are any, the configurations below them."""
    figure.set_size_inches(11, 12 if swept else 5)
    grid = figure.add_gridspec(2 if swept else 1, 2, height_ratios=(2, 5) if swept else (1,))
    _draw_cpu(figure.add_subplot(grid[0, 0]), rounds)
    _draw_latency(figure.add_subplot(grid[0, 1]), rounds)
    if swept:
        _draw_swept(figure.add_subplot(grid[1, :]), swept)
    figure.suptitle("Tracking in one live broker: 200 publishers, 500 subscribers, 500 topics")


def _draw_cpu(axes: Axes, rounds: Mapping[str, Sequence[Driven]]) -> None:
    for strategy, points in rounds.items():
        numbers = range(1, len(points) + 1)
        axes.plot(numbers, [each.cpu_us for each in points], "o-", color=_COLOURS[strategy], label=strategy)
    axes.set(xlabel="round", ylabel="processor time per message (µs)")
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")


def _draw_latency(axes: Axes, rounds: Mapping[str, Sequence[Driven]]) -> None:
    for strategy, points in rounds.items():
        numbers = range(1, len(points) + 1)
        axes.plot(numbers, [each.p50_ms for each in points], "o-", color=_COLOURS[strategy], label=f"{strategy}, p50")
        axes.plot(numbers, [each.p99_ms for each in points], "x:", color=_COLOURS[strategy], label=f"{strategy}, p99")
    axes.set(xlabel="round", ylabel="latency (ms)")
    axes.locator_params(axis="x", integer=True)
    axes.set_yscale("log")
    axes.margins(y=0.25)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(frameon=False, ncols=3, fontsize="small", loc="upper left")


def _draw_swept(axes: Axes, swept: Mapping[str, Driven]) -> None:
    for place, (label, each) in enumerate(swept.items()):
        colour = "0.5" if label == "null" else "C1" if label.startswith("exact") else "C0"
        axes.barh(place, each.p50_ms, color=colour, height=0.7)
        axes.plot([each.p99_ms], [place], "k|", markersize=10)
    axes.set_yticks(range(len(swept)), list(swept))
    axes.set_ylim(len(swept) - 0.4, -0.6)
    axes.set(xlabel="latency (ms): median (bar) and p99 (stroke)", xscale="log")
    axes.grid(visible=True, axis="x", alpha=0.3)


TRACKING_LATENCY: Final = Experiment(
    name="tracking-latency",
    summary="Processor time and latency of one live broker with tracking by filters, by records, and without",
    source="[Tracking] section 5, Table 2 and figure 3",
    parameters=(
        Parameter("pairs", 12, "rounds in which all strategies take turns", quick=2, minimum=1, maximum=1_000),
        Parameter("seconds", 6.0, "seconds of load for each of them in a round", quick=2.0, minimum=0.5, maximum=600),
        Parameter("rate", 5_000.0, "messages per second", minimum=100, maximum=100_000),
        Parameter(
            "sweep_seconds", 5.0, "seconds for each row of Table 2; 0 for none", quick=0.0, minimum=0, maximum=600
        ),
        Parameter("service", "best-effort", "service class of the pubend: best-effort or guaranteed"),
    ),
    published={"cpu_ratio_bloom": "at most 1.05", "messages_per_s_64k_99_999_tp1": 5_000},
    run=_run,
)
