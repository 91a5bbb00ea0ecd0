"""Traces of random messages in overlays with faults, compared with what the simulator saw ([Tracking] section 3.3).

There are two overlays of the same size, with as much harm: one with default filters, where no errors are expected, and
one with filters so coarse that brokers err often enough to be counted. There, false claims of brokers, and subscribers
falsely named as receivers, are compared with the probability that the filters give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.tracking.campaign import TracingCampaign
from penstock.lab.tracking.verdict import TracingVerdict
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COARSE", "TRACKING_TRUTH"]

COARSE: Final = TrackingSettings(
    shape=FilterShape(m=256, n=64, k=2), efpp=0.4, publish_rate_max=100, delivery_rate_max=100, staged_max=16
)
"""Filters that are full after 64 messages, and then claim every seventh message that they never saw."""


class _Course:
    """Actual and predicted errors of brokers, trace by trace."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.claims: list[tuple[int, float, float]] = []
        self.deliveries: list[tuple[int, float, float]] = []

    def on_traced(self, verdict: TracingVerdict) -> None:
        """Record the errors after one more trace."""
        self._context.reporter.advance()
        for chances, course in ((verdict.claims, self.claims), (verdict.deliveries, self.deliveries)):
            course.append((chances.wrong, chances.predicted, chances.standard_error))


def _run(context: Context) -> Mapping[str, float]:
    usual, _ = _traced(context, "the usual filters", None)
    coarse, course = _traced(context, "coarse filters", {"tracking": COARSE})
    context.figure(lambda figure: _draw(figure, course))
    metrics: dict[str, float] = {"missed": len(usual.misses) + len(coarse.misses)}
    for name, verdict in (("", usual), ("coarse_", coarse)):
        metrics |= _figures(name, verdict)
    for name, chances in (("false_claims", coarse.claims), ("false_receivers", coarse.deliveries)):
        metrics |= {name: chances.wrong, f"{name}_theory": round(chances.predicted, 1)}
        metrics |= {f"{name}_standard_errors": round(chances.standard_errors, 2), f"{name}_chances": chances.count}
    return metrics


def _traced(context: Context, name: str, settings: dict[str, Any] | None) -> tuple[TracingVerdict, _Course]:
    course, reporter = _Course(context), context.reporter
    brokers, blows, traces = (context.integer(each) for each in ("brokers", "blows", "traces"))
    seed = context.rng.getrandbits(32)
    reporter.stage(f"{name}: {brokers} brokers, {blows} blows, {traces} traces", total=blows + traces)
    campaign = TracingCampaign(
        seed, brokers=brokers, settings=settings, on_round=reporter.advance, on_traced=course.on_traced
    )
    verdict = campaign.run(messages=context.integer("messages"), blows=blows, traces=traces)
    for miss in verdict.misses[:10]:
        reporter.note(f"seed {seed}: missed without a reported gap: {miss}")
    return verdict, course


def _figures(name: str, verdict: TracingVerdict) -> dict[str, float]:
    gaps = {f"{name}answers_with_gap_{reason}": count for reason, count in sorted(verdict.reasons.items())}
    return {
        f"{name}traces": verdict.traced,
        f"{name}refused": len(verdict.refused),
        f"{name}hops": verdict.hops,
        f"{name}receivers": verdict.receivers,
        f"{name}excused": verdict.excused,
        f"{name}incomplete": verdict.incomplete,
        f"{name}extra_hops": verdict.extra_hops,
        f"{name}extra_receivers": verdict.extra_receivers,
        **gaps,
    }


def _draw(figure: Figure, course: _Course) -> None:
    parts = (("brokers that never had it", course.claims), ("subscribers who never wanted it", course.deliveries))
    for place, (title, values) in enumerate(parts, start=1):
        axes = figure.add_subplot(1, 2, place)
        traces = range(1, len(values) + 1)
        predicted = [each[1] for each in values]
        low = [theory - 4 * error for _, theory, error in values]
        high = [theory + 4 * error for _, theory, error in values]
        axes.fill_between(traces, low, high, color="C3", alpha=0.15, label="4 standard errors")
        axes.plot(traces, predicted, color="C3", linestyle="--", label="by the formula")
        axes.plot(traces, [each[0] for each in values], color="C0", label="false")
        axes.set(xlabel="traces", ylabel="false positives so far" if place == 1 else "")
        axes.set_title(title, fontsize="medium")
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(frameon=False, loc="upper left")
    figure.suptitle("False positives in traces with coarse filters")


TRACKING_TRUTH: Final = Experiment(
    name="tracking-truth",
    summary="Traces in simulated overlays with faults, beside what the simulator saw: missed, and false by chance",
    source="[Tracking] sections 3.3 and 4.3",
    parameters=(
        Parameter("brokers", 50, "brokers of each overlay", quick=8, minimum=2, maximum=64),
        Parameter("messages", 4_000, "messages that are published", quick=300, minimum=10, maximum=1_000_000),
        Parameter("blows", 40, "crashes, stops, cut links, slow disks and damaged records", quick=6, maximum=10_000),
        Parameter("traces", 1_000, "messages that are traced in each overlay", quick=40, minimum=1, maximum=100_000),
    ),
    published={"missed": 0, "extra_hops": 0, "false_claims_standard_errors": "within 4"},
    run=_run,
)
