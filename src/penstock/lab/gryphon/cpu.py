"""Congested processors: a subscriber-hosting broker that becomes slow, and a publisher-hosting one busy with NACKs.

[Gryphon] section 2 names them beside congested links, but gives no figures. Work is modelled: input takes time, and
waits for the single core of a broker. Only 64 KB may be in flight or unread on a link, so that input which a busy host
does not read waits in the queue of the broker upstream. Answering NACKs takes time, too: a NACK is small, and may ask
for many messages, which must be looked up and sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.charts import queue_panel, rate_panel, span
from penstock.lab.gryphon.frame import CONTROLLED, closing_figures, overlay_for
from penstock.lab.gryphon.overlay import KB, OFFERED_MSG_S, SIMPLE, GryphonOverlay
from penstock.lab.gryphon.series import adapt_s, between, mean, mean_rate, rates
from penstock.model.errors import MisuseError
from penstock.protocol.frames import Frame, Nack
from penstock.sim.host import CostModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BUSY_PHB", "SLOW_SHB", "NackCostModel"]

_WARM_S: Final = 20
_WINDOW_BYTES: Final = 64 * KB
_MESSAGE_NS: Final = 100_000
"""A subscriber-hosting broker is 95 % idle at 500 messages a second, as in the paper."""
_PUBLISH_NS: Final = 400_000
_NACKED_MS_NS: Final = 100_000
"""At 125 messages a second in a stream, this is 0.8 ms for each message that a NACK asks for."""
_TICKS_PER_MS: Final = 1 << 16


@dataclass(slots=True, frozen=True)
class NackCostModel(CostModel):
    """The cost of input, plus the cost of answering it."""

    nacked_ms_ns: int = 0
    """Cost of each millisecond of a stream that a NACK asks for."""

    def __post_init__(self) -> None:
        # super() without arguments does not find its class, as slots=True makes a new one.
        CostModel.__post_init__(self)
        if self.nacked_ms_ns < 0:
            raise MisuseError(f"nacked_ms_ns {self.nacked_ms_ns} is negative")

    def batch_ns(self, frames: Sequence[Frame], size: int) -> int:
        """The cost of a batch of this size, and of answering the NACKs in it."""
        ticks = sum(last + 1 - first for frame in frames if isinstance(frame, Nack) for first, last in frame.ranges)
        return CostModel.batch_ns(self, frames, size) + self.nacked_ms_ns * ticks // _TICKS_PER_MS


@dataclass(slots=True)
class _Times:
    began_s: float
    ended_s: float


def _run_slow(context: Context) -> Mapping[str, float]:
    slow_s, slowness = context.integer("slow_s"), context.integer("slowness")
    plan = replace(SIMPLE, costs={"SB1": CostModel(message_ns=_MESSAGE_NS)}, window_bytes=_WINDOW_BYTES)
    overlay = overlay_for(context, plan)
    overlay.run(_WARM_S)
    context.reporter.stage(f"SB1 is {slowness} times slower", total=slow_s)
    host = overlay.world.broker("SB1").host
    host.cost = CostModel(message_ns=_MESSAGE_NS * slowness)
    times = _Times(overlay.now_s, overlay.now_s + slow_s)
    for _ in range(slow_s):
        overlay.run(1)
        context.reporter.advance()
    host.cost = CostModel(message_ns=_MESSAGE_NS)
    overlay.run(context.integer("after_s"))
    end_s = overlay.now_s
    overlay.stop()
    context.figure(lambda figure: _draw(figure, overlay, times, "SB1 is slow"))
    published = rates(overlay.samples, lambda each: sum(each.published))
    took_s = adapt_s(published, times.began_s, times.ended_s)
    rate = mean_rate(
        overlay.samples, lambda each: each.delivered["SB1"], first_s=times.began_s + took_s, last_s=times.ended_s
    )
    lags = [each.lag_s["SB1"] for each in between(overlay.samples, times.began_s + took_s, times.ended_s)]
    capacity = 1e9 / (_MESSAGE_NS * slowness)
    return {
        "capacity_msg_s": round(min(capacity, OFFERED_MSG_S), 1),
        "rate_slow": round(rate, 1),
        "utilisation": round(rate / min(capacity, OFFERED_MSG_S), 3),
        "adapt_s": round(took_s, 1),
        "mean_lag_s": round(mean(lags), 3),
        "rate_after": _published_rate(overlay, end_s - 10, end_s),
        **closing_figures(overlay),
    }


def _run_busy(context: Context) -> Mapping[str, float]:
    down_s, limit_s = context.integer("down_s"), context.integer("limit_s")
    cost = NackCostModel(message_ns=_PUBLISH_NS, nacked_ms_ns=_NACKED_MS_NS)
    plan = replace(SIMPLE, costs={"PB": cost}, window_bytes=_WINDOW_BYTES)
    overlay = overlay_for(context, plan)
    overlay.run(_WARM_S)
    context.reporter.stage(f"IB-SB2 is down for {down_s} s", total=down_s)
    overlay.fail("IB", "SB2")
    for _ in range(down_s):
        overlay.run(1)
        context.reporter.advance()
    overlay.mend("IB", "SB2")
    up_s, busy_us = overlay.now_s, overlay.world.broker("PB").host.busy_us
    context.reporter.stage("SB2 recovers, PB answers")
    overlay.run(1)
    is_done = overlay.run_until(lambda: overlay.lag_s("SB2") < 1, limit_s=limit_s - 1)
    done_s = overlay.now_s
    busy = (overlay.world.broker("PB").host.busy_us - busy_us) / 1e6 / (done_s - up_s)
    overlay.run(context.integer("after_s"))
    end_s = overlay.now_s
    overlay.stop()
    context.figure(lambda figure: _draw(figure, overlay, _Times(up_s, done_s), "SB2 recovers"))
    return {
        "recovery_s": round(done_s - up_s, 1),
        "recovered": float(is_done),
        "busy_share": round(busy, 3),
        "rate_before": _published_rate(overlay, up_s - 20, up_s),
        "rate_in_recovery": _published_rate(overlay, up_s, done_s),
        "sb1_lag_max_s": round(max(each.lag_s["SB1"] for each in between(overlay.samples, up_s, done_s)), 3),
        "rate_after": _published_rate(overlay, end_s - 10, end_s),
        **closing_figures(overlay),
    }


def _published_rate(overlay: GryphonOverlay, first_s: float, last_s: float) -> float:
    rate = mean_rate(overlay.samples, lambda each: sum(each.published), first_s=first_s, last_s=last_s)
    return round(rate, 1)


def _draw(figure: Figure, overlay: GryphonOverlay, times: _Times, what: str) -> None:
    above, middle, below = figure.subplots(3, 1, sharex=True)
    rate_panel(above, overlay.samples, ("SB1", "SB2"), title="Rates")
    queue_panel(middle, overlay.samples, ("PB-IB", "IB-SB1", "IB-SB2"), title="Queues")
    for host in SIMPLE.topics:
        below.plot([each.at_s for each in overlay.samples], [each.lag_s[host] for each in overlay.samples], label=host)
    below.set(xlabel="time (s)", ylabel="lag (s)")
    below.set_ylim(0, 1.1 * below.get_ylim()[1])
    below.set_title("Lag of the slowest stream", fontsize=9, loc="left")
    below.grid(visible=True, alpha=0.3)
    below.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
    for axes in (above, middle, below):
        span(axes, times.began_s, times.ended_s, what)


_LAWS: Final = {"lost": 0, "duplicated": 0, "reordered": 0}
_SOURCE: Final = "our own; [Gryphon] section 2 names this kind of congestion"
SLOW_SHB: Final = Experiment(
    name="congestion-slow-shb",
    summary="a subscriber-hosting broker that is slow for lack of CPU is followed like a narrow link",
    source=_SOURCE,
    parameters=(
        *CONTROLLED,
        Parameter("slowness", 40, "by how much the host is slower for a while", minimum=1, maximum=1000),
        Parameter("slow_s", 120, "seconds for which it is slow", quick=40, minimum=20),
        Parameter("after_s", 60, "seconds that are observed after it", quick=40, minimum=20),
    ),
    published=_LAWS,
    run=_run_slow,
)
BUSY_PHB: Final = Experiment(
    name="congestion-busy-phb",
    summary="a publisher-hosting broker that is busy with NACKs serves recovery and publishers side by side",
    source=_SOURCE,
    parameters=(
        *CONTROLLED,
        Parameter("down_s", 60, "seconds for which IB-SB2 is down", quick=20, minimum=15),
        Parameter("limit_s", 300, "seconds after which a recovery is given up", quick=100, minimum=10),
        Parameter("after_s", 60, "seconds that are observed after it", quick=40, minimum=20),
    ),
    published=_LAWS,
    run=_run_busy,
)
