"""Matching: which subscriptions match a message, which cover each other, and the covering set of them all."""

from __future__ import annotations

from penstock.matching.covering import covered_by, coverers_of
from penstock.matching.covering_set import CoveringChange, CoveringSet
from penstock.matching.errors import SubscriptionError
from penstock.matching.index import Matches, MatchIndex

__all__ = [
    "CoveringChange",
    "CoveringSet",
    "MatchIndex",
    "Matches",
    "SubscriptionError",
    "covered_by",
    "coverers_of",
]
