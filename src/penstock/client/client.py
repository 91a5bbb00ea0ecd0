"""The client for asyncio programs: publish, subscribe, ask for the status, over one connection that heals itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from penstock.client.closing import Closing
from penstock.client.counters import ClientCounters
from penstock.client.flushing import Flushing
from penstock.client.publisher import Publisher
from penstock.client.questions import Questions, forget_durable, status_of_broker
from penstock.client.reading import READ_BYTES, LogPart, LogReading, Survey
from penstock.client.reports import Reports, who_calls
from penstock.client.shell import Shell
from penstock.client.subscription import Subscription
from penstock.client.wanted import Acknowledging, Missing, Start, checked_durable, selector_text, wanted
from penstock.live.forking import tell_after_fork, where_opened
from penstock.model.message import Message, Payload
from penstock.model.message_id import MessageId
from penstock.model.values import Attributes
from penstock.protocol.frames import Frame
from penstock.protocol.status import BrokerStatus
from penstock.session.address import parse_addresses
from penstock.session.changes import Changes, Reply
from penstock.session.errors import (
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    ForkedError,
)
from penstock.session.inbox import Inbox, Lag
from penstock.session.session import Session
from penstock.session.settings import ClientSettings

if TYPE_CHECKING:
    from penstock.selectors.selector import Selector
    from penstock.tracking.answers import Trace

__all__ = ["Client", "connect"]

_log: Final = logging.getLogger("penstock.client")


def connect(
    address: str,
    *,
    token: str = "",
    name: str = "",
    overlay: str = "",
    tls: ssl.SSLContext | None = None,
    settings: ClientSettings | None = None,
) -> Client:
    """A client of the broker at ``penstock://host:port``, or ``penstocks://host:port`` for TLS.

    Several addresses, separated by commas, are tried in turn. The connection is made by ``async with``, or by
    ``open``. A client without a name gets one by chance; an empty overlay means whatever overlay the broker is in;
    without a context of its own, TLS trusts the authorities that the system trusts.

    >>> connect("penstock://127.0.0.1:7000,127.0.0.1:7001", name="ticker")
    <Client ticker of penstock://127.0.0.1:7000,127.0.0.1:7001: not open>

    ::

        async with penstock.connect("penstock://127.0.0.1:7000") as client:
            await client.publish({"symbol": "YHOO", "volume": 100}, b"18.2")
            async for message in client.subscribe("symbol = 'YHOO' and volume > 15"):
                print(message.attributes, message.payload)
    """
    return Client(address, token=token, name=name, overlay=overlay, tls=tls, settings=settings or ClientSettings())


class Client:
    """A connection to a broker, made by ``connect``; not to be shared between threads.

    When the application does not read a subscription and its queue is full, nothing more is read from the connection,
    acknowledgements included. So a task that publishes must not be the one that has to read: read in another task, or
    subscribe with another client.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str,
        name: str,
        overlay: str,
        tls: ssl.SSLContext | None,
        settings: ClientSettings,
    ) -> None:
        self._is_named = bool(name)
        self.name = name or _made_up()
        self._address = address
        self._settings = settings
        self._session = Session(
            settings,
            parse_addresses(address),
            name=self.name,
            publisher=secrets.token_bytes(16),
            chance=Random(),
            token=token,
            overlay=overlay,
        )
        self._shell = Shell(self._session, tls=tls, on_changes=self._on_changes)
        self._closing = Closing(self._session, self._shell, on_closing=self._on_closing)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._questions = Questions()
        self._log_reading = LogReading(self._ask, lambda: self.end, settings.give_up_ms)
        self._news = asyncio.Event()
        self._reports = Reports(self._session.publishing)
        self._publisher = Publisher(self._session, self._shell, self._reports, self._until)
        self._flushing = Flushing(
            self._session, self._shell, self._reports, check_usable=self._check_usable, news=self._news
        )
        self._process = 0
        self.end: ClientError | None = None
        """Why this client does no more; none as long as it does."""
        tell_after_fork(self)

    @property
    def broker(self) -> str:
        """The name of the broker it is connected to, or was last."""
        return self._session.welcome.broker if self._session.welcome else ""

    @property
    def pubends(self) -> tuple[str, ...]:
        """The pubends of that broker, which can be published to."""
        return self._session.welcome.pubends if self._session.welcome else ()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._session.is_up

    @property
    def held_back(self) -> str:
        """Why the broker lets its publishers wait, a full disk for example; empty if it does not."""
        return self._session.held_back

    @property
    def counters(self) -> ClientCounters:
        """What this client has done so far."""
        return ClientCounters.of(self._session)

    # Coming and going.

    async def open(self) -> Client:
        """Connect; raises ``ConnectionFailedError`` if no broker answers, ``RefusedError`` if one says no."""
        self._check_usable()
        if self._loop is not None:
            raise ClientClosedError("this client has been opened before; connect makes another one")
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        try:
            await self._shell.open()
        except BaseException:
            self._stop(ClientClosedError("this client could not connect"))
            raise
        return self

    async def close(self, *, flush: bool = True) -> None:
        """End the connection; with ``flush``, when what was published is acknowledged (raises as ``flush`` does).

        What was read from durable subscriptions is acknowledged; what was read last from each, only with ``flush``.
        However it ends, also by a cancellation, the connection is gone then. Cancelling it once gives up flushing,
        cancelling it again cuts the connection. Another ``close`` waits until the first one has ended. In a process
        that was forked from the one that opened it, nothing happens to the connection.
        """
        if isinstance(self.end, ForkedError):
            return
        try:
            if flush and not isinstance(self.end, ClientClosedError):
                await self._flushing.flush_at_last(self._settings.close_ms)
        finally:
            await self._closing.close(is_done=flush)

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    # Publishing.

    def publish(
        self, attributes: Attributes, payload: Payload = b"", *, content_type: str = "", pubend: str = ""
    ) -> Coroutine[Any, Any, MessageId]:
        """Send a message; waits while the publish window is full, or there is no connection.

        It returns before the broker has acknowledged: that is what ``flush`` waits for.
        """
        self._check_usable()
        return self._publisher.publish(Message(attributes, payload, content_type), pubend, who_calls())

    def publish_nowait(
        self, attributes: Attributes, payload: Payload = b"", *, content_type: str = "", pubend: str = ""
    ) -> MessageId:
        """Send a message now; raises ``WouldBlockError`` if that is not possible."""
        self._check_usable()
        return self._publisher.publish_nowait(Message(attributes, payload, content_type), pubend, who_calls())

    def publish_many(self, messages: Iterable[Message], *, pubend: str = "") -> Coroutine[Any, Any, list[MessageId]]:
        """Send messages in their order."""
        self._check_process()
        return self._publisher.publish_many(messages, pubend, who_calls())

    def flush(self) -> Coroutine[Any, Any, None]:
        """Wait until the broker has acknowledged everything published so far, over as many connections as it takes.

        Raises ``RefusedError`` if it refused messages of the task that calls this, or of a task that has ended, and
        ``ConnectionFailedError`` if such messages were on the wire when a connection was lost and could not be sent
        again, because the next broker was another one or the pubend guarantees nothing: nobody knows whether those
        arrived. Each is told once; messages of other tasks, when those flush.
        """
        self._check_process()
        return self._flushing.flush(who_calls())

    async def held_back_other_than(self, reason: str) -> str:
        """Wait until ``held_back`` is something else than this, and return it: for those who show it to somebody."""
        await self._until(lambda: self.held_back != reason)
        return self.held_back

    # Subscribing.

    def subscribe(
        self,
        selector: str | Selector,
        *,
        start: Start | None = None,
        missing: Missing = "fail",
        durable: str = "",
        acknowledge: Acknowledging = "auto",
    ) -> Subscription:
        """Ask for the messages that match; raises ``SelectorError`` at once if the text is not a selector.

        Begins with what is published from now on; or with the ``earliest`` there is, at a time with a time zone, or at
        a tick of each pubend, as ``Subscription.positions`` of an earlier subscription tells. What is not kept any more
        is refused, unless ``missing`` says to begin with the earliest or latest instead.

        Under a durable name the pubends keep its positions: it goes on where it was when it comes back, at whatever
        broker. There, ``start`` counts where the name is new; a tick of a pubend also where it is further on.
        """
        text = selector_text(selector)
        asked = wanted(text, start=start, missing=missing, durable=durable, acknowledge=acknowledge)
        self._check_usable()
        inbox = self._session.subscribe(asked)
        subscription = self._subscriptions[inbox.number] = Subscription(inbox, self)
        self._shell.pump_soon()
        return subscription

    async def forget(self, durable: str) -> tuple[str, ...]:
        """Have a durable subscription forgotten, with what is kept for it; who uses it is ended.

        Returns the pubends that could not be reached, and still know it. Raises ``RefusedError`` if nobody knows it.
        """
        checked_durable(durable)
        return await forget_durable(self._ask, durable)

    # Reading logs.

    async def survey(self) -> Survey:
        """From where to where the logs of all guaranteed pubends of the overlay go; which of them are out of reach."""
        return await self._log_reading.survey()

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = "TRUE", *, bytes_max: int = READ_BYTES
    ) -> AsyncGenerator[LogPart, None]:
        """What a pubend has from one tick to another: the same, whenever and however often it is read.

        The parts cover all ticks in order; a lost connection is survived by asking again. What has not happened yet is
        refused: ``survey`` first. Nothing is held for who reads so: what was trimmed meanwhile is named as lost.
        """
        return self._log_reading.read(pubend, first, last, selector_text(selector), bytes_max=bytes_max)

    async def status(self) -> BrokerStatus:
        """How the broker is; raises ``ConnectionFailedError`` if the connection is lost before it answers."""
        return await status_of_broker(self._ask)

    async def trace(self, message_id: MessageId | str) -> Trace:
        """Where a message came from, which way it went, who received it; ``RefusedError`` if that is not told."""
        # Imported here: few applications trace messages.
        from penstock.client.tracing import trace

        return await trace(self._ask, message_id)

    # What subscriptions need.

    def on_taken(self, inbox: Inbox) -> None:
        """Read from the socket again, if no queue is too full any more."""
        if self._session.on_taken(inbox):
            self._shell.resume_reading()

    def on_moved(self, inbox: Inbox) -> None:
        """Tell the broker in time what the application has of a durable subscription."""
        if self._session.on_moved(inbox):
            self._shell.schedule()

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""
        return self._session.lag(inbox)

    def unsubscribe(self, inbox: Inbox, *, is_done: bool = False) -> None:
        """Withdraw a subscription."""
        self._session.unsubscribe(inbox, is_done=is_done)
        self.on_taken(inbox)
        self._shell.pump_soon()

    def abandon(self, inbox: Inbox) -> None:
        """Withdraw a subscription that the application has forgotten, from whatever thread."""
        if self._loop is not None and self.end is None:
            # The loop may have been closed without us.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.unsubscribe, inbox)

    def on_forked(self) -> None:
        """This is the copy in a forked child: another client if it was not open, and of no use if it was."""
        self._shell.on_forked()
        if self._loop is None:
            self.name = self.name if self._is_named else _made_up()
            self._session.become(self.name, secrets.token_bytes(16))
        elif not isinstance(self.end, ClientClosedError):
            self.end = ForkedError(where_opened("client", self._process))
            self._session.forget_connection()

    def __repr__(self) -> str:
        if self._loop is None:
            state = "not open"
        else:
            state = str(self.end) if self.end else f"connected to {self.broker}" if self.is_connected else "connecting"
        return f"<Client {self.name} of {self._address}: {state}>"

    async def _ask(self, question: Callable[[int], Frame], again_ms: int | None = None) -> Reply:
        await self._until(lambda: self._session.is_up)
        number = self._session.ask(question, again_ms=again_ms, now_ms=self._shell.now_ms())
        self._shell.pump_soon()
        try:
            return await self._questions.answer(number)
        finally:
            self._session.withdraw_question(number)

    async def _until(self, condition: Callable[[], bool]) -> None:
        self._check_process()
        while not condition():
            self._check_usable()
            await self._news.wait()

    def _check_usable(self) -> None:
        if self.end is not None:
            raise self.end.with_traceback(None)

    def _check_process(self) -> None:
        """Where a closed client may still be asked, the copy of an open one in a forked child may not."""
        if isinstance(self.end, ForkedError):
            raise self.end.with_traceback(None)

    def _on_changes(self, changes: Changes) -> None:
        for number in changes.inboxes:
            if (subscription := self._subscriptions.get(number)) is not None:
                subscription.wake()
        for lost in changes.missing:
            _log.warning("%s: ticks %d to %d of pubend %s are lost", self.name, lost.first, lost.last, lost.pubend)
        self._questions.on_answers(changes.answers)
        if changes.lost:
            self._questions.fail(ConnectionFailedError("the connection was lost before the broker answered"))
        if changes.publishing or changes.welcome:
            self._reports.collect()
            self._wake()
        if changes.end is not None:
            self._stop(changes.end)

    def _on_closing(self) -> None:
        if not isinstance(self.end, ClientClosedError):
            self._stop(ClientClosedError("this client is closed"))
        self._flushing.give_up()

    def _stop(self, end: ClientError) -> None:
        self.end = end
        self._questions.fail(end)
        self._wake()
        for subscription in list(self._subscriptions.values()):
            subscription.wake()

    def _wake(self) -> None:
        self._news.set()
        self._news.clear()


def _made_up() -> str:
    return f"client-{secrets.token_hex(4)}"
