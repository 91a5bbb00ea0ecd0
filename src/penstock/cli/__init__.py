"""The command ``penstock``: all that people do from a shell."""

from __future__ import annotations

from penstock.cli.app import main

__all__ = ["main"]
