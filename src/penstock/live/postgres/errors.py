"""The errors of a database as such; what it says of a store are the errors of stores.

PenstockError
└── DatabaseError
    └── DatabaseUnreachableError    no server of the url is a primary that answers
"""

from __future__ import annotations

from penstock.model.errors import PenstockError

__all__ = ["DatabaseError", "DatabaseUnreachableError"]


class DatabaseError(PenstockError):
    """The database refused something, or did not answer in time."""


class DatabaseUnreachableError(DatabaseError):
    """No server of the url is a primary that answers."""
