"""Lists the campaigns of this package by name, and how much each throws for one seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from bench.edge_fuzz.frames import FRAMES_PER_SEED, frames_inside
from bench.edge_fuzz.overlay_files import FILES_PER_SEED, overlay_files_inside
from bench.edge_fuzz.selectors import SELECTORS_PER_SEED, selectors_inside
from bench.edge_fuzz.stomp import INPUTS_PER_SEED, stomp_inside
from bench.edge_fuzz.stores import STORES_PER_SEED, stores_inside

__all__ = ["EDGES", "THROWN"]

EDGES: Final[dict[str, Callable[[Random], object]]] = {
    "edge-frames": frames_inside,
    "edge-stomp": stomp_inside,
    "edge-selectors": selectors_inside,
    "edge-files": overlay_files_inside,
    "edge-stores": stores_inside,
}
THROWN: Final = {
    "edge-frames": (FRAMES_PER_SEED, "frames"),
    "edge-stomp": (INPUTS_PER_SEED, "STOMP frames"),
    "edge-selectors": (SELECTORS_PER_SEED, "selectors"),
    "edge-files": (FILES_PER_SEED, "overlay files"),
    "edge-stores": (STORES_PER_SEED, "damaged stores"),
}
"""How many inputs of which kind one seed throws, by campaign."""
