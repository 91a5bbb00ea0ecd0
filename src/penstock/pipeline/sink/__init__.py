"""Publishes Spark rows as messages of an overlay: format ``penstock``, for batches and streams, exactly once.

Read ``writing`` (what Spark calls), ``options`` and ``rows`` (user input), ``staging`` (rows before they are
committed), ``journal`` and ``committing`` (the commit), ``publishing`` (how rows reach the overlay).
"""

from __future__ import annotations

from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.writing import PenstockStreamWriter, PenstockWriter

__all__ = ["PenstockStreamWriter", "PenstockWriter", "SinkError", "SinkOptionError"]
