"""Clients go on at any broker: producers repeat what had no receipt, consumers acknowledge what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from penstock.lab.stomp.clients import Listener, Producer, StompClient, Watcher, Worker, body_of
from penstock.lab.stomp.judge import Ledger
from penstock.protocol.stomp import StompFrame, StompReader, Version, encode

LIMIT_S = 30.0


class Broker:
    """Says what a test has it say, one connection after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = StompReader()
        self._frames.version = Version.V1_2
        self._read: list[StompFrame] = []

    async def hears(self, command: str) -> dict[str, str]:
        while not self._read:
            data = await self.reader.read(65_536)
            assert data, f"the client is gone instead of saying {command}"
            self._read += self._frames.feed(data)
        frame = self._read.pop(0)
        assert frame.command == command
        return frame.headers

    def says(self, command: str, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.writer.write(encode(StompFrame(command, named, body), Version.V1_2))

    def hands_out(self, item: str, ack: str, *, pubend: str = "p", **headers: str) -> None:
        self.says(
            "MESSAGE", body_of(item), item=item, ack=ack, message_id=f"id {item}", penstock_pubend=pubend, **headers
        )


Scene = Callable[[Broker], Coroutine[Any, Any, None]]


def play(client: Callable[[list[int], Ledger], StompClient], *scenes: Scene) -> Ledger:
    """Let a client connect once for each scene, after which its connection ends."""
    ledger = Ledger("jobs", ["w"])

    async def run() -> None:
        waiting = [*scenes]
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                broker = Broker(reader, writer)
                await broker.hears("CONNECT")
                broker.says("CONNECTED", version="1.2")
                await waiting.pop(0)(broker)
                if not waiting:
                    done.set_result(None)
            except Exception as error:  # noqa: BLE001 - the test is to fail by it, and not only this task
                done.set_exception(error)
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server, asyncio.timeout(LIMIT_S):
            running = asyncio.create_task(client([server.sockets[0].getsockname()[1]], ledger).run())
            await done
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            # One more turn, in which its socket is closed.
            await asyncio.sleep(0)

    asyncio.run(run())
    return ledger


def test_a_producer_repeats_in_order_what_has_no_receipt_under_other_names() -> None:
    def produce(ports: list[int], ledger: Ledger) -> Producer:
        producer = Producer("p", ports, Random(1), ledger)
        producer.produce(3)
        return producer

    async def first(broker: Broker) -> None:
        sends = [await broker.hears("SEND") for _ in range(3)]
        assert [each["receipt"] for each in sends] == [each["item"] for each in sends] == ["p/0/0", "p/1/0", "p/2/0"]
        assert [each["destination"] for each in sends] == ["/queue/jobs", "/topic/news", "/queue/jobs"]
        broker.says("RECEIPT", receipt_id="p/1/0")
        await broker.writer.drain()

    async def second(broker: Broker) -> None:
        for item in ("p/0/1", "p/2/1"):
            assert (await broker.hears("SEND"))["item"] == item
            broker.says("RECEIPT", receipt_id=item)
        broker.says("RECEIPT", receipt_id="nobody's")

    ledger = play(produce, first, second, nothing)
    assert [name for name, item in ledger.items.items() if item.has_receipt] == ["p/1/0", "p/0/1", "p/2/1"]
    assert ledger.strange == ["receipt nobody's"]


async def nothing(broker: Broker) -> None:
    """Be there, and end the connection."""


def test_a_worker_acknowledges_each_message_and_knows_what_has_a_receipt() -> None:
    async def scene(broker: Broker) -> None:
        headers = await broker.hears("SUBSCRIBE")
        assert (headers["destination"], headers["ack"]) == ("/queue/jobs", "client-individual")
        broker.says("RECEIPT", receipt_id=headers["receipt"])
        broker.hands_out("a/0/0", "0-1", penstock_attempt="2")
        ack = await broker.hears("ACK")
        assert ack["id"] == "0-1"
        broker.says("RECEIPT", receipt_id=ack["receipt"])

    def work(ports: list[int], ledger: Ledger) -> Worker:
        ledger.on_sent("a/0/0", "a/0", is_work=True)
        return Worker("w", ports, Random(1), ledger)

    ledger = play(work, scene, nothing)
    assert ledger.acks == 1
    assert ledger.items["a/0/0"].readings["jobs"].acked == 2


def test_a_worker_with_transactions_acknowledges_together_what_one_pubend_has() -> None:
    items = {"a/0/0": "p", "a/2/0": "q", "a/4/0": "p", "a/6/0": "p"}

    async def scene(broker: Broker) -> None:
        await broker.hears("SUBSCRIBE")
        for place, (item, pubend) in enumerate(items.items()):
            broker.hands_out(item, str(place), pubend=pubend, penstock_attempt="2")
        for acks in ({"0", "2", "3"}, {"1"}):
            name = (await broker.hears("BEGIN"))["transaction"]
            assert {(await broker.hears("ACK"))["id"] for _ in acks} == acks
            broker.says("RECEIPT", receipt_id=(await broker.hears("COMMIT"))["receipt"])
            assert name

    def work(ports: list[int], ledger: Ledger) -> Worker:
        for item in items:
            ledger.on_sent(item, item, is_work=True)
        return Worker("w", ports, Random(1), ledger, has_transactions=True)

    assert play(work, scene, nothing).acks == 4


def test_a_worker_leaves_alone_what_an_earlier_connection_had() -> None:
    async def first(broker: Broker) -> None:
        await broker.hears("SUBSCRIBE")
        broker.hands_out("a/0/0", "0-1", penstock_attempt="2")
        await broker.writer.drain()

    async def second(broker: Broker) -> None:
        await broker.hears("SUBSCRIBE")
        broker.hands_out("a/0/0", "0-7", penstock_attempt="3")
        assert (await broker.hears("ACK"))["id"] == "0-7"

    def work(ports: list[int], ledger: Ledger) -> Worker:
        ledger.on_sent("a/0/0", "a/0", is_work=True)
        return Worker("w", ports, Random(1), ledger)

    ledger = play(work, first, second)
    assert ledger.delivered == 2
    assert ledger.verdict().in_doubt == 1


@pytest.mark.parametrize(("ticks", "reordered"), [((5, 6), 0), ((6, 5), 1), ((5, 5), 1)])
def test_a_durable_subscriber_names_itself_and_sees_to_the_order(ticks: tuple[int, int], reordered: int) -> None:
    async def scene(broker: Broker) -> None:
        headers = await broker.hears("SUBSCRIBE")
        assert headers["activemq.subscriptionName"] == "news"
        for place, tick in enumerate(ticks):
            broker.hands_out(f"a/{place}/0", str(place), penstock_tick=str(tick))
        assert {(await broker.hears("ACK"))["id"] for _ in ticks} == {"0", "1"}

    def watch(ports: list[int], ledger: Ledger) -> Watcher:
        for place in range(2):
            ledger.on_sent(f"a/{place}/0", f"a/{place}", is_work=False)
        return Watcher("w", ports, Random(1), ledger)

    assert play(watch, scene).reordered == reordered


def test_other_bytes_than_were_sent_are_strange() -> None:
    async def scene(broker: Broker) -> None:
        await broker.hears("SUBSCRIBE")
        broker.says("MESSAGE", b"other", item="a/0/0", ack="0", message_id="m", penstock_pubend="p")
        broker.hands_out("a/9/0", "1")
        broker.hands_out("a/2/0", "2", penstock_attempt="2")
        await broker.hears("ACK")

    def work(ports: list[int], ledger: Ledger) -> Worker:
        ledger.on_sent("a/0/0", "a/0", is_work=True)
        ledger.on_sent("a/2/0", "a/2", is_work=True)
        return Worker("w", ports, Random(1), ledger)

    assert play(work, scene).strange == ["a/0/0", "a/9/0"]


def test_a_plain_subscriber_sees_to_the_order_on_each_connection_and_acknowledges_nothing() -> None:
    async def first(broker: Broker) -> None:
        headers = await broker.hears("SUBSCRIBE")
        assert (headers["destination"], headers.get("ack")) == ("/topic/news", None)
        broker.says("RECEIPT", receipt_id=headers["receipt"])
        broker.hands_out("a/1/0", "", penstock_tick="7")
        broker.hands_out("a/1/0", "", penstock_tick="7")
        await broker.writer.drain()

    async def second(broker: Broker) -> None:
        await broker.hears("SUBSCRIBE")
        broker.hands_out("a/1/0", "", penstock_tick="6")
        broker.hands_out("a/3/0", "", penstock_tick="8")
        broker.says("ERROR", message="internal error", penstock_code="internal")
        await broker.writer.drain()

    made: list[Listener] = []

    def listen(ports: list[int], ledger: Ledger) -> Listener:
        ledger.on_sent("a/1/0", "a/1", is_work=False)
        made.append(Listener("l", ports, Random(1), ledger))
        return made[0]

    ledger = play(listen, first, second, nothing)
    assert (ledger.reordered, ledger.strange, made[0].heard) == (1, ["a/3/0"], 4)
    assert (made[0].bugs, dict(made[0].errors)) == (1, {"internal error": 1})
