"""Drives a server by stompman: ``python -m bench.stomp.programs.stompman_program SERVER CHECK``.

Its subscriptions have handlers; here they put messages into a queue, which the check reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import stompman

from bench.stomp.programs.scene import HEADERS, PATIENCE_S, QUIET_S, WrongError, equal, holds, play, unique
from bench.stomp.stage import Target

__all__: list[str] = []

_BINARY: Final = bytes(range(256))

Scene = Callable[[Target], Coroutine[Any, Any, None]]


class _LeaveError(Exception):
    """Ends a client that is still subscribed, which would wait for the end of its subscriptions otherwise."""


class _Client:
    """A connection with what came on it."""

    def __init__(self, client: stompman.Client, errors: asyncio.Queue[Any]) -> None:
        self.library = client
        self.errors = errors
        self._messages: asyncio.Queue[Any] = asyncio.Queue()

    async def subscribe(self, destination: str, ack: Any = "auto", headers: dict[str, str] | None = None) -> Any:
        async def keep(frame: Any) -> None:
            self._messages.put_nowait(frame)

        return await self.library.subscribe_with_manual_ack(
            destination, keep, ack=ack, headers=headers, receipt_timeout=PATIENCE_S
        )

    async def send(self, destination: str, body: bytes, headers: dict[str, str] | None = None, **more: Any) -> None:
        await self.library.send(body, destination, headers=headers, receipt_timeout=PATIENCE_S, **more)

    async def message(self) -> Any:
        try:
            return await asyncio.wait_for(self._messages.get(), PATIENCE_S)
        except TimeoutError:
            raise WrongError("no message came") from None

    async def bodies(self, number: int) -> list[bytes]:
        return [(await self.message()).body for _ in range(number)]

    async def nothing_comes(self) -> None:
        try:
            frame = await asyncio.wait_for(self._messages.get(), QUIET_S)
        except TimeoutError:
            return
        raise WrongError(f"a message came: {frame.body!r}")


@asynccontextmanager
async def _connected(
    target: Target, *, passcode: str = "", headers: dict[str, str] | None = None, beat_ms: int = 0
) -> AsyncIterator[_Client]:
    """A connection; at its end it says DISCONNECT and waits for the receipt."""
    server = stompman.ConnectionParameters(
        target.host, target.port, target.login, passcode or target.passcode, connect_headers=headers or {}
    )
    errors: asyncio.Queue[Any] = asyncio.Queue()
    client = stompman.Client(
        [server],
        heartbeat=stompman.Heartbeat(beat_ms, beat_ms),
        on_error_frame=errors.put_nowait,
        connect_retry_attempts=1,
    )
    try:
        async with client:
            yield _Client(client, errors)
            raise _LeaveError
    except* _LeaveError:
        pass


def _topic(target: Target) -> str:
    return unique(f"{target.topic_prefix}conformance.")


def _queue(target: Target) -> str:
    return unique(f"{target.queue_prefix}conformance.")


async def _left(target: Target, queue: str, wanted: list[bytes]) -> None:
    async with _connected(target) as client:
        await client.subscribe(queue)
        equal(sorted(await client.bodies(len(wanted))), wanted, "what is left in the queue")
        await client.nothing_comes()


async def _connect(target: Target) -> None:
    async with _connected(target):
        # The library speaks 1.2 alone, and gets here with nothing else.
        pass


async def _text(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        await client.send(topic, "Größe".encode())
        frame = await client.message()
        equal((frame.body, frame.headers["destination"]), ("Größe".encode(), topic), "the message")


async def _headers(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        await client.send(topic, b"x", dict(HEADERS))
        found = (await client.message()).headers
        equal({name: found.get(name) for name in HEADERS}, HEADERS, "the headers")


async def _content_type(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        await client.send(topic, b"{}", content_type="application/json;charset=utf-8")
        equal((await client.message()).headers.get("content-type"), "application/json;charset=utf-8", "content-type")


async def _binary(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        await client.send(topic, _BINARY)
        equal((await client.message()).body, _BINARY, "the body")


async def _receipt(target: Target) -> None:
    async with _connected(target) as client:
        await client.send(_topic(target), b"x")


async def _waits(target: Target) -> None:
    queue = _queue(target)
    async with _connected(target) as client:
        for body in (b"1", b"2", b"3"):
            await client.send(queue, body)
    await _left(target, queue, [b"1", b"2", b"3"])


async def _acknowledge(target: Target, *, mode: str, wanted: list[bytes]) -> None:
    queue = _queue(target)
    async with _connected(target) as client:
        await client.subscribe(queue, mode)
        for body in (b"1", b"2", b"3"):
            await client.send(queue, body)
        frames = [await client.message() for _ in range(3)]
        await frames[1].ack()
    await _left(target, queue, wanted)


async def _nack(target: Target) -> None:
    queue = _queue(target)
    async with _connected(target) as client:
        await client.subscribe(queue, "client-individual")
        await client.send(queue, b"1")
        await (await client.message()).nack()
        await client.send(queue, b"2")
        await (await client.message()).ack()


async def _commit(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        async with client.library.begin() as transaction:
            await transaction.send(b"inside", topic)
            await client.nothing_comes()
        equal(await client.bodies(1), [b"inside"], "the bodies")


async def _abort(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic)
        try:
            async with client.library.begin() as transaction:
                await transaction.send(b"inside", topic)
                raise KeyError
        except KeyError:
            pass
        await client.send(topic, b"after")
        equal(await client.bodies(1), [b"after"], "the bodies")


async def _selector(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        await client.subscribe(topic, headers={"selector": "colour = 'red' AND size > 9"})
        for colour, size in (("blue", "10"), ("red", "5"), ("red", "10")):
            await client.send(topic, f"{colour} {size}".encode(), {"colour": colour, "size": size})
        equal(await client.bodies(1), [b"red 10"], "the bodies")
        await client.nothing_comes()


async def _durable(target: Target) -> None:
    topic, named = _topic(target), {"client-id": unique("client")}
    durable = {"activemq.subscriptionName": "durable"}
    async with _connected(target, headers=named) as client:
        await client.subscribe(topic, headers=durable)
    async with _connected(target) as client:
        await client.send(topic, b"while away")
    async with _connected(target, headers=named) as client:
        await client.subscribe(topic, headers=durable)
        equal(await client.bodies(1), [b"while away"], "the bodies")


async def _unsubscribe(target: Target) -> None:
    async with _connected(target) as client:
        topic = _topic(target)
        subscription = await client.subscribe(topic)
        await subscription.unsubscribe()
        await client.send(topic, b"x")
        await client.nothing_comes()


async def _error(target: Target) -> None:
    async with _connected(target) as client:
        try:
            await client.subscribe(_topic(target), headers={"selector": "size > > 9"})
        except stompman.SubscriptionError as error:
            equal(error.reason, "rejected", "the reason")
            return
        raise WrongError("a malformed selector was accepted")


async def _wrong_passcode(target: Target) -> None:
    refused = False
    try:
        async with _connected(target, passcode="wrong"):
            pass
    except* stompman.Error:
        refused = True
    if not refused:
        raise WrongError("let in")


async def _heart_beat(target: Target) -> None:
    async with _connected(target, beat_ms=500) as client:
        await asyncio.sleep(3.0)
        holds(client.library.is_alive(), "is_alive() after six heart-beats")
        await client.send(_topic(target), b"x")


async def _disconnect(target: Target) -> None:
    # The library waits for the receipt by itself, and says nothing if none comes.
    async with asyncio.timeout(1.5), _connected(target):
        pass


def _as_function(scene: Scene) -> Callable[[Target], None]:
    def run(target: Target) -> None:
        asyncio.run(scene(target))

    return run


_SCENES: Final[dict[str, Scene]] = {
    "connect": _connect,
    "text": _text,
    "headers": _headers,
    "content-type": _content_type,
    "binary": _binary,
    "receipt": _receipt,
    "queue": _waits,
    "client": partial(_acknowledge, mode="client", wanted=[b"3"]),
    "client-individual": partial(_acknowledge, mode="client-individual", wanted=[b"1", b"3"]),
    "nack": _nack,
    "commit": _commit,
    "abort": _abort,
    "selector": _selector,
    "durable": _durable,
    "unsubscribe": _unsubscribe,
    "error": _error,
    "wrong-passcode": _wrong_passcode,
    "heart-beat": _heart_beat,
    "disconnect": _disconnect,
}


if __name__ == "__main__":
    play({name: _as_function(scene) for name, scene in _SCENES.items()})
