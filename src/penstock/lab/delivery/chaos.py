"""Guaranteed delivery under harm: random overlays are crashed, cut and starved, and the laws judged from outside.

One invocation is a small campaign of several runs, each with a seed drawn from the experiment's. The campaign is in
``penstock.sim.delivery``, and the judging of its laws in ``penstock.sim.verdict``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.probes import missed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DELIVERY_CHAOS"]

_MS_PER_HOUR: Final = 3_600_000
_DIGEST_BYTES: Final = 6
"""Few enough that JSON carries the digest exactly, as a number."""


def _run(context: Context) -> Mapping[str, float]:
    count = context.integer("runs")
    context.reporter.stage(f"{count} runs of the campaign", total=count)
    runs = []
    for _ in range(count):
        run = DeliveryCampaign(context.rng.getrandbits(48)).run()
        runs.append(run)
        if run.failure is not None:
            context.reporter.note(run.story())
        context.reporter.advance()
    unreached = missed([run.counts for run in runs])
    if unreached:
        context.reporter.note("probes that no run reached:\n" + "\n".join(f"  {line}" for line in unreached))
    faults = sum((run.faults for run in runs), Counter[str]())
    context.figure(lambda figure: _draw(figure, faults))
    return _measured(runs, faults, len(unreached))


def _measured(runs: list[DeliveryRun], faults: Counter[str], probes_missed: int) -> dict[str, float]:
    verdicts = [run.verdict for run in runs]
    digest = blake2b("".join(run.digest for run in runs).encode(), digest_size=_DIGEST_BYTES)
    return {
        "runs": len(runs),
        "simulated_hours": round(sum(run.simulated_ms for run in runs) / _MS_PER_HOUR, 4),
        "faults_injected": sum(faults.values()),
        "published": sum(each.published for each in verdicts),
        "acknowledged": sum(each.acknowledged for each in verdicts),
        "delivered": sum(each.delivered for each in verdicts),
        "lost": sum(each.lost for each in verdicts),
        "duplicated": sum(each.duplicated for each in verdicts),
        "reordered": sum(each.reordered for each in verdicts),
        "wrongly_filtered": sum(each.wrongly_filtered for each in verdicts),
        "limits_exceeded": sum(len(run.exceeded) for run in runs),
        "unconverged": sum(bool(run.unconverged) for run in runs),
        "crashed": sum(bool(run.crash) for run in runs),
        "probes_missed": probes_missed,
        "digest": int.from_bytes(digest.digest()),
    }


def _draw(figure: Figure, faults: Counter[str]) -> None:
    """Draw how often each kind of fault was injected."""
    axes = figure.add_subplot()
    kinds = sorted(faults, key=lambda kind: (faults[kind], kind))
    axes.barh(kinds, [faults[kind] for kind in kinds], color="#4477aa")
    axes.set_xlabel("faults injected")
    axes.set_title("What the overlays went through")


DELIVERY_CHAOS: Final = Experiment(
    name="delivery-chaos",
    summary="guaranteed delivery through crashes, cuts, torn writes and hostile limits, judged from outside",
    source="our own promise: docs/proof.md",
    parameters=(Parameter("runs", 20, "overlays that are drawn and harmed", quick=3, minimum=1),),
    published={
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "wrongly_filtered": 0,
        "limits_exceeded": 0,
        "unconverged": 0,
        "crashed": 0,
    },
    run=_run,
)
