from __future__ import annotations

from penstock.ajil.errors import AupError, MalformedError
from penstock.model.errors import MisuseError, PeerError


def test_a_bad_policy_is_misuse_and_a_bad_message_the_fault_of_a_peer() -> None:
    assert issubclass(AupError, MisuseError)
    assert issubclass(MalformedError, PeerError)
