"""The types an attribute can have, and the rules for comparing them (JMS 2.0 section 3.8, with SQL-92 strings)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["RESERVED_PREFIX", "AttributeValue", "Attributes", "Scalar"]

Scalar: TypeAlias = str | int | float | bool
"""A value other than null: text, integer, float or boolean."""

AttributeValue: TypeAlias = Scalar | None
"""A scalar or null; every selector treats a null attribute like an absent one."""

Attributes: TypeAlias = Mapping[str, AttributeValue]
"""Attribute values by name, which selectors are evaluated on."""

RESERVED_PREFIX: Final = "$"
"""Attributes whose names start with this belong to the system; applications may select by them but not set them."""
