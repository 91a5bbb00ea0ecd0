"""Knowledge streams: what is known of a pubend's ticks, where, and what to ask for ([Gryphon] section 2).

Decision record 5 says how the broker puts these parts together.
"""

from __future__ import annotations

from penstock.streams.cache import KnowledgeCache
from penstock.streams.consolidation import NackBook
from penstock.streams.edge import EdgeSettings, EdgeStream
from penstock.streams.knowledge import COMPLETE, Knowledge
from penstock.streams.nacks import NackSettings, NackWindow

__all__ = [
    "COMPLETE",
    "EdgeSettings",
    "EdgeStream",
    "Knowledge",
    "KnowledgeCache",
    "NackBook",
    "NackSettings",
    "NackWindow",
]
