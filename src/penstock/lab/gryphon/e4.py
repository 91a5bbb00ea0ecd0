"""E4: how recovery time depends on the rate demanded, from 0.2 to 2 tick-seconds per second ([Gryphon] section 5).

Figure 16. Each demand is a run of E1 with 500 KB/s. Runs differ only from link-up on, when there is something to
recover: the time before is simulated once in each of two processes, which are then forked for each run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.congestion.settings import CongestionSettings
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.measuring import collector_in_leisure
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.frame import CONTROLLED, SOURCE, closing_figures, congestion_settings
from penstock.lab.gryphon.overlay import GryphonOverlay
from penstock.lab.gryphon.recovery import lose, regain
from penstock.lab.gryphon.series import spearman
from penstock.model.reporting import QuietReporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["E4"]

_MARGINS: Final = tuple(round(0.2 * step, 1) for step in range(1, 11))
_QUICK_MARGINS: Final = (0.2, 2.0)
_SUMMED: Final = ("lost", "duplicated", "reordered", "undelivered")


@dataclass(slots=True, frozen=True)
class _Trial:
    """Parameters shared by all runs."""

    settings: CongestionSettings
    seed: int
    down_s: int
    limit_s: int


def _run(context: Context) -> Mapping[str, float]:
    trial = _Trial(congestion_settings(context), context.seed, context.integer("down_s"), context.integer("limit_s"))
    margins = _MARGINS if context.integer("settings") == len(_MARGINS) else _QUICK_MARGINS
    context.reporter.stage("recoveries that demand more and more", total=len(margins))
    found = {}
    for margin, figures in zip(margins, _outcomes(trial, margins, context.integer("processes")), strict=True):
        found[margin] = figures
        context.reporter.advance()
    took = [found[margin]["recovery_s"] for margin in margins]
    context.figure(lambda figure: _draw(figure, margins, took))
    measured = {f"recovery_s_{margin}": found[margin]["recovery_s"] for margin in margins}
    measured["spearman"] = round(spearman(margins, took), 3)
    measured["ratio"] = round(took[0] / took[-1], 3)
    measured["recovered"] = sum(each["recovered"] for each in found.values()) / len(found)
    measured |= {name: sum(each[name] for each in found.values()) for name in _SUMMED}
    measured |= {name: max(each[name] for each in found.values()) for name in ("queue_max_bytes", "lag_end_s")}
    return measured


def _outcomes(trial: _Trial, margins: tuple[float, ...], processes: int) -> Iterator[Mapping[str, float]]:
    """The figures for each demand, in order."""
    # Spawned, not forked: a run must not inherit open files or threads of libraries.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_prepare, initargs=(trial,)) as pool:
        yield from pool.map(_forked, margins)


_PREPARED: Final[list[tuple[_Trial, GryphonOverlay]]] = []
"""In a worker process: an overlay whose SB2 has missed everything. Up to this point all runs are the same."""


def _prepare(trial: _Trial) -> None:
    with collector_in_leisure():
        overlay = lose(trial.settings, QuietReporter(), seed=trial.seed, kbytes_s=500, down_s=trial.down_s)
    _PREPARED.append((trial, overlay))


def _forked(margin: float) -> Mapping[str, float]:
    """Run one demand in a fork of this process, so that the overlay here stays unchanged for the next."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    trial, overlay = _PREPARED[0]
    child = fork.Process(target=lambda: there.send(_recovered(trial, overlay, margin)))
    child.start()
    there.close()
    found: Mapping[str, float] = here.recv()
    child.join()
    return found


def _recovered(trial: _Trial, overlay: GryphonOverlay, margin: float) -> Mapping[str, float]:
    overlay.tune(replace(trial.settings, recovering_margin=margin))
    with collector_in_leisure():
        found = regain(overlay, QuietReporter(), down_s=trial.down_s, limit_s=trial.limit_s, after_s=0)
    return {
        "recovery_s": round(found.recovery_s, 1),
        "recovered": float(found.is_done),
        **closing_figures(found.overlay),
    }


def _draw(figure: Figure, margins: tuple[float, ...], took: list[float]) -> None:
    axes = figure.subplots()
    axes.plot(margins, took, marker="o", color="#4477aa")
    axes.set_xlabel("recovery threshold (tick-seconds per second)")
    axes.set_ylabel("recovery time (s)")
    axes.set_ylim(bottom=0)
    axes.set_title("Figure 16: E4, recovery time by what a recovery demands", loc="left", fontsize=10)
    axes.grid(visible=True, alpha=0.3)


E4: Final = Experiment(
    name="gryphon-e4",
    summary="the more a recovering broker demands, the sooner it has recovered",
    source=f"{SOURCE}, section 5, E4, figure 16",
    parameters=(
        *CONTROLLED,
        Parameter("settings", len(_MARGINS), "demands that are tried: 10, or 2", quick=2, minimum=2, maximum=10),
        Parameter("down_s", 120, "seconds for which IB-SB2 is down", quick=30, minimum=15),
        Parameter("limit_s", 300, "seconds after which a recovery is given up", quick=100, minimum=10),
        Parameter("processes", 2, "processes to use", minimum=1, maximum=64),
    ),
    published={"spearman": "falls with the demand", "lost": 0, "duplicated": 0, "reordered": 0},
    run=_run,
)
