"""Spark rows as messages of an overlay: format ``penstock``, written by batches and by streams, exactly once.

Read ``writing`` (what Spark calls), ``options`` and ``rows`` (what users say and bring), ``staging`` (rows until they
count), ``journal`` and ``committing`` (when they do), ``publishing`` (how they reach the overlay).
"""

from __future__ import annotations

from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.writing import PenstockStreamWriter, PenstockWriter

__all__ = ["PenstockStreamWriter", "PenstockWriter", "SinkError", "SinkOptionError"]
