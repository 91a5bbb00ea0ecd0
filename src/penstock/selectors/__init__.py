"""The selector language: parses text to a predicate normal form, and tells which selector covers which.

Read ``text`` (which notation is it), ``parser`` and ``padres`` (text to syntax tree), ``normal_form`` (tree to
conjunctions of ``constraint``s), then ``selector`` (what everybody else uses) and ``builder`` (the same from Python).
"""

from __future__ import annotations

from penstock.selectors.builder import attr
from penstock.selectors.errors import SelectorError, SelectorTooLargeError
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import EVERYTHING, NOTHING, Selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Conjunction",
    "Selector",
    "SelectorError",
    "SelectorTooLargeError",
    "attr",
]
