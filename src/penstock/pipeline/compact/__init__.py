"""Compacts histories in the lake: a few full filters instead of many half-empty ones ([Tracking] section 7)."""

from __future__ import annotations

from penstock.pipeline.compact.job import CompactSummary, compact_histories
from penstock.pipeline.compact.merging import Compacted, compacted

__all__ = ["CompactSummary", "Compacted", "compact_histories", "compacted"]
