from __future__ import annotations

import socket

import pytest

from penstock.live.errors import ConfigError
from penstock.live.multicast.address import GroupAddress, interface_number, receiving_socket, sending_socket


@pytest.mark.parametrize(
    ("text", "group"),
    [("239.1.2.3:5000", GroupAddress("239.1.2.3", 5000)), (" [ff15::1]:80 ", GroupAddress("ff15::1", 80))],
)
def test_groups_are_read_as_people_write_them(text: str, group: GroupAddress) -> None:
    assert GroupAddress.parse(text) == group
    assert str(group) == text.strip()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("10.0.0.1:5000", "is not a multicast address"),
        ("[::1]:5000", "is not a multicast address"),
        ("239.1.2.3", "is not a group"),
        ("239.1.2.3:", "has no port"),
        ("239.1.2.3:70000", "has no port"),
        ("news:5000", "is not a group"),
        ("", "is not a group"),
    ],
)
def test_what_is_no_group_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        GroupAddress.parse(text)


def test_an_interface_that_is_not_there_is_refused() -> None:
    assert interface_number("") == 0
    assert interface_number("lo") > 0
    with pytest.raises(ConfigError, match=r"there is no interface 'nowhere', only .*lo"):
        interface_number("nowhere")


def test_what_is_sent_to_a_group_arrives_at_all_who_joined_it() -> None:
    group = GroupAddress("239.77.3.1", 7781)
    with (
        receiving_socket(group, "lo") as one,
        receiving_socket(group, "lo") as two,
        receiving_socket(GroupAddress("239.77.3.2", 7781), "lo") as other,
        sending_socket(socket.AF_INET, "lo", hops=1) as sender,
    ):
        sender.sendto(b"hello", group.target(interface_number("lo")))
        for each in (one, two):
            each.settimeout(5)
            assert each.recv(100) == b"hello"
        with pytest.raises(BlockingIOError):
            other.recv(100)
