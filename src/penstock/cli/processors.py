"""Counts the processors that can share work."""

from __future__ import annotations

import os

__all__ = ["processors"]


def processors() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
