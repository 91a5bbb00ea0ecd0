from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError, PenstockError
from penstock.session import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_client_error_and_penstocks(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.ClientError)
    assert issubclass(kind, PenstockError)


def test_misuse_is_told_from_bad_luck() -> None:
    assert issubclass(errors.ClientClosedError, MisuseError)
    assert issubclass(errors.AddressError, MisuseError)
    assert not issubclass(errors.ConnectionFailedError, MisuseError)


def test_a_refusal_keeps_the_brokers_reason() -> None:
    error = errors.RefusedError("subscribe", "client bob may not subscribe")
    assert str(error) == "the broker refused to subscribe: client bob may not subscribe"
    assert (error.request, error.reason) == ("subscribe", "client bob may not subscribe")
