"""``penstock pipeline``: what runs on Spark, embedded in the command or on a cluster."""

from __future__ import annotations

from penstock.cli.pipeline.commands import app

__all__ = ["app"]
