"""The blocking client for programs without asyncio: the same calls, with a thread of its own behind them.

The thread runs the asynchronous client. Messages go to and from it in batches, so publishing and receiving are nearly
as fast as with asyncio; only a message for which the publish window has no room costs a round trip.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from penstock.client.client import Client, connect
from penstock.client.counters import ClientCounters
from penstock.client.events import SyncEventStream
from penstock.client.publisher import time_left
from penstock.client.reading import READ_BYTES, LogPart, Survey
from penstock.client.reports import who_calls
from penstock.client.requests import Request, Serving
from penstock.client.subscription import Subscription
from penstock.client.sync_requests import SyncServing
from penstock.client.sync_subscription import SyncSubscription
from penstock.client.wanted import Acknowledging, Missing, Sharing, Start, selector_text
from penstock.model.body import encode_content, encode_message
from penstock.model.message import Message, Payload
from penstock.model.message_id import MessageId
from penstock.model.values import Attributes
from penstock.protocol.status import BrokerStatus
from penstock.session.errors import ClientClosedError, ForkedError, PublishTimeoutError
from penstock.session.publishing import PubendPlace
from penstock.session.received import Received
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.durables import Durables
    from penstock.selectors.selector import Selector
    from penstock.tracking.answers import Trace

__all__ = ["SyncClient", "connect_sync"]

_Result = TypeVar("_Result")


def connect_sync(
    address: str,
    *,
    token: str = "",
    name: str = "",
    overlay: str = "",
    tls: ssl.SSLContext | None = None,
    settings: ClientSettings | None = None,
) -> SyncClient:
    """Make a blocking client, with the arguments of ``connect``. ``with`` or ``open`` makes the connection.

    >>> connect_sync("penstock://127.0.0.1:7000", name="ticker")
    <SyncClient of <Client ticker of penstock://127.0.0.1:7000: not open>>

    ::

        with penstock.connect_sync("penstock://127.0.0.1:7000") as client:
            client.publish({"symbol": "YHOO", "volume": 100}, b"18.2")
            for message in client.subscribe("symbol = 'YHOO' and volume > 15"):
                print(message.attributes, message.payload)
    """
    return SyncClient(connect(address, token=token, name=name, overlay=overlay, tls=tls, settings=settings))


class SyncClient:
    """A connection to a broker, made by ``connect_sync``; threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.AbstractEventLoop | None = None
        """The thread's loop, kept when ``_loop`` is reset to accept no more calls."""
        self._stop = asyncio.Event()
        self._begun: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The name under which the broker knows this client."""
        return self._client.name

    @property
    def broker(self) -> str:
        """Name of the broker that the client is connected to, or was last."""
        return self._client.broker

    @property
    def pubends(self) -> Mapping[str, PubendPlace]:
        """The pubends to which the client can publish, with the broker and the service class of each."""
        return self._client.pubends

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected at this moment."""
        return self._client.is_connected

    @property
    def held_back(self) -> str:
        """Why the broker makes its publishers wait; empty if it does not."""
        return self._client.held_back

    @property
    def counters(self) -> ClientCounters:
        """Counters of what this client has done so far."""
        return replace(self._client.counters, published=self._client.intake.published)

    def open(self) -> SyncClient:
        """Connect, and try again until there is a connection; raises as ``Client.open`` does."""
        self._check_process()
        if self._thread is not None:
            raise ClientClosedError("this client was opened before; call connect_sync for a new one")
        # Before there is a thread: a child forked while it starts has no such thread, and must not wait for it.
        self._client.belongs_here()
        # A daemon: a program that forgets to close its client must still be able to end.
        self._thread = threading.Thread(target=self._run, name=f"penstock {self.name}", daemon=True)
        self._thread.start()
        try:
            self._started.wait()
            self.call(self._client.open)
        except BaseException:
            self._end_thread()
            raise
        return self

    def close(self, *, flush: bool = True) -> None:
        """End the connection; with ``flush``, once everything published is acknowledged (raises as ``flush`` does).

        However ``close`` ends, even by an interrupt, the connection is given up. A second ``close`` waits for the end.
        """
        if isinstance(self._client.end, ForkedError):
            return
        try:
            if self._loop is not None:
                self.call(lambda: self._fetched(self._client.close(flush=flush)))
        finally:
            self._end_thread()

    def events(self) -> SyncEventStream:
        """What happens to this client from now on, to iterate over; ``get`` takes a timeout."""
        stream = SyncEventStream()
        self._client.events_for(stream)
        return stream

    def publish(
        self,
        attributes: Attributes,
        payload: Payload = b"",
        *,
        content_type: str = "",
        pubend: str = "",
        timeout_s: float | None = None,
        expires: float | None = None,
    ) -> MessageId:
        """Send a message; waits while the publish window is full, or there is no connection.

        Raises ``PublishTimeoutError`` if that takes longer than ``timeout_s``: then the message is not sent. With
        ``expires``, brokers do not deliver it any more that many seconds after this call.
        """
        self._check_process()
        return self._publish(encode_content(attributes, payload, content_type, expires), pubend, timeout_s)

    def publish_many(
        self, messages: Iterable[Message], *, pubend: str = "", timeout_s: float | None = None
    ) -> list[MessageId]:
        """Send messages in order; if that takes too long, ``PublishTimeoutError`` names those that are sent.

        Each has its own lifetime (``Message.expires``).
        """
        self._check_process()
        message_ids: list[MessageId] = []
        left_s = time_left(timeout_s)
        for message in messages:
            try:
                message_ids.append(self._publish(encode_message(message), pubend, left_s()))
            except PublishTimeoutError as error:
                raise PublishTimeoutError(str(error), messages=tuple(message_ids)) from None
        return message_ids

    def flush(self, *, timeout_s: float | None = None) -> None:
        """Wait until the broker has acknowledged everything published so far; raises as ``Client.flush`` does."""
        self.call(lambda: self._fetched(self._client.flush(timeout_s=timeout_s)))

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
    ) -> SyncSubscription:
        """Ask for the messages that match a selector, with the arguments and errors of ``Client.subscribe``."""
        text = selector_text(selector)

        async def subscribe() -> Subscription:
            return self._client.subscribe(
                text,
                start=start,
                key=key,
                missing=missing,
                durable=durable,
                acknowledge=acknowledge,
                pubends=pubends,
                shared=shared,
                **sharing,
            )

        return SyncSubscription(self.call(subscribe), self)

    def forget(self, durable: str, *, pubends: Iterable[str] | None = None) -> tuple[str, ...]:
        """Forget a durable subscription and everything kept for it; returns the pubends that could not be reached."""
        return self.call(lambda: self._client.forget(durable, pubends=pubends))

    def durables(self, durable: str = "", *, pubends: Iterable[str] | None = None) -> Durables:
        """All durable subscriptions of the overlay that this client may see, or one of them."""
        return self.call(lambda: self._client.durables(durable, pubends=pubends))

    def survey(self) -> Survey:
        """First and last tick in the log of every guaranteed pubend of the overlay, and the pubends out of reach."""
        return self.call(self._client.survey)

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = "TRUE", *, bytes_max: int = READ_BYTES
    ) -> Generator[LogPart, None, None]:
        """Read the log of a pubend from one tick to another, part by part, as ``Client.read`` does."""
        parts = self._client.read(pubend, first, last, selector, bytes_max=bytes_max)

        # An interrupted read may still be winding down when the generator is closed.
        turn = asyncio.Lock()

        async def following() -> LogPart | None:
            async with turn:
                return await anext(parts, None)

        async def close() -> None:
            async with turn:
                await parts.aclose()

        try:
            while (part := self.call(following)) is not None:
                yield part
        finally:
            self._leave(close)

    def request(
        self,
        attributes: Attributes,
        payload: Payload = b"",
        *,
        timeout: float,
        content_type: str = "",
        pubend: str = "",
    ) -> Received:
        """Publish a request, and return the first reply to it; raises as ``Client.request`` does."""
        return self.call(
            lambda: self._client.request(attributes, payload, timeout=timeout, content_type=content_type, pubend=pubend)
        )

    def serve(self, selector: str | Selector, *, pubends: Iterable[str] | None = None) -> SyncServing:
        """Ask for the requests that match a selector; each is answered with ``request.reply(...)``."""
        text = selector_text(selector)

        async def serve() -> Serving:
            return self._client.serve(text, pubends=pubends)

        return SyncServing(self.call(serve), self, lambda received: Request(received, self._client))

    @property
    def late_replies(self) -> int:
        """Replies dropped because their requests had been answered, or had timed out."""
        return self._client.late_replies

    def status(self) -> BrokerStatus:
        """Ask for the broker's status."""
        return self.call(self._client.status)

    def trace(self, message_id: MessageId | str) -> Trace:
        """Trace a message: its origin, its path, its receivers."""
        return self.call(lambda: self._client.trace(message_id))

    def call(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a coroutine in the client's thread, and wait for it; an interrupt cancels it."""
        # Before the lock: in a forked child, a thread that no longer exists may hold it.
        self._check_process()
        # Work handed over under the lock comes before the end of the thread, which finishes or cancels it.
        with self._lock:
            if self._loop is None:
                raise ClientClosedError("this client is not open")
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosedError("this client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def _publish(self, content: bytes, pubend: str, timeout_s: float | None) -> MessageId:
        """Hand a message to the client's thread, or wait there for room."""
        loop = self._loop
        if loop is None:
            raise ClientClosedError("this client is not open")
        owner = who_calls()
        message_id = self._client.intake.take(content, pubend, owner, loop.call_soon_threadsafe)
        if message_id is None:
            message_id = self.call(lambda: self._client.intake.take_in_turn(content, pubend, owner, timeout_s))
        return message_id

    async def _fetched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that concerns all that was published before."""
        self._client.intake.fetch()
        await work

    def _leave(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close something in the client's thread, without waiting: the garbage collector may be the caller."""
        loop = self._loop
        # The thread may have ended, and what was open there with it. In a forked child this would wake the parent's.
        if loop is not None and not isinstance(self._client.end, ForkedError):
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._begin, close)

    def _check_process(self) -> None:
        end = self._client.end
        if isinstance(end, ForkedError):
            raise end.with_traceback(None)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(work())
        # Keep a reference, or the task may be collected before it ends.
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    def __enter__(self) -> SyncClient:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=error is None)

    def __repr__(self) -> str:
        return f"<SyncClient of {self._client!r}>"

    def _run(self) -> None:
        try:
            run(self._main())
        finally:
            # Even if no loop could be made: nobody must wait for it for ever.
            self._started.set()

    async def _main(self) -> None:
        self._loop = self._ending = asyncio.get_running_loop()
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            # A caller that was interrupted before it could close leaves no connection behind either.
            await self._client.close(flush=False)

    def _end_thread(self) -> None:
        """End the thread; if an interrupt comes in between, the next call continues."""
        if self._thread is None or self._thread.ident is None:
            return
        self._started.wait()
        with self._lock:
            self._loop = None
        if self._ending is not None:
            # A closed loop has already stopped.
            with suppress(RuntimeError):
                self._ending.call_soon_threadsafe(self._stop.set)
        self._thread.join()
