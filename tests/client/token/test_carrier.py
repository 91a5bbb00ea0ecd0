"""Names of members and groups, and the carrier of a member alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.client.token.carrier import Alone, checked_name
from penstock.model.errors import MisuseError


class Listener:
    def __init__(self) -> None:
        self.members: list[str] = []
        self.messages: list[tuple[str, bytes]] = []

    def on_message(self, sender: str, payload: bytes) -> None:
        self.messages.append((sender, payload))

    def on_members(self, members: Sequence[str]) -> None:
        self.members = list(members)


def test_a_member_alone_knows_itself_only() -> None:
    async def scenario() -> None:
        listener, carrier = Listener(), Alone("me")
        await carrier.open("g", listener)
        carrier.send("other", b"x")
        await carrier.close()
        assert (listener.members, listener.messages) == (["me"], [])

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", "a b", "it's", "x" * 101, "a\n"])
def test_names_that_would_break_a_selector_are_refused(name: str) -> None:
    with pytest.raises(MisuseError, match="group"):
        checked_name(name, "group")
    assert checked_name("host-1.example:9000", "member") == "host-1.example:9000"
