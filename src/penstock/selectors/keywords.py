"""The reserved words of the selector language (JMS 2.0 section 3.8.1.1)."""

from __future__ import annotations

from typing import Final

__all__ = ["KEYWORDS"]

KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"},
)
"""Upper case; a name that is one of these, in any case, must be written in double quotes."""
