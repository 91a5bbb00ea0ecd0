"""Errors in policies, and in messages of the control channel ([Ajil] sections 3.1 and 4).

PenstockError
├── MisuseError
│   └── AupError         an acceptable-use policy that cannot work
└── PeerError
    └── MalformedError   a malformed message of the control channel
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PeerError

__all__ = ["AupError", "MalformedError"]


class AupError(MisuseError):
    """An acceptable-use policy that cannot work."""


class MalformedError(PeerError):
    """A malformed message of the control channel."""
