"""The earliest of many deadlines: asked after every turn, so as plain as can be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["earliest"]


def earliest(deadlines: Iterable[int | None]) -> int | None:
    """The lowest that is there; none if there is none."""
    found = None
    for each in deadlines:
        if each is not None and (found is None or each < found):
            found = each
    return found
