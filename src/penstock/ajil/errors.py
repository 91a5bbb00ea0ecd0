"""What can be wrong with a policy, or with what arrives on the control channel ([Ajil] sections 3.1 and 4).

PenstockError
├── MisuseError
│   └── AupError         an acceptable-use policy that cannot work
└── PeerError
    └── MalformedError   a message of the control channel that is none
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PeerError

__all__ = ["AupError", "MalformedError"]


class AupError(MisuseError):
    """An acceptable-use policy that cannot work."""


class MalformedError(PeerError):
    """A message of the control channel that is none."""
