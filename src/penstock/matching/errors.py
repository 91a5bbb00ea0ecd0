"""Errors in the use of an index.

MisuseError
└── SubscriptionError    a number that is taken, unknown, or out of range
"""

from __future__ import annotations

from penstock.model.errors import MisuseError

__all__ = ["SubscriptionError"]


class SubscriptionError(MisuseError):
    """A subscription's number is taken, unknown, or out of range."""
