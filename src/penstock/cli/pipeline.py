"""``penstock pipeline``: what runs on Spark, embedded in the command or on a cluster."""

from __future__ import annotations

import typer

from penstock.cli import pipeline_archive, pipeline_profile, pipeline_sweep

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Work on Spark: sweeps of experiments, and the archive; `--master` names a cluster.",
)
app.command("sweep", epilog=pipeline_sweep.EXAMPLES)(pipeline_sweep.sweep)
app.command("archive", epilog=pipeline_archive.EXAMPLES)(pipeline_archive.archive)
app.command("profile", epilog=pipeline_profile.PROFILE_EXAMPLES)(pipeline_profile.profile)
app.command("plan", epilog=pipeline_profile.PLAN_EXAMPLES)(pipeline_profile.plan)
