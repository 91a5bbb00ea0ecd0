"""The client for asyncio programs: publishes, subscribes and asks for the status, and reconnects by itself.

Closing shuts the client down for certain, even if the task that closes it is cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from random import Random
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakValueDictionary

from penstock.client.counters import ClientCounters
from penstock.client.events import EventStream, SyncEventStream, Telling
from penstock.client.flushing import Flushing
from penstock.client.intake import Intake
from penstock.client.publisher import Publisher
from penstock.client.questions import Questions, forget_durable, status_of_broker
from penstock.client.reading import READ_BYTES, LogPart, LogReading, Survey
from penstock.client.reports import Owner, Reports, who_calls
from penstock.client.requests import Requests, Serving, serving_selector
from penstock.client.shell import Shell
from penstock.client.subscription import Subscription
from penstock.client.wanted import (
    Acknowledging,
    Missing,
    Sharing,
    Start,
    checked_durable,
    checked_pubends,
    group_of,
    selector_text,
    wanted,
)
from penstock.model.body import encode_content
from penstock.model.message import Message, Payload
from penstock.model.message_id import MessageId
from penstock.model.values import Attributes
from penstock.protocol.frames import Frame
from penstock.protocol.status import BrokerStatus
from penstock.protocol.work_frames import Verdict
from penstock.session.address import parse_addresses
from penstock.session.changes import Changes, Reply
from penstock.session.errors import (
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    ForkedError,
)
from penstock.session.events import Unanswered
from penstock.session.inbox import Inbox, Lag
from penstock.session.publishing import PubendPlace
from penstock.session.received import Received
from penstock.session.session import Session
from penstock.session.settings import ClientSettings
from penstock.session.work import Said
from penstock.system.forking import tell_after_fork, where_opened

if TYPE_CHECKING:
    from penstock.client.durables import Durables
    from penstock.selectors.selector import Selector
    from penstock.tracking.answers import Trace

__all__ = ["Client", "connect", "finished"]


def connect(
    address: str,
    *,
    token: str = "",
    name: str = "",
    overlay: str = "",
    tls: ssl.SSLContext | None = None,
    settings: ClientSettings | None = None,
) -> Client:
    """Make a client for the broker at ``penstock://host:port``, or ``penstocks://host:port`` for TLS.

    Several addresses, separated by commas, are tried in turn. ``async with`` or ``open`` makes the connection. Without
    a ``name`` the client gets a random one; without an ``overlay`` it accepts whatever overlay the broker is in;
    without a ``tls`` context, TLS trusts the authorities that the system trusts.

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
    """A connection to a broker, made by ``connect``; do not share it between threads.

    If the application does not read a subscription and its queue fills up, the client stops reading the connection,
    acknowledgements included. So do not publish in the task that has to read: read in another task, or subscribe with
    another client.
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
        lock = threading.Lock()
        self._session = Session(
            settings,
            parse_addresses(address),
            name=self.name,
            publisher=secrets.token_bytes(16),
            chance=Random(),
            token=token,
            overlay=overlay,
            guard=lock,
        )
        self._shell = Shell(self._session, tls=tls, on_changes=self._on_changes)
        self._closing = _Closing(self._session, self._shell, on_closing=self._on_closing)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        """The thread that runs the loop."""
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._questions = Questions()
        self._log_reading = LogReading(self._ask, lambda: self.end, settings.give_up_ms)
        self._telling = Telling()
        self._requests = Requests(self)
        self._news = asyncio.Event()
        self._reports = Reports(self._session.publishing)
        self._publisher = Publisher(self._session, self._shell, self._reports, self._until, lock)
        self.intake = Intake(self._session, self._publisher, lock)
        """Takes messages from other threads; for the blocking client, not for applications."""
        self._flushing = Flushing(
            self._session,
            self._shell,
            self._reports,
            check_usable=self._check_usable,
            end=lambda: self.end,
            news=self._news,
        )
        self._process = 0
        self.end: ClientError | None = None
        """Why this client has stopped; None while it is usable."""
        tell_after_fork(self)

    @property
    def broker(self) -> str:
        """Name of the broker that the client is connected to, or was last."""
        return self._session.welcome.broker if self._session.welcome else ""

    @property
    def pubends(self) -> Mapping[str, PubendPlace]:
        """The pubends to which the client can publish, with the broker and the service class of each.

        All of the overlay, as far as that broker knows them.
        """
        return MappingProxyType(self._session.publishing.places)

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected at this moment."""
        return self._session.is_up

    @property
    def held_back(self) -> str:
        """Why the broker makes its publishers wait, for example a full disk; empty if it does not."""
        return self._session.held_back

    @property
    def counters(self) -> ClientCounters:
        """Counters of what this client has done so far."""
        return ClientCounters.of(self._session)

    # Opening and closing.

    async def open(self) -> Client:
        """Connect, and try again until there is a connection.

        Raises ``ConnectionFailedError`` if no broker answers in time (``ClientSettings.connect_timeout_ms``), or at
        once if waiting would not help, as with a certificate that is not trusted; ``RefusedError`` if one refuses.
        """
        self._check_usable()
        if self._loop is not None:
            raise ClientClosedError("this client was opened before; call connect for a new one")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.belongs_here()
        try:
            await self._shell.open()
        except BaseException:
            self._stop(ClientClosedError("this client could not connect"))
            raise
        return self

    async def close(self, *, flush: bool = True) -> None:
        """End the connection; with ``flush``, once everything published is acknowledged (raises as ``flush`` does).

        Acknowledges everything read from durable subscriptions; what the last call returned, only with ``flush``. With
        ``flush``, also waits until what was said of messages of groups is answered; what is not is reported as events.
        Once it runs, the connection is gone afterwards, however it ends. Cancelling it once gives up flushing;
        cancelling it again cuts the connection. A second ``close`` waits until the first has ended. In a
        process forked from the one that opened the client, ``close`` leaves the connection alone.
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

    # What happens.

    def events(self) -> EventStream:
        """What happens to this client from now on, to iterate over: connections, moves, refusals and so on.

        There may be any number of streams, also before the client is open. Each keeps the newest 1,000 events that the
        program has not read. The same events go to the log, as lines of the logger ``penstock.client``.
        """
        self._check_process()
        stream = EventStream()
        self._telling.add(stream)
        return stream

    def events_for(self, stream: SyncEventStream) -> None:
        """Tell a stream of the blocking client what happens; not for applications."""
        self._check_process()
        self._telling.add(stream)

    # Publishing.

    def publish(
        self,
        attributes: Attributes,
        payload: Payload = b"",
        *,
        content_type: str = "",
        pubend: str = "",
        timeout_s: float | None = None,
        expires: float | None = None,
    ) -> Coroutine[Any, Any, MessageId]:
        """Send a message to a pubend of the overlay, or to one that the client chooses (``ClientSettings.choice``).

        Waits while the publish window of that pubend is full, or there is no connection. Returns before the pubend has
        the message for good; ``flush`` waits for that. Raises ``UnknownPubendError`` if the overlay has no such pubend,
        and ``PublishTimeoutError`` if the message has to wait for longer than ``timeout_s``: then it is not sent. With
        ``expires``, brokers do not deliver the message any more that many seconds after this call.
        """
        if self.end is not None:
            raise self.end.with_traceback(None)
        content = encode_content(attributes, payload, content_type, expires)
        return self._publisher.publish(content, pubend, self._caller(), timeout_s)

    def publish_nowait(
        self,
        attributes: Attributes,
        payload: Payload = b"",
        *,
        content_type: str = "",
        pubend: str = "",
        expires: float | None = None,
    ) -> MessageId:
        """Send a message without waiting; raises ``WouldBlockError`` where ``publish`` would wait."""
        self._check_usable()
        content = encode_content(attributes, payload, content_type, expires)
        return self._publisher.publish_nowait(content, pubend, self._caller())

    def publish_many(
        self, messages: Iterable[Message], *, pubend: str = "", timeout_s: float | None = None
    ) -> Coroutine[Any, Any, list[MessageId]]:
        """Send messages in order, waiting as ``publish`` does; each has its own lifetime (``Message.expires``).

        If that takes longer than ``timeout_s`` altogether, ``PublishTimeoutError`` names those that are sent.
        """
        self._check_process()
        return self._publisher.publish_many(messages, pubend, self._caller(), timeout_s)

    def flush(self, *, timeout_s: float | None = None) -> Coroutine[Any, Any, None]:
        """Wait until the broker has acknowledged everything published so far, over as many connections as it takes.

        Raises ``RefusedError`` if the broker refused messages of the calling task, or of a task that has ended. Raises
        ``ConnectionFailedError`` if such messages were on the wire when a connection was lost and could not be sent
        again, because their pubend is best effort: nobody knows whether those arrived. To a guaranteed pubend they are
        sent again, by whatever broker comes next, and taken once. Each message is reported once; messages of other
        tasks are reported when those tasks flush.

        Raises ``PublishTimeoutError`` if that takes longer than ``timeout_s``; the client still sends the messages.
        """
        self._check_process()
        return self._flushing.flush_within(self._caller(), timeout_s)

    async def held_back_other_than(self, reason: str) -> str:
        """Wait until ``held_back`` differs from this reason, and return it; for programs that display it."""
        await self._until(lambda: self.held_back != reason)
        return self.held_back

    # Subscribing.

    def subscribe(
        self,
        selector: str | Selector,
        *,
        start: Start | None = None,
        key: str = "",
        missing: Missing = "fail",
        durable: str = "",
        acknowledge: Acknowledging = "auto",
        pubends: Iterable[str] | None = None,
        shared: str | None = None,
        **sharing: Unpack[Sharing],
    ) -> Subscription:
        """Ask for the messages that match; raises ``SelectorError`` at once if the text is not a selector.

        With ``pubends``, only for messages of these pubends; those that do not exist yet count when they appear.

        The subscription begins with what is published from now on, unless ``start`` says otherwise: ``"earliest"`` for
        the oldest message kept, a ``datetime`` with a time zone, or a tick of each pubend, as ``positions`` of an
        earlier subscription has them. If the start is no longer kept, the broker refuses the subscription, unless
        ``missing`` says to begin with the earliest or latest instead.

        With ``start="last"``, the newest message of each value of the attribute ``key`` comes first, as far as logs are
        kept, in the order of their ticks; then everything after that, without a gap.

        With a ``durable`` name, the pubends keep the subscription's positions: when it comes back, at any broker, it
        resumes where it was. ``start`` then counts only where the name is new; a tick also where it is further on.

        With ``shared``, this client becomes a member of the group with that name, anywhere in the overlay: each message
        comes to one member, which has to ``acknowledge`` it within ``work_ms`` (30 s), and has up to ``prefetch`` (100)
        at a time from each pubend. A message that is refused, or not acknowledged in time, comes again, to anybody;
        after ``deliveries_max`` times it becomes a dead letter. Of messages with the same value of the attribute
        ``shared_by``, one at a time is handed out, in order. The group lives until it is forgotten.
        """
        text = selector_text(selector)
        asked = wanted(
            text,
            start=start,
            missing=missing,
            durable=durable,
            acknowledge=acknowledge,
            pubends=pubends,
            group=group_of(shared, sharing),
            key=key,
        )
        self._check_usable()
        inbox = self._session.subscribe(asked)
        subscription = self._subscriptions[inbox.number] = Subscription(inbox, self)
        self._shell.pump_soon()
        return subscription

    async def forget(self, durable: str, *, pubends: Iterable[str] | None = None) -> tuple[str, ...]:
        """Forget a durable subscription and everything kept for it; whoever uses it gets ``TakenOverError``.

        With ``pubends``, only these forget it: for a name that came back with fewer pubends than it had before.
        Returns the pubends that could not be reached and still know it. Raises ``RefusedError`` if nobody knows it.
        """
        checked_durable(durable)
        return await forget_durable(self._ask, durable, checked_pubends(pubends))

    async def durables(self, durable: str = "", *, pubends: Iterable[str] | None = None) -> Durables:
        """All durable subscriptions of the overlay that this client may see, or one of them: where and how far.

        With ``pubends``, only what these know.
        """
        # Imported here: few applications list them.
        from penstock.client.durables import durables

        guaranteed = [name for name, place in self.pubends.items() if place.is_guaranteed]
        asked = checked_pubends(pubends) or sorted(guaranteed)
        return await durables(self._ask, asked, checked_durable(durable) if durable else "")

    # Reading logs.

    async def survey(self) -> Survey:
        """First and last tick in the log of every guaranteed pubend of the overlay, and the pubends out of reach."""
        return await self._log_reading.survey()

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = "TRUE", *, bytes_max: int = READ_BYTES
    ) -> AsyncGenerator[LogPart, None]:
        """Read the log of a pubend from one tick to another; the messages are the same however often it is read.

        The parts cover all ticks in order; if the connection is lost, the client asks again. Ticks in the future are
        refused: call ``survey`` first. Reading does not keep the log from being trimmed: trimmed ticks are in ``lost``.
        """
        return self._log_reading.read(pubend, first, last, selector_text(selector), bytes_max=bytes_max)

    async def status(self) -> BrokerStatus:
        """Ask for the broker's status; raises ``ConnectionFailedError`` if the connection is lost before it answers."""
        return await status_of_broker(self._ask)

    async def trace(self, message_id: MessageId | str) -> Trace:
        """Trace a message: its origin, its path, its receivers; raises ``RefusedError`` if the broker does not tell."""
        # Imported here: few applications trace messages.
        from penstock.client.tracing import trace

        return await trace(self._ask, message_id)

    # Requests and replies.

    async def request(
        self,
        attributes: Attributes,
        payload: Payload = b"",
        *,
        timeout: float,
        content_type: str = "",
        pubend: str = "",
    ) -> Received:
        """Publish a request, and return the first reply to it; ``timeout`` in seconds.

        Goes to a best-effort pubend if there is one, unless ``pubend`` names one, and is not sent again. Raises
        ``NobodyServesError`` at once if the broker knows that nobody wants it, ``RequestTimeoutError`` if no reply came
        in time, ``RequestFailedError`` if the server said so, and ``ConnectionFailedError`` if the connection is lost.
        """
        self._check_usable()
        return await self._requests.request(attributes, payload, content_type, pubend, timeout)

    def serve(self, selector: str | Selector, *, pubends: Iterable[str] | None = None) -> Serving:
        """Ask for the requests that match a selector; each is answered with ``await request.reply(...)``.

        Everybody who serves the same requests gets them, and the first reply counts.
        """
        return Serving(self.subscribe(serving_selector(selector_text(selector)), pubends=pubends), self)

    @property
    def late_replies(self) -> int:
        """Replies dropped because their requests had been answered, or had timed out."""
        return self._requests.late

    def publish_content(self, content: bytes, pubend: str) -> Coroutine[Any, Any, MessageId]:
        """Send an encoded message, for requests and replies."""
        self._check_usable()
        return self._publisher.publish(content, pubend, self._caller())

    def ask(self, question: Callable[[int], Frame]) -> Coroutine[Any, Any, Reply]:
        """Ask the broker, for requests."""
        return self._ask(question)

    # For subscriptions.

    @property
    def close_s(self) -> float:
        """How long closing may wait for answers."""
        return self._settings.close_ms / 1_000

    def on_taken(self, inbox: Inbox) -> None:
        """Resume reading from the socket, if no queue is too full any more."""
        if self._session.on_taken(inbox):
            self._shell.resume_reading()

    def on_moved(self, inbox: Inbox) -> None:
        """Schedule telling the broker what the application has read from a durable subscription."""
        if self._session.on_moved(inbox):
            self._shell.schedule()

    def on_awaited(self, inbox: Inbox) -> None:
        """Tell the broker at the end of this turn of the loop what the application has acknowledged, and waits for."""
        self._session.on_moved(inbox)
        self._shell.pump_soon()

    def judge(self, inbox: Inbox, message: Received, verdict: Verdict, delay_ms: int, reason: str) -> Said:
        """The application says what becomes of a message of a group."""
        self._check_usable()
        said = self._session.judge(inbox, message, verdict, delay_ms, reason)
        self._shell.pump_soon()
        return said

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""
        return self._session.lag(inbox)

    def unsubscribe(self, inbox: Inbox, *, is_done: bool = False) -> None:
        """Withdraw a subscription."""
        if inbox.work is not None and inbox.unanswered:
            self._telling.tell(self.name, Unanswered(inbox.work.shared.group, inbox.unanswered))
        self._session.unsubscribe(inbox, is_done=is_done)
        self.on_taken(inbox)
        self._shell.pump_soon()

    def pause(self, inbox: Inbox) -> None:
        """Have the broker send nothing more for a subscription."""
        if self._session.pause(inbox):
            self._shell.resume_reading()
        self._shell.pump_soon()

    def resume(self, inbox: Inbox) -> None:
        """Continue a paused subscription where it was."""
        subscription = self._subscriptions.pop(inbox.number, None)
        # It gets another number.
        self._session.resume(inbox)
        if subscription is not None:
            self._subscriptions[inbox.number] = subscription
        self._shell.pump_soon()

    def abandon(self, inbox: Inbox) -> None:
        """Withdraw a subscription that the application has dropped; callable from any thread."""
        if self._loop is not None and self.end is None:
            # Somebody else may have closed the loop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.unsubscribe, inbox)

    def _caller(self) -> Owner | None:
        """Who publishes or flushes: the calling task, or the calling thread."""
        # Asking for the running loop costs a system call in Python 3.11.
        if self._loop is not None and threading.get_ident() == self._thread:
            task = asyncio.current_task(self._loop)
            if task is not None:
                return task
        return who_calls()

    def belongs_here(self) -> None:
        """Tie the client to this process, which opens it: in children forked from now on, its copies are unusable."""
        self._process = os.getpid()

    def on_forked(self) -> None:
        """In a forked child, turn this copy into another client if it was not open; else make it unusable."""
        self._shell.on_forked()
        self._telling.on_forked()
        if isinstance(self.end, ClientClosedError):
            return
        if self._process:
            self.end = ForkedError(where_opened("client", self._process))
            self._session.forget_connection()
            self._telling.end()
        elif self._settings.publisher:
            # Numbers of two processes under one identity would count as repetitions of each other.
            self.end = ForkedError("a chosen publisher identity belongs to one process: make the client after the fork")
        else:
            self.name = self.name if self._is_named else _made_up()
            self._session.become(self.name, secrets.token_bytes(16))

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
        """Raise in a forked child's copy of an open client, where a closed client may still be asked."""
        if isinstance(self.end, ForkedError):
            raise self.end.with_traceback(None)

    def _on_changes(self, changes: Changes) -> None:
        for number, inbox in changes.inboxes.items():
            if (subscription := self._subscriptions.get(number)) is not None:
                subscription.wake()
            if inbox.work is not None:
                self._wake()
        for event in (*changes.events, *changes.missing):
            self._telling.tell(self.name, event)
        self._questions.on_answers(changes.answers)
        if changes.lost:
            self._requests.on_lost()
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
        if self.end is None:
            for event in self._session.unanswered():
                self._telling.tell(self.name, event)
        self.end = end
        self.intake.close(end)
        if not isinstance(end, ClientClosedError):
            # No connection will come: whoever flushes hears which messages were not acknowledged.
            self._session.publishing.abandon()
            self._reports.collect()
        self._questions.fail(end)
        self._requests.fail(end)
        self._wake()
        for subscription in list(self._subscriptions.values()):
            subscription.wake()
        self._telling.end()

    def _wake(self) -> None:
        self._news.set()
        self._news.clear()


class _Closing:
    """Shuts one client down, however many tasks ask for it."""

    def __init__(self, session: Session, shell: Shell, *, on_closing: Callable[[], None]) -> None:
        self._session, self._shell = session, shell
        self._on_closing = on_closing
        self._task: asyncio.Task[None] | None = None

    async def close(self, *, is_done: bool) -> None:
        """Say the last words and end the connection; if that is already under way, wait for it."""
        if self._task is None:
            try:
                self._session.say_last_words(is_done=is_done)
                self._shell.pump()
            finally:
                self._on_closing()
                self._task = asyncio.create_task(self._end(), name="penstock: close")
        await finished(self._task, hurry=self._shell.abort)

    async def _end(self) -> None:
        try:
            await self._shell.close()
        finally:
            # Even if a loop that ends cancels all its tasks, this one included.
            self._shell.abort()


async def finished(task: asyncio.Task[Any], hurry: Callable[[], None]) -> None:
    """Wait until the task has ended; raises what it raised.

    If the caller is cancelled, ``hurry`` is called, which must let the task end without waiting for anybody else. The
    cancellation is raised only once the task has ended, so that nothing is left behind.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    if cancelled is not None:
        raise cancelled
    if not task.cancelled():
        task.result()


def _made_up() -> str:
    return f"client-{secrets.token_hex(4)}"
