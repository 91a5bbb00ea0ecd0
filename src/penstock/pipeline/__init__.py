"""Penstock on Spark: a ready-made session, message streams as frames, the archive, and sweeps of experiments.

Importing this package does not import Spark; code that needs it says how to install it when it is missing.
"""

from __future__ import annotations

from penstock.pipeline.errors import JavaMissingError, SessionError, SparkMissingError, SweepError
from penstock.pipeline.session import SessionSettings, open_session, using_session

__all__ = [
    "JavaMissingError",
    "SessionError",
    "SessionSettings",
    "SparkMissingError",
    "SweepError",
    "open_session",
    "using_session",
]
