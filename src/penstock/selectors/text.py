"""Parses a selector in either of the two notations."""

from __future__ import annotations

from penstock.selectors.ast import Condition
from penstock.selectors.padres import parse_padres
from penstock.selectors.parser import parse_sql

__all__ = ["parse"]


def parse(text: str) -> Condition:
    """The condition of the text: in PADRES form if it starts with ``[``, which no SQL selector does, else in SQL."""
    return parse_padres(text) if text.lstrip().startswith("[") else parse_sql(text)
