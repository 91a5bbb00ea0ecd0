"""``penstock pipeline``: runs jobs on Spark, embedded in the command or on a cluster; each job has its own module."""

from __future__ import annotations

import typer

from penstock.cli.pipeline import archive, audit, compact, lake, profile, sweep, telemetry, trace

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Work on Spark: sweeps, the archive, and what is in the lake; `--master` names a cluster.",
)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.command("archive", epilog=archive.EXAMPLES)(archive.archive)
app.command("profile", epilog=profile.PROFILE_EXAMPLES)(profile.profile)
app.command("plan", epilog=profile.PLAN_EXAMPLES)(profile.plan)
app.command("trace", epilog=trace.EXAMPLES)(trace.trace)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
app.command("compact", epilog=compact.EXAMPLES)(compact.compact)
app.command("check", epilog=lake.CHECK_EXAMPLES)(lake.check)
app.command("retain", epilog=lake.RETAIN_EXAMPLES)(lake.retain)
app.command("telemetry", epilog=telemetry.EXAMPLES)(telemetry.telemetry)
