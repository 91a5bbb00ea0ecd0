"""Values of an attribute as keys: two messages have the same key if a selector would call their values equal."""

from __future__ import annotations

from math import isnan
from typing import TypeAlias

from penstock.model.values import AttributeValue, Scalar

__all__ = ["Key", "key_of"]

Key: TypeAlias = tuple[str, Scalar]
"""A value as a key; booleans are told from numbers, as selectors do, and all that is not a number is one value."""


def key_of(value: AttributeValue) -> Key:
    """The key of a message whose attribute has this value.

    >>> key_of(1) == key_of(1.0), key_of(1) == key_of(True)
    (True, False)
    """
    assert value is not None
    if isinstance(value, float) and isnan(value):
        return "nan", 0
    return ("bool" if isinstance(value, bool) else ""), value
