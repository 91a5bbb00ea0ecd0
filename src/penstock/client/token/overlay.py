"""A carrier for members that find each other through an overlay: each has a client, and they publish to each other.

Clients may not publish into the reserved space, so these are ordinary publications, with attributes that access rules
can refer to: ``token_group``, ``token_to`` (a member, or ``*`` for all) and ``token_from``. A best-effort pubend is
enough. Members say hello every now and then; a member that has been silent for too long counts as gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.client.client import Client
from penstock.client.subscription import Subscription
from penstock.client.token.carrier import Receiver, checked_name
from penstock.client.token.durations import duration_ms
from penstock.model.errors import PenstockError
from penstock.session.errors import ClientError

__all__ = ["ThroughOverlay"]

_EVERYBODY: Final = "*"
_HELLO, _BYE = b"hello", b"bye"
_MISSED: Final = 3.5
"""A member that has missed this many hellos counts as gone."""
_MEMBERS_MAX: Final = 100_000


class ThroughOverlay:
    """A carrier over the overlay of an open client."""

    def __init__(self, client: Client, *, name: str = "", pubend: str = "", presence: str | float = "1 s") -> None:
        self.name = checked_name(name or client.name, "member")
        self._client, self._pubend = client, pubend
        self._presence_s = duration_ms(presence, "presence") / 1_000
        self._seen_s: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._group = ""
        self.dropped = 0
        """Messages dropped because the client could not take them at once."""

    async def open(self, group: str, receiver: Receiver) -> None:
        """Join the group: subscribe to messages for this member and for all, and say hello."""
        self._group = checked_name(group, "group")
        selector = f"token_group = '{group}' AND (token_to = '{self.name}' OR token_to = '{_EVERYBODY}')"
        subscription = self._client.subscribe(selector)
        await subscription.ready()
        self._tasks = [
            asyncio.create_task(self._read(subscription, receiver), name=f"token {group}: read"),
            asyncio.create_task(self._greet(receiver), name=f"token {group}: greet"),
        ]

    def send(self, to: str, payload: bytes) -> None:
        """Publish to one member, or to all."""
        attributes = {"token_group": self._group, "token_to": to, "token_from": self.name}
        try:
            self._client.publish_nowait(attributes, payload, pubend=self._pubend)
        except ClientError:
            # Not connected, or no room: to the members it is a message lost on the way.
            self.dropped += 1

    async def close(self) -> None:
        """Say goodbye, and stop listening."""
        if self._tasks:
            self.send(_EVERYBODY, _BYE)
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, PenstockError):
                await task
        self._tasks = []

    async def _greet(self, receiver: Receiver) -> None:
        while True:
            self.send(_EVERYBODY, _HELLO)
            now_s = asyncio.get_running_loop().time()
            gone = [name for name, seen_s in self._seen_s.items() if now_s - seen_s > _MISSED * self._presence_s]
            for name in gone:
                del self._seen_s[name]
            receiver.on_members([self.name, *self._seen_s])
            await asyncio.sleep(self._presence_s)

    async def _read(self, subscription: Subscription, receiver: Receiver) -> None:
        async for message in subscription:
            sender = message.attributes.get("token_from")
            if isinstance(sender, str) and sender != self.name:
                self._on_message(sender, bytes(message.payload), receiver, asyncio.get_running_loop().time)

    def _on_message(self, sender: str, payload: bytes, receiver: Receiver, time: Callable[[], float]) -> None:
        if payload == _BYE:
            self._seen_s.pop(sender, None)
            receiver.on_members([self.name, *self._seen_s])
            return
        if sender not in self._seen_s:
            if len(self._seen_s) >= _MEMBERS_MAX:
                return
            self._seen_s[sender] = time()
            receiver.on_members([self.name, *self._seen_s])
        self._seen_s[sender] = time()
        if payload != _HELLO:
            receiver.on_message(sender, payload)
