"""Errors in the bytes and frames that peers send.

PeerError
└── ProtocolError      bytes or frames that the protocol does not allow here; the connection is closed
"""

from __future__ import annotations

from penstock.model.errors import PeerError

__all__ = ["ProtocolError"]


class ProtocolError(PeerError):
    """The peer broke a rule of the protocol; only its own connection is affected."""
