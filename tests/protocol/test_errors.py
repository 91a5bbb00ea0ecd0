"""The errors of the broker: all are the fault of a peer."""

from __future__ import annotations

from penstock.model.errors import MisuseError, PeerError
from penstock.protocol import errors
from penstock.protocol.errors import ProtocolError


def test_a_protocol_error_is_the_fault_of_the_peer_and_not_of_the_caller() -> None:
    assert issubclass(ProtocolError, PeerError)
    assert not issubclass(ProtocolError, MisuseError)


def test_every_error_of_the_broker_is_a_peer_error() -> None:
    assert errors.__all__ == ["ProtocolError"]
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), PeerError)
