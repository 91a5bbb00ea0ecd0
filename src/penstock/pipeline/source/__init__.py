"""Reads messages of an overlay as Spark rows: format ``penstock``, for batches and for streams.

Read ``source`` (Spark's entry point), ``options`` and ``positions`` (user input), ``batch`` and ``stream`` (the two
ways to read), ``offsets``, ``planning`` and ``probing`` (which ticks), ``reading`` and ``decoding`` (ticks to rows).
"""

from __future__ import annotations

from penstock.pipeline.source.errors import SourceError, SourceOptionError
from penstock.pipeline.source.offsets import lag_of
from penstock.pipeline.source.source import PenstockSource

__all__ = ["PenstockSource", "SourceError", "SourceOptionError", "lag_of"]
