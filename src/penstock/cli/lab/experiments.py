"""``penstock lab``: lists the papers' experiments and runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import console, shown_number
from penstock.cli.lab import report as lab_report
from penstock.cli.progress import ProgressReporter
from penstock.lab import Experiment, Result, run_experiment
from penstock.model.errors import MisuseError
from penstock.pipeline.experiments.registry import EXPERIMENTS, find_experiment

__all__ = ["app"]

_RUN_EXAMPLES = """
Examples:

- `penstock lab run matching-scale --quick`
- `penstock lab run matching-scale --seed 7 --set max_size=100000 --set links=4`
- `penstock lab run matching-scale --quotes stock-quotes.csv.gz --json result.json --figures charts`
- `penstock lab run matching-scale --quick --json - | jq .measured`
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The papers' experiments: what was published beside what this machine measures.",
)
app.command("report", epilog=lab_report.EXAMPLES)(lab_report.report)


@app.command("list")
def list_experiments(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False
) -> None:
    """List the experiments, their parameters and where they come from."""
    if as_json:
        described = [_described(experiment) for experiment in EXPERIMENTS]
        console.json(described)
        return
    for experiment in EXPERIMENTS:
        console.line(f"{experiment.name}\n  {experiment.summary}\n  from: {experiment.source}")
        for each in experiment.parameters:
            quick = "" if each.quick is None else f"; quick: {each.quick}"
            default = "none" if each.default == "" else each.default
            console.line(f"    {each.name:<14} {each.help} ({each.type_name}; default: {default}{quick})")


@app.command("run", epilog=_RUN_EXAMPLES)
def run(
    name: Annotated[str, typer.Argument(help="The experiment; `penstock lab list` shows them all.")],
    *,
    seed: Annotated[int, typer.Option(min=0, help="The source of all chance in the run.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small run of seconds, to see that it works.")] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; `-` is standard output.")
    ] = None,
    figures: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the chart.")] = Path("figures"),
    quotes: Annotated[
        str | None, typer.Option(metavar="FILE", help="CSV file of quotes: the same as --set quotes=FILE.")
    ] = None,
) -> None:
    """Run an experiment and show published beside measured figures."""
    experiment = find_experiment(name)
    _check_writable(figures / "chart", "chart")
    if json_file not in {None, "-"}:
        _check_writable(Path(str(json_file)), "result")
    all_settings = [*(settings or []), *([] if quotes is None else [f"quotes={quotes}"])]
    with ProgressReporter() as reporter:
        result = run_experiment(experiment, all_settings, seed=seed, quick=quick, figures=figures, reporter=reporter)
    if json_file == "-":
        console.line(result.to_json())
        return
    _show(experiment, result)
    if json_file is not None:
        Path(json_file).parent.mkdir(parents=True, exist_ok=True)
        Path(json_file).write_text(result.to_json() + "\n", encoding="utf-8")
        console.note(f"result: {json_file}")


def _check_writable(path: Path, what: str) -> None:
    """Check before a long run that its result can be written."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise MisuseError(f"cannot write the {what} to {path}: no such folder, or not allowed")


def _show(experiment: Experiment, result: Result) -> None:
    columns = {"metric": "left", "published": "right", "measured": "right"}
    console.table(f"{experiment.name} (seed {result.seed})", columns, _rows(result))
    console.line(f"published: {experiment.source}")
    if result.figure is not None:
        console.line(f"chart: {result.figure}")


def _rows(result: Result) -> Iterator[tuple[str, ...]]:
    for metric, value in result.measured.items():
        yield metric, shown_number(result.published.get(metric)), shown_number(value)


def _described(experiment: Experiment) -> dict[str, object]:
    return {
        "name": experiment.name,
        "summary": experiment.summary,
        "source": experiment.source,
        "parameters": [
            {"name": each.name, "type": each.type_name, "default": each.default, "quick": each.quick, "help": each.help}
            for each in experiment.parameters
        ],
        "published": dict(experiment.published),
    }
