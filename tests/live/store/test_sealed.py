"""Values behind a checksum."""

from __future__ import annotations

import pytest

from penstock.live.store.sealed import seal, unseal


@pytest.mark.parametrize("value", [b"", b"x", bytes(10_000)])
def test_a_value_is_found_again_under_its_name_only(value: bytes) -> None:
    stored = seal("näme", value)
    assert unseal("näme", stored) == value
    assert unseal("name", stored) is None


def test_any_other_bytes_are_damaged() -> None:
    stored = seal("n", b"value")
    for place in range(len(stored)):
        assert unseal("n", stored[:place] + bytes([stored[place] ^ 4]) + stored[place + 1 :]) is None
        assert unseal("n", stored[:place]) is None
    assert unseal("n", stored + b"0") is None


@pytest.mark.parametrize("stored", [None, 7, "text", b""])
def test_what_is_no_sealed_value_is_damaged(stored: object) -> None:
    assert unseal("n", stored) is None
