"""``penstock lab``: the papers' experiments, listed, run, and reported on in one page."""

from __future__ import annotations

from penstock.cli.lab.experiments import app

__all__ = ["app"]
