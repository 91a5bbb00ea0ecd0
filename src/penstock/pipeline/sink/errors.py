"""Errors between Spark's rows and an overlay, each as one readable line.

SourceOptionError
└── SinkOptionError   an invalid option or column
SourceError
└── SinkError         a row that is not a valid message, a broker that refuses or is away, damaged staged rows
"""

from __future__ import annotations

from penstock.pipeline.source.errors import SourceError, SourceOptionError

__all__ = ["SinkError", "SinkOptionError"]


class SinkOptionError(SourceOptionError):
    """An invalid option or column."""


class SinkError(SourceError):
    """A row that is not a valid message, a broker that refuses or is away, or damaged staged rows."""
