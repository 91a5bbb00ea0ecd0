"""The root of the exceptions, and what a limit says when it is broken."""

from __future__ import annotations

import pytest

from penstock.model import errors
from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PeerError, PenstockError


def test_everything_that_is_raised_on_purpose_is_a_penstock_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), PenstockError)


def test_misuse_by_the_caller_and_faults_of_the_peer_are_kept_apart() -> None:
    assert issubclass(LimitError, MisuseError)
    assert issubclass(InvalidMessageError, MisuseError)
    assert not issubclass(PeerError, MisuseError)
    assert not issubclass(MisuseError, PeerError)


def test_a_limit_error_says_what_is_over_which_limit_and_keeps_the_numbers() -> None:
    error = LimitError("the number of attributes", 1_234, 256)
    assert str(error) == "the number of attributes is 1,234, over the limit of 256"
    assert (error.what, error.actual, error.allowed) == ("the number of attributes", 1_234, 256)


def test_a_broken_invariant_is_not_a_penstock_error() -> None:
    assert not issubclass(AssertionError, PenstockError)
    with pytest.raises(PenstockError):
        raise PeerError("frame 7 has no length")
