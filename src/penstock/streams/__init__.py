"""Knowledge streams: which broker knows which of a pubend's ticks, and what it asks for ([Gryphon] section 2).

Decision record 5 explains how the broker puts these parts together.
"""

from __future__ import annotations

from penstock.streams.cache import KnowledgeCache
from penstock.streams.consolidation import NackBook
from penstock.streams.edge_stream import EdgeSettings, EdgeStream
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
