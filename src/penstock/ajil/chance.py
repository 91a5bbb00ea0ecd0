"""Independent chances, each of its own probability, with few numbers drawn ([Ajil] section 3.1: who reports on what).

Most probabilities are small. Instead of a number for each, the distance to the next one that would come up at the
highest probability is drawn, and that one is kept by the ratio of its own probability to the highest.
"""

from __future__ import annotations

from math import log, log1p

import numpy as np

from penstock.ajil.amounts import Floats, Indices
from penstock.model.ports import Rng

__all__ = ["drawn"]


def drawn(chances: Floats, rng: Rng) -> Indices:
    """The places that come up; each with its chance, independently of the others."""
    highest = float(chances.max()) if len(chances) else 0.0
    if highest <= 0:
        return np.zeros(0, dtype=np.int64)
    # At 1 every place comes up: there are no distances to draw.
    step = log1p(-highest) if highest < 1 else None
    found: list[int] = []
    place = -1
    while True:
        place += 1 if step is None else 1 + int(min(log(1.0 - rng.random()) / step, len(chances)))
        if place >= len(chances):
            return np.array(found, dtype=np.int64)
        if rng.random() * highest < chances[place]:
            found.append(place)
