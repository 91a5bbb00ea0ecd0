"""Versions of STOMP: which one two sides agree on. And the commands there are."""

from __future__ import annotations

import pytest

from penstock.protocol.stomp.frames import BODY_COMMANDS, CLIENT_COMMANDS, SERVER_COMMANDS, Version, choose_version


@pytest.mark.parametrize(
    ("accept_version", "chosen"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.0,1.1,2.0", "1.1"),
        ("1.2,1.1,1.0", "1.2"),
        ("1.1, 1.2", "1.2"),
        ("1.1,1.1", "1.1"),
        ("2.0", None),
        ("", None),
        (",", None),
        ("1", None),
        ("1.20", None),
        ("1.1;1.2", None),
    ],
)
def test_the_highest_common_version_is_chosen(accept_version: str | None, chosen: str | None) -> None:
    assert choose_version(accept_version) == (chosen and Version(chosen))


def test_a_client_that_names_no_version_speaks_1_0() -> None:
    assert choose_version(None) is Version.V1_0


def test_a_version_reads_as_it_stands_in_a_header() -> None:
    assert [str(version) for version in Version] == ["1.0", "1.1", "1.2"]


def test_clients_and_servers_have_no_command_in_common() -> None:
    assert not CLIENT_COMMANDS & SERVER_COMMANDS
    assert BODY_COMMANDS < CLIENT_COMMANDS | SERVER_COMMANDS
