"""The types an attribute can have, and the rules for comparing them (JMS 2.0 section 3.8, with SQL-92 strings)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["RESERVED_PREFIX", "AttributeValue", "Attributes", "Scalar"]

Scalar: TypeAlias = str | int | float | bool
"""A value that is there: text, integer, float or boolean."""

AttributeValue: TypeAlias = Scalar | None
"""A scalar, or null; a null attribute and an absent one are the same to every selector."""

Attributes: TypeAlias = Mapping[str, AttributeValue]
"""What selectors look at: names with their values."""

RESERVED_PREFIX: Final = "$"
"""Attributes whose name starts so belong to the system; applications may select by them but not set them."""
