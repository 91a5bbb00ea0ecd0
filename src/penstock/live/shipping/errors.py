"""What can go wrong when a broker ships.

PenstockError
└── ShipError    the lake, or the ledger beside the store, cannot be written at present; all that waits is kept
"""

from __future__ import annotations

from penstock.model.errors import PenstockError

__all__ = ["ShipError"]


class ShipError(PenstockError):
    """The lake or the ledger cannot be written; what waits is shipped when it can."""
