"""What can be wrong when Penstock works on Spark.

PenstockError
├── MisuseError
│   ├── SparkMissingError   pyspark is not installed
│   ├── JavaMissingError    no Java is found that Spark runs on
│   └── SweepError          a sweep that cannot be: a bad grid, bad seeds, or a folder that holds another one
└── SessionError            Spark did not start, or failed while at work
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["JavaMissingError", "SessionError", "SparkMissingError", "SweepError"]


class SparkMissingError(MisuseError):
    """PySpark, or something it needs, is not installed."""


class JavaMissingError(MisuseError):
    """No Java is found that Spark runs on."""


class SweepError(MisuseError):
    """A sweep that cannot be: a bad grid, bad seeds, or a folder that holds another one."""


class SessionError(PenstockError):
    """Spark did not start, or failed while at work."""
