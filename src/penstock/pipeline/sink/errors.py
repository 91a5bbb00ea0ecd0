"""What can go wrong between Spark's rows and an overlay, as one readable line.

SourceOptionError
└── SinkOptionError   an option or a column that cannot be
SourceError
└── SinkError         a row that is no message, a broker that refuses or stays away, staged rows that are damaged
"""

from __future__ import annotations

from penstock.pipeline.source.errors import SourceError, SourceOptionError

__all__ = ["SinkError", "SinkOptionError"]


class SinkOptionError(SourceOptionError):
    """An option or a column that cannot be."""


class SinkError(SourceError):
    """A row that is no message, a broker that refuses or stays away, or staged rows that are damaged."""
