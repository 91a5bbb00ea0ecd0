"""The bulk trace: finds the ways of millions of messages from what brokers have shipped ([Tracking] section 3.3).

From the inside out: ``slices`` (filters asked 64 at a time), ``timeline`` (which filters cover which time), ``stored``
(the live trace on a lake); ``ways``, ``paths``, ``deliveries`` and ``group`` (the trace of blocks of messages); ``job``
(frames) and ``running`` (from ids to results).
"""

from __future__ import annotations

from penstock.pipeline.trace.job import placed_ids, prepare, told_receivers, told_ways, traced_ids
from penstock.pipeline.trace.running import TraceOptions, TraceSummary, run_trace

__all__ = [
    "TraceOptions",
    "TraceSummary",
    "placed_ids",
    "prepare",
    "run_trace",
    "told_receivers",
    "told_ways",
    "traced_ids",
]
