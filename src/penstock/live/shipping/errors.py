"""The error of a broker that cannot ship.

PenstockError
└── ShipError    the lake, or the ledger beside the store, cannot be written at present; pending records are kept
"""

from __future__ import annotations

from penstock.model.errors import PenstockError

__all__ = ["ShipError"]


class ShipError(PenstockError):
    """The lake or the ledger cannot be written; pending records are shipped when it can."""
