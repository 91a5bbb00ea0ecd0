from __future__ import annotations

import pytest

from penstock.session.address import Address, parse_addresses
from penstock.session.errors import AddressError


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("penstock://127.0.0.1:7001", [Address("127.0.0.1", 7001)]),
        ("penstock://sb1", [Address("sb1", 7000)]),
        ("penstock://sb1/", [Address("sb1", 7000)]),
        ("penstocks://sb1:1", [Address("sb1", 1, tls=True)]),
        ("penstock://[::1]:7001", [Address("::1", 7001)]),
        ("penstock://[::1]", [Address("::1", 7000)]),
        ("penstocks://a:1, b:2", [Address("a", 1, tls=True), Address("b", 2, tls=True)]),
        ("penstocks://a:1,penstock://b:2", [Address("a", 1, tls=True), Address("b", 2)]),
    ],
)
def test_addresses_are_understood(text: str, addresses: list[Address]) -> None:
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "does not begin with penstock://"),
        ("localhost:7000", "does not begin with penstock://"),
        ("http://localhost", "begins with 'http'"),
        ("penstock://", "has no host"),
        ("penstock://a:7000,", "has no host"),
        ("penstock://me@a:7000", "has no host that could be looked up"),
        ("penstock://::1", "write an IPv6 address as"),
        ("penstock://a:0", "port '0'"),
        ("penstock://a:65536", "port '65536'"),
        ("penstock://a:x", "port 'x'"),
        ("penstock://a:²", "port '²'"),
    ],
)
def test_what_is_no_address_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(AddressError, match=complaint):
        parse_addresses(text)


def test_an_address_reads_as_it_is_written() -> None:
    for text in ("penstock://sb1:7000", "penstocks://[::1]:7443"):
        assert str(*parse_addresses(text)) == text
