"""A broker that says what a test wants it to say, on a loopback socket; and waiting for what must come true."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, cast

from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Frame,
    Goodbye,
    Hello,
    PubendNames,
    Publish,
    PublishAck,
    Refused,
    Rewind,
    Rewound,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.session.settings import ClientSettings

LIMIT_S = 60.0
QUICK = ClientSettings(backoff_first_ms=1, backoff_max_ms=20)
ONCE = ClientSettings(connect_timeout_ms=0)
"""Each address is tried once."""
PUBEND = "quotes"
"""The pubend of a scripted broker, unless a test wants others."""

_Result = TypeVar("_Result")


def run(test: Awaitable[_Result]) -> _Result:
    """Runs a test to its end, which must come in time and leave no task behind."""

    async def main() -> _Result:
        async with asyncio.timeout(LIMIT_S):
            result = await test
        # Not at once: asyncio itself needs some turns to give up a handshake that failed.
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        return result

    return asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    """Waits for something that must come true."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


def body_of(number: int, payload: bytes = b"") -> bytes:
    """A message with its number as attribute."""
    return encode_body(MessageId(9, 1, 1_000, number % 65536), Message({"n": number}, payload))


def deliver(number: int, *subscriptions: int, payload: bytes = b"") -> Deliver:
    """A message for these subscriptions; its number is also its tick."""
    numbers = b"".join(each.to_bytes(4) for each in subscriptions or (1,))
    return Deliver(0, [number], [numbers], [body_of(number, payload)])


def acknowledgement(frame: Publish, count: int | None = None) -> PublishAck:
    """The answer to a broker's having taken all messages of a frame, or only the first of them."""
    bodies = frame.bodies[:count]
    return PublishAck(frame.first + len(bodies) - 1, sum(map(len, bodies)), frame.pubend)


class Peer(asyncio.Protocol):
    """One client, as the scripted broker sees it."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._reader = FrameReader()
        self.transport: asyncio.Transport | None = None
        self.frames: list[Frame] = []
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._broker.peers.append(self)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self.frames.append(frame)
            try:
                self.send(*self._broker.answer(frame))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                self._broker.fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True

    def send(self, *frames: Frame) -> None:
        assert self.transport is not None
        self.transport.write(b"".join(map(encode_frame, frames)))

    def cut(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def of(self, *kinds: type[Any]) -> list[Any]:
        """The frames of some kinds that have come in."""
        return [frame for frame in self.frames if isinstance(frame, kinds)]


class ScriptedBroker:
    """Answers as a broker does, except where a test says otherwise: by kind of frame, what to answer."""

    def __init__(
        self,
        answers: Mapping[Any, Callable[[Any], Iterable[Frame]]] | None = None,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answers: dict[type, Callable[[Any], Iterable[Frame]]] = dict(answers or {})
        self.peers: list[Peer] = []
        self.port = port
        # It sends none itself, so that clients must have the patience of the slowest machine.
        self.heartbeat_ms = 60_000
        self.credit_bytes = 2 * 1024 * 1024
        self.now_ms = 5_000
        self.name = "scripted"
        self.pubends: tuple[str, ...] = (PUBEND,)
        # Then nothing that was on the wire is sent again, unless a test wants it.
        self.best_effort: tuple[str, ...] = (PUBEND,)
        self.others: tuple[tuple[str, str, bool], ...] = ()
        self.is_complete = True
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._failure: Exception | None = None

    @property
    def address(self) -> str:
        return f"{'penstocks' if self._tls else 'penstock'}://127.0.0.1:{self.port}"

    @property
    def peer(self) -> Peer:
        """The client that came last."""
        return self.peers[-1]

    def welcome(self) -> Welcome:
        return Welcome(
            PROTOCOL_VERSION,
            self.name,
            "penstock",
            100 + len(self.peers),
            7,
            self.now_ms,
            self.heartbeat_ms,
            self.credit_bytes,
            self.pubends,
            self.best_effort,
            self.others,
            self.is_complete,
        )

    def fail(self, error: Exception) -> None:
        """The script is wrong, or takes too long: clients are sent away for good, as they would try again for ever."""
        self._failure = self._failure or error
        for peer in self.peers:
            if not peer.is_gone:
                peer.send(*self._farewell())

    def answer(self, frame: Frame) -> list[Frame]:
        if self._failure is not None:
            return self._farewell()
        if (scripted := self.answers.get(type(frame))) is not None:
            return list(scripted(frame))
        match frame:
            case Hello():
                return [self.welcome(), PubendNames(((0, "quotes"),))]
            case Subscribe(number, selector):
                return [Subscribed(number, selector)]
            case Unsubscribe(number):
                return [Unsubscribed(number)]
            case StatusRequest(number):
                return [StatusReply(number, b'{"broker": "scripted"}')]
            case Publish():
                return [acknowledgement(frame)]
            case Goodbye():
                return []
        return []

    def _farewell(self) -> list[Frame]:
        return [Goodbye("refused", f"the script failed: {self._failure!r}")]

    async def __aenter__(self) -> ScriptedBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._failure is not None:
            raise AssertionError("the script of the broker failed") from self._failure

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for peer in self.peers:
            peer.cut()
        await until(lambda: all(peer.is_gone for peer in self.peers))
        await self._server.wait_closed()


class RefusingBroker(ScriptedBroker):
    """Refuses messages by their attribute ``n``, and has the others sent again without gaps."""

    def __init__(self, is_bad: Callable[[object], bool]) -> None:
        super().__init__({Hello: self._on_hello, Publish: self._on_publish, Rewound: self._on_rewound})
        self._is_bad = is_bad
        self._rounds = 0
        self._ignores: dict[str, int] = {}
        """Pubends to which nothing counts until the client has answered, with the round that it has to answer."""
        self.taken: list[object] = []

    def _on_hello(self, _: Hello) -> list[Frame]:
        self._ignores.clear()
        return [self.welcome()]

    def _on_rewound(self, frame: Rewound) -> list[Frame]:
        if frame.round == self._ignores.get(frame.pubend):
            del self._ignores[frame.pubend]
        return []

    def _on_publish(self, frame: Publish) -> list[Frame]:
        if frame.pubend in self._ignores:
            return []
        numbers = [decode_attributes(body)["n"] for body in frame.bodies]
        bad = [place for place, number in enumerate(numbers) if self._is_bad(number)]
        good = bad[0] if bad else len(numbers)
        self.taken += numbers[:good]
        if not bad:
            return [acknowledgement(frame)]
        self._rounds += 1
        self._ignores[frame.pubend] = self._rounds
        return [
            acknowledgement(frame, good),
            *(Refused("publish", frame.first + place, f"not {numbers[place]}", 1, frame.pubend) for place in bad),
            Rewind(frame.first + good, self._rounds, frame.pubend),
        ]


@contextmanager
def broker_in_a_thread(broker: ScriptedBroker) -> Iterator[Callable[[Callable[[], None]], object]]:
    """The broker, served by another thread; yields what runs something there."""
    started, stopped = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with broker:
            loops.append(asyncio.get_running_loop())
            started.set()
            try:
                async with asyncio.timeout(LIMIT_S):
                    await stopped.wait()
            except TimeoutError as error:
                # Blocking calls have no limit of their own: who still waits would wait for ever.
                broker.fail(error)
                await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(LIMIT_S)
    try:
        yield loops[0].call_soon_threadsafe
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def delivering(count: int) -> ScriptedBroker:
    return ScriptedBroker(
        {Subscribe: lambda frame: [Subscribed(frame.number, frame.selector), *map(deliver, range(count))]}
    )
