"""What can go wrong between Spark's rows and an overlay, as one readable line.

SourceOptionError
└── SinkOptionError   an option or a column that cannot be
SourceError
└── SinkError         a row that is no message, a broker that refuses or stays away, staged rows that are damaged
    └── TornError     a broker has taken some rows and refused others before them
"""

from __future__ import annotations

from penstock.pipeline.source.errors import SourceError, SourceOptionError

__all__ = ["SinkError", "SinkOptionError", "TornError"]


class SinkOptionError(SourceOptionError):
    """An option or a column that cannot be."""


class SinkError(SourceError):
    """A row that is no message, a broker that refuses or stays away, or staged rows that are damaged."""


class TornError(SinkError):
    """A broker has taken some rows and refused others before them: their numbers would be taken for sent."""
