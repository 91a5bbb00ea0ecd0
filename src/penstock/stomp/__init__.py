"""Speaks for STOMP clients: turns their frames into those of the broker's protocol, and answers in theirs.

A STOMP connection is a client like any other to the broker. What a client library does on its side (identities,
sequence numbers, credit, positions, verdicts) is done here by the same code, ``penstock.session``, within the broker's
process. Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from penstock.stomp.peer import StompPeer
from penstock.stomp.rendering import Rendering
from penstock.stomp.settings import StompSettings

__all__ = ["Rendering", "StompPeer", "StompSettings"]
