"""``penstock pipeline``: what runs on Spark, embedded in the command or on a cluster."""

from __future__ import annotations

import typer

from penstock.cli import (
    pipeline_archive,
    pipeline_lake,
    pipeline_profile,
    pipeline_sweep,
    pipeline_telemetry,
    pipeline_trace,
)

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Work on Spark: sweeps, the archive, and what is in the lake; `--master` names a cluster.",
)
app.command("sweep", epilog=pipeline_sweep.EXAMPLES)(pipeline_sweep.sweep)
app.command("archive", epilog=pipeline_archive.EXAMPLES)(pipeline_archive.archive)
app.command("profile", epilog=pipeline_profile.PROFILE_EXAMPLES)(pipeline_profile.profile)
app.command("plan", epilog=pipeline_profile.PLAN_EXAMPLES)(pipeline_profile.plan)
app.command("trace", epilog=pipeline_trace.EXAMPLES)(pipeline_trace.trace)
app.command("audit", epilog=pipeline_lake.AUDIT_EXAMPLES)(pipeline_lake.audit)
app.command("compact", epilog=pipeline_lake.COMPACT_EXAMPLES)(pipeline_lake.compact)
app.command("check", epilog=pipeline_lake.CHECK_EXAMPLES)(pipeline_lake.check)
app.command("retain", epilog=pipeline_lake.RETAIN_EXAMPLES)(pipeline_lake.retain)
app.command("telemetry", epilog=pipeline_telemetry.EXAMPLES)(pipeline_telemetry.telemetry)
