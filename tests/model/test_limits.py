"""The limits, which all brokers of an overlay share: changing one is a change of the protocol."""

from __future__ import annotations

import sys

from penstock.model import limits


def test_integers_are_64_bits_with_the_sign() -> None:
    assert int.from_bytes(b"\x80" + bytes(7), "big", signed=True) == limits.INTEGER_MIN
    assert int.from_bytes(b"\x7f" + b"\xff" * 7, "big", signed=True) == limits.INTEGER_MAX


def test_every_public_limit_is_an_integer_and_every_maximum_is_positive() -> None:
    for name in limits.__all__:
        value = getattr(limits, name)
        assert type(value) is int
        assert value > 0 or name.endswith("_MIN")


def test_no_limit_on_messages_changes_unnoticed_since_brokers_must_agree_on_them() -> None:
    assert limits.ATTRIBUTES_MAX == 256
    assert limits.CONTENT_TYPE_CHARS_MAX == 255
    assert limits.NAME_CHARS_MAX == 255
    assert limits.PAYLOAD_BYTES_MAX == 8_388_608
    assert limits.STRING_CHARS_MAX == 65_536


def test_the_limits_on_selectors_fit_together() -> None:
    # A node takes a character at least, and the parser recurses within Python's own bound.
    assert limits.SELECTOR_CONJUNCTIONS_MAX <= limits.SELECTOR_NODES_MAX <= limits.SELECTOR_CHARS_MAX
    assert limits.SELECTOR_DEPTH_MAX < limits.SELECTOR_NODES_MAX
    assert sys.getrecursionlimit() > limits.SELECTOR_DEPTH_MAX * 8
