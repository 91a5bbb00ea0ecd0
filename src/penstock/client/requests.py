"""Requests and replies between applications, made of ordinary messages and subscriptions.

A request is a message that says where to reply: an address that only this client has. The client subscribes to its own
address at its first request, and keeps that subscription. Everybody who serves such requests gets it; the first reply
counts. Nothing is sent again: whoever asked decides whether to ask once more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol

from penstock.client.subscription import Subscription
from penstock.model.body import decode_attributes, encode_message
from penstock.model.errors import MisuseError
from penstock.model.message import Message, Payload
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.model.values import FAILED, REPLY, REPLY_TO, REQUEST, Attributes, AttributeValue
from penstock.protocol.frames import Frame, InterestReply, InterestRequest
from penstock.session.changes import Reply
from penstock.session.errors import (
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    NobodyServesError,
    RequestFailedError,
    RequestTimeoutError,
)
from penstock.session.publishing import PubendPlace
from penstock.session.received import Received

__all__ = ["PENDING_MAX", "Request", "Requests", "Serving", "chosen_pubend", "serving_selector"]

PENDING_MAX: Final = 1_000
"""Requests that may wait for replies; more wait for their turn, within their timeouts."""


class Party(Protocol):
    """What requests and replies need from a client."""

    @property
    def broker(self) -> str:
        """The broker that the client is connected to."""

    @property
    def pubends(self) -> Mapping[str, PubendPlace]:
        """The pubends of the overlay."""

    @property
    def end(self) -> ClientError | None:
        """Why the client has stopped; None while it is usable."""

    def subscribe(self, selector: str, *, pubends: Iterable[str] | None = None) -> Subscription:
        """Ask for the messages that match."""

    def publish_content(self, content: bytes, pubend: str) -> Coroutine[Any, Any, MessageId]:
        """Send an encoded message."""

    def ask(self, question: Callable[[int], Frame]) -> Awaitable[Reply]:
        """Ask the broker."""


class Requests:
    """The requests of one client that wait for replies."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self._address = secrets.token_hex(12)
        self._last = 0
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        self._turns = asyncio.Semaphore(PENDING_MAX)
        self._replies: Subscription | None = None
        self._reading: asyncio.Task[None] | None = None
        self.late = 0
        """Replies that nobody waited for any more: to requests that were answered, or timed out."""

    async def request(
        self, attributes: Attributes, payload: Payload, content_type: str, pubend: str, timeout_s: float
    ) -> Received:
        """Publish a request and wait for the first reply."""
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise MisuseError(f"timeout {timeout_s!r} is not a positive number of seconds")
        # Checked first: an application must not set what is reserved.
        plain = Message(attributes, payload, content_type)
        try:
            async with asyncio.timeout(timeout_s), self._turns:
                await self._replies_ready()
                return await self._ask(plain, pubend)
        except TimeoutError:
            raise RequestTimeoutError(f"no reply within {timeout_s:g} s") from None

    async def _ask(self, plain: Message, pubend: str) -> Received:
        self._last += 1
        number = f"{self._address}-{self._last}"
        marked = {**plain.attributes, REQUEST: number, REPLY_TO: self._address}
        message = Message.system(marked, plain.payload, plain.content_type)
        where = pubend or chosen_pubend(self._party)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        # Beside the message, so that those who are served do not wait for it.
        asking = asyncio.ensure_future(self._is_nobody_there(message, where))
        try:
            await self._party.publish_content(encode_message(message), where)
            await asyncio.wait([waiting, asking], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and asking.result():
                raise NobodyServesError("nobody has a subscription that wants this request")
            reply: Received = await waiting
        finally:
            self._waiting.pop(number, None)
            asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled():
                # Retrieved, or asyncio complains that it never was.
                asking.exception()
            if waiting.done() and not waiting.cancelled():
                waiting.exception()
        reason = decode_attributes(reply.body).get(FAILED)
        if reason is not None:
            raise RequestFailedError(str(reason))
        return reply

    async def _is_nobody_there(self, message: Message, pubend: str) -> bool:
        """Whether the broker is sure that nobody wants the message; False if it cannot tell."""
        # All but the payload, which no broker looks into.
        body = bytes(MESSAGE_ID_BYTES) + encode_message(Message.system(message.attributes))
        with suppress(ClientError):
            answer = await self._party.ask(lambda number: InterestRequest(number, pubend, body))
            assert isinstance(answer, InterestReply), f"not an answer to this: {answer}"
            return answer.is_nobody
        return False

    async def _replies_ready(self) -> None:
        if self._replies is None:
            self._replies = self._party.subscribe(f"{REPLY} = '{self._address}'")
            self._reading = asyncio.create_task(self._read(self._replies), name="penstock: replies")
        await self._replies.ready()

    async def _read(self, replies: Subscription) -> None:
        try:
            async for reply in replies:
                waiting = self._waiting.get(str(decode_attributes(reply.body).get(REQUEST)))
                if waiting is None or waiting.done():
                    self.late += 1
                else:
                    waiting.set_result(reply)
            self.fail(ClientClosedError("this client is closed"))
        except ClientError as error:
            # Refused, or the client has given up: the next request tries again.
            self._replies = None
            self.fail(error)

    def on_lost(self) -> None:
        """The connection is gone: nobody knows whether requests have arrived, and they are not sent again."""
        self.fail(ConnectionFailedError("the connection was lost before a reply came; the request is not sent again"))

    def fail(self, error: ClientError) -> None:
        """Fail all requests that wait."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


class Request:
    """A request to be answered; made by ``client.serve(...)``."""

    def __init__(self, received: Received, party: Party) -> None:
        self._party = party
        self.received: Final = received
        """The message as it came."""
        self.is_answered = False
        """Whether a reply was sent."""

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """Attribute values by name, as the requester gave them."""
        return self.received.attributes

    @property
    def payload(self) -> bytes:
        """The content."""
        return self.received.payload

    @property
    def content_type(self) -> str:
        """The payload's media type; empty if the requester gave none."""
        return self.received.content_type

    async def reply(
        self, attributes: Attributes | None = None, payload: Payload = b"", *, content_type: str = "", pubend: str = ""
    ) -> None:
        """Send the reply, once; returns before it has arrived."""
        await self._send(Message(attributes or {}, payload, content_type), {}, pubend)

    async def fail(self, reason: str, *, pubend: str = "") -> None:
        """Let the request fail: the requester gets a ``RequestFailedError`` with this reason."""
        await self._send(Message({}), {FAILED: reason}, pubend)

    async def _send(self, plain: Message, marks: dict[str, AttributeValue], pubend: str) -> None:
        if self.is_answered:
            raise MisuseError("this request has been answered before")
        self.is_answered = True
        asked = decode_attributes(self.received.body)
        marked = {**plain.attributes, **marks, REPLY: asked.get(REPLY_TO), REQUEST: asked.get(REQUEST)}
        message = Message.system(marked, plain.payload, plain.content_type)
        await self._party.publish_content(encode_message(message), pubend or chosen_pubend(self._party))

    def __repr__(self) -> str:
        return f"<Request {self.attributes}>"


class Serving:
    """The requests that match a selector, to iterate over; made by ``client.serve(...)``."""

    def __init__(self, subscription: Subscription, party: Party) -> None:
        self.subscription: Final = subscription
        """The subscription by which they come."""
        self._party = party

    async def ready(self) -> Serving:
        """Wait until requests come from everywhere; raises ``RefusedError`` if the broker refuses the subscription."""
        await self.subscription.ready()
        return self

    async def close(self) -> None:
        """Serve no more."""
        await self.subscription.close()

    def __aiter__(self) -> Serving:
        return self

    async def __anext__(self) -> Request:
        return Request(await self.subscription.__anext__(), self._party)

    async def __aenter__(self) -> Serving:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.subscription.__aexit__(kind, error, trace)


def serving_selector(selector: str) -> str:
    """The selector of requests that match another one.

    >>> serving_selector("service = 'price' OR service = 'volume'")
    "(service = 'price' OR service = 'volume') AND $reply_to IS NOT NULL"
    """
    return f"({selector}) AND {REPLY_TO} IS NOT NULL"


def chosen_pubend(party: Party) -> str:
    """The pubend for requests and replies: best effort and near, or best effort; empty for the client's choice."""
    loose = [(place.broker != party.broker, name) for name, place in party.pubends.items() if not place.is_guaranteed]
    return min(loose)[1] if loose else ""
