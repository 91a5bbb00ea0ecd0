"""``penstock lab``: lists and runs the papers' experiments, and reports on them in one page."""

from __future__ import annotations

from penstock.cli.lab.experiments import app

__all__ = ["app"]
