"""The types an attribute can have, and the rules for comparing them (JMS 2.0 section 3.8, with SQL-92 strings)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = [
    "CONVERSING",
    "FAILED",
    "REPLY",
    "REPLY_TO",
    "REQUEST",
    "RESERVED_PREFIX",
    "AttributeValue",
    "Attributes",
    "Scalar",
]

Scalar: TypeAlias = str | int | float | bool
"""A value other than null: text, integer, float or boolean."""

AttributeValue: TypeAlias = Scalar | None
"""A scalar or null; every selector treats a null attribute like an absent one."""

Attributes: TypeAlias = Mapping[str, AttributeValue]
"""Attribute values by name, which selectors are evaluated on."""

RESERVED_PREFIX: Final = "$"
"""Attributes whose names start with this belong to the system; applications may select by them but not set them."""

REQUEST: Final = "$request"
"""The identifier of a request, in the request and in its replies."""
REPLY_TO: Final = "$reply_to"
"""The address to which a request is to be answered."""
REPLY: Final = "$reply"
"""The address to which a reply goes."""
FAILED: Final = "$failed"
"""Why a request failed, in its reply."""
CONVERSING: Final = frozenset((REQUEST, REPLY_TO, REPLY, FAILED))
"""Reserved attributes of ordinary messages: client libraries set them for requests and replies."""
