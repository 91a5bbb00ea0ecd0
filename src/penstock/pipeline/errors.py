"""Errors raised when Penstock works on Spark.

PenstockError
├── MisuseError
│   ├── SparkMissingError   pyspark is not installed
│   ├── JavaMissingError    no Java was found that Spark can run on
│   └── SweepError          an invalid sweep: a bad grid, bad seeds, or a folder that holds another sweep
└── SessionError            Spark did not start, or failed while running
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["JavaMissingError", "SessionError", "SparkMissingError", "SweepError"]


class SparkMissingError(MisuseError):
    """PySpark, or something it needs, is not installed."""


class JavaMissingError(MisuseError):
    """No Java was found that Spark can run on."""


class SweepError(MisuseError):
    """An invalid sweep: a bad grid, bad seeds, or a folder that holds another sweep."""


class SessionError(PenstockError):
    """Spark did not start, or failed while running."""
