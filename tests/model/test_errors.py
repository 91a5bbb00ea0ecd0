"""The root of the exceptions, and what a limit says when it is broken."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from penstock.model import errors
from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PeerError, PenstockError, plainly


def test_everything_that_is_raised_on_purpose_is_a_penstock_error() -> None:
    kinds = [each for name in errors.__all__ if isinstance(each := getattr(errors, name), type)]
    assert kinds
    assert all(issubclass(each, PenstockError) for each in kinds)


def test_misuse_by_the_caller_and_faults_of_the_peer_are_kept_apart() -> None:
    assert issubclass(LimitError, MisuseError)
    assert issubclass(InvalidMessageError, MisuseError)
    assert not issubclass(PeerError, MisuseError)
    assert not issubclass(MisuseError, PeerError)


def test_a_limit_error_says_what_is_over_which_limit_and_keeps_the_numbers() -> None:
    error = LimitError("the number of attributes", 1_234, 256)
    assert str(error) == "the number of attributes is 1,234, over the limit of 256"
    assert (error.what, error.actual, error.allowed) == ("the number of attributes", 1_234, 256)


@pytest.mark.parametrize(
    ("decode", "kind", "words"),
    [
        (b"\xff".decode, UnicodeDecodeError, "a text in it is not UTF-8"),
        (lambda: struct.unpack(">Q", b"short"), struct.error, "it ends too soon"),
        (lambda: msgspec.msgpack.decode(b"\x91" * 100_000), RecursionError, "it is nested too deeply"),
        (partial(operator.add, 1, ""), TypeError, "it has fields that are unknown or missing"),
        (lambda: msgspec.msgpack.decode(b"\x91"), msgspec.DecodeError, "Input data was truncated"),
    ],
)
def test_what_a_decoder_complains_of_is_said_without_words_of_python(
    decode: Callable[[], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as caught:
        decode()
    assert plainly(caught.value) == words


def test_a_broken_invariant_is_not_a_penstock_error() -> None:
    assert not issubclass(AssertionError, PenstockError)
    with pytest.raises(PenstockError):
        raise PeerError("frame 7 has no length")
