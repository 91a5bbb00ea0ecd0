"""Which texts can be names."""

from __future__ import annotations

import pytest

from penstock.model.names import is_client_name, is_durable_name, is_plain_name


@pytest.mark.parametrize("name", ["b1", "B-1_x.y", "x" * 100])
def test_names_of_brokers_and_pubends(name: str) -> None:
    assert is_plain_name(name)
    assert is_durable_name(name)
    assert is_client_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "ü", "x" * 101, "$b1", "a/b"])
def test_no_names_of_brokers_and_pubends(name: str) -> None:
    assert not is_plain_name(name)


def test_names_of_durable_subscriptions_may_have_parts() -> None:
    assert is_durable_name("team/app:1")
    assert not is_durable_name("team app")
    assert not is_durable_name("x" * 201)


def test_clients_may_have_any_name_that_can_be_read() -> None:
    assert is_client_name("Jürgens Rechner")
    assert is_client_name("")
    assert not is_client_name("a\x1b[31m")
    assert not is_client_name("x" * 201)
