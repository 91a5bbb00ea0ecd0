"""A failure to ship is a failure, not a mistake of whoever asked."""

from __future__ import annotations

from penstock.live.shipping.errors import ShipError
from penstock.model.errors import MisuseError, PenstockError


def test_it_is_a_failure_and_no_misuse() -> None:
    assert issubclass(ShipError, PenstockError)
    assert not issubclass(ShipError, MisuseError)
