"""Members of a group that find each other through an overlay: each has a client, and they publish to each other.

Clients may not publish into the reserved space, so that these are ordinary publications, with attributes that access
rules can speak of: ``token_group``, ``token_to`` (a member, or ``*`` for all) and ``token_from``. A best-effort pubend
is enough. Members say every now and then that they are there; who has not for long is gone.
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
"""Who has not said hello for so many times is gone."""
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
        """Messages that the client could not take at once."""

    async def open(self, group: str, receiver: Receiver) -> None:
        """Join the group: hear what is said to this member and to all, and say hello."""
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
            # Not connected, or no room: lost on the way, as far as the members are concerned.
            self.dropped += 1

    async def close(self) -> None:
        """Say goodbye, and hear no more."""
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
