"""``penstock pipeline sweep``: runs an experiment over a grid of parameters and many seeds, as Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.console import FAILURE, console, shown_number
from penstock.cli.pipeline.frame import at_work, on_spark
from penstock.model.errors import MisuseError
from penstock.pipeline.experiments.registry import find_experiment
from penstock.pipeline.session import SessionSettings, check_requirements
from penstock.pipeline.sweep.chart import draw_sweep
from penstock.pipeline.sweep.plan import SweepPlan, planned
from penstock.pipeline.sweep.running import SweepResult, run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.summary import Estimate

__all__ = ["EXAMPLES", "sweep"]

EXAMPLES = """
Finished runs are kept in the folder of `--out`: the same command again goes on where it was interrupted, and more seeds
add to what is there. The exit code is 1 if any run failed; failed runs are made again the next time.

Examples:

- `penstock pipeline sweep delivery-chaos --grid runs=1,2,4 --seeds 1..100`
- `penstock pipeline sweep matching-scale --quick --grid links=2,4,8 --seeds 1..10 --metric links_us_1000`
- `penstock pipeline sweep delivery-chaos --set runs=1 --seeds 1..2000 --master spark://HOST:7077 --json -`
"""

_ROWS_MAX: Final = 300
_FAILURES_SHOWN: Final = 10


@on_spark("penstock sweep")
def sweep(  # noqa: PLR0913 - one per option
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="`penstock lab list` shows them all.")],
    *,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="KEY=A,B,C", help="Values of a parameter to sweep over; may be repeated."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="1..100", help="Seeds for every cell: `1..100`, `1,5,9`.")] = "1..10",
    quick: Annotated[bool, typer.Option("--quick", help="The experiment's small values where none is given.")] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only this metric in table and chart; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that keeps the runs; one of its own below `sweeps` else.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the summary as JSON; `-` is standard output.")
    ] = None,
    figures: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the chart.")] = Path("figures"),
    session: SessionSettings,
) -> None:
    """Run an experiment in every cell of a grid with every seed, on Spark; mean and 95 % interval per cell."""
    plan = planned(find_experiment(name), grid=grid or [], settings=settings or [], seeds=seeds, quick=quick)
    check_requirements()
    store = SweepStore(out if out is not None else Path("sweeps") / plan.default_folder(), plan)
    with at_work(replace(session, app_name=f"penstock sweep {name}")) as (spark, reporter):
        result = run_sweep(spark, plan, store, reporter)
    drawn = _drawn(plan, store, result, figures, metric or [])
    _tell(replace(result, figure=drawn), metric or [], json_file)
    if result.failures:
        raise typer.Exit(FAILURE)


def _drawn(
    plan: SweepPlan, store: SweepStore, result: SweepResult, figures: Path, metrics: Sequence[str]
) -> str | None:
    target = figures / f"sweep-{plan.default_folder()}.png"
    try:
        drawn = draw_sweep(plan, result.cells, store.found, target, metrics=metrics)
    except ImportError:
        console.note("no chart: matplotlib is missing; install it with: pip install 'penstock[lab]'")
        return None
    return None if drawn is None else str(drawn)


def _tell(result: SweepResult, metrics: Sequence[str], json_file: str | None) -> None:
    if json_file == "-":
        console.line(result.to_json())
    else:
        rows = list(_rows(result, metrics))
        console.table(f"{result.experiment}: {result.runs:,} runs", _columns(result), iter(rows[:_ROWS_MAX]))
        if len(rows) > _ROWS_MAX:
            console.note(f"{len(rows) - _ROWS_MAX:,} more rows: see --json, or name a --metric")
        console.line(f"results: {result.results}")
        if result.figure is not None:
            console.line(f"chart: {result.figure}")
    if json_file not in {None, "-"}:
        _write(Path(str(json_file)), result.to_json())
    for failure in result.failures[:_FAILURES_SHOWN]:
        where = "".join(f"{key}={value} " for key, value in failure.parameters.items())
        console.note(f"failed: {where}seed {failure.seed}: {failure.message}")
    if len(result.failures) > _FAILURES_SHOWN:
        console.note(f"{len(result.failures) - _FAILURES_SHOWN:,} more runs failed: see --json")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"cannot write the summary to {path}: {error.strerror}") from None
    console.note(f"summary: {path}")


def _columns(result: SweepResult) -> dict[str, str]:
    swept = dict.fromkeys((f"{key} =" for key in result.grid), "right")
    return {**swept, "metric": "left", "runs": "right", "mean": "right", "95 %": "right"}


def _rows(result: SweepResult, metrics: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Rows of the table, metric by metric, so that the cells of a metric are next to each other."""
    for name in metrics or list(dict.fromkeys(metric for cell in result.cells for metric in cell.metrics)):
        for cell in result.cells:
            if name in cell.metrics:
                known = cell.metrics[name]
                yield *map(str, cell.parameters.values()), name, str(known.runs), shown_number(known.mean), _half(known)


def _half(known: Estimate) -> str:
    return "" if known.high is None else f"± {shown_number(known.high - known.mean)}"
