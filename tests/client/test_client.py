from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from client.scripted import LIMIT_S, ONCE, PUBEND, QUICK, ScriptedBroker, acknowledgement, deliver, run, until
from live.certificates import Authority
from live.support import with_port
from penstock.broker.access import Access, Rule
from penstock.client.client import Client, connect, finished
from penstock.client.reading import LogReading
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.tls import client_context
from penstock.model.body import decode_attributes
from penstock.model.errors import InvalidMessageError
from penstock.model.message import Message
from penstock.protocol.frames import (
    Frame,
    Goodbye,
    LogAnswer,
    PubendPlaces,
    Publish,
    PublishAck,
    ReadRequest,
    Refused,
    Rewind,
    StatusReply,
    StatusRequest,
    Subscribe,
    SurveyReply,
    SurveyRequest,
)
from penstock.protocol.status import BrokerStatus
from penstock.selectors.builder import attr
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import Selector
from penstock.session.errors import (
    AddressError,
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    RefusedError,
    UnknownPubendError,
    WouldBlockError,
)
from penstock.session.publishing import PubendPlace
from penstock.session.settings import ClientSettings

STEPS_MAX = 500
TOKENS = {"ann": "open sesame", "bob": "swordfish"}


def numbers_in(frames: list[Publish]) -> list[object]:
    return [decode_attributes(body)["n"] for frame in frames for body in frame.bodies]


@asynccontextmanager
async def connected(broker: ScriptedBroker, settings: ClientSettings) -> AsyncIterator[Client]:
    async with connect(broker.address, settings=settings) as client:
        yield client


def test_published_messages_arrive_in_order_and_in_batches() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, name="me") as client:
            ids = [await client.publish({"n": number}, b"x", content_type="text/plain") for number in range(500)]
            await client.flush()
            frames = broker.peer.of(Publish)
            assert numbers_in(frames) == list(range(500))
            assert len(frames) < 100
            assert ids == sorted({*ids})
            assert client.counters.settled == 500
            assert (client.broker, client.is_connected) == ("scripted", True)

    run(test())


def test_a_client_says_what_it_is() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with connect(broker.address, name="me") as client:
                assert repr(client) == f"<Client me of {broker.address}: connected to scripted>"
            assert repr(client) == f"<Client me of {broker.address}: this client is closed>"

    run(test())


def test_publish_waits_for_the_window_and_others_do_not_pass() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.credit_bytes = 200
            broker.answers[Publish] = lambda _: []
            async with connect(broker.address) as client:
                await client.publish({"n": 0}, bytes(100))
                large = asyncio.create_task(client.publish({"n": 1}, bytes(500)))
                await until(lambda: broker.peer.of(Publish))
                small = asyncio.create_task(client.publish({"n": 2}))
                with pytest.raises(WouldBlockError, match="1 messages are not acknowledged yet"):
                    client.publish_nowait({"n": 3})
                assert not large.done()
                assert not small.done()
                broker.peer.send(acknowledgement(broker.peer.of(Publish)[0]))
                await large
                await until(lambda: len(broker.peer.of(Publish)) == 2)
                assert not small.done()
                broker.peer.send(acknowledgement(broker.peer.of(Publish)[1]))
                await small
                await until(lambda: len(broker.peer.of(Publish)) == 3)
                broker.peer.send(PublishAck(3, 0, PUBEND))
                await client.flush()
                assert numbers_in(broker.peer.of(Publish)) == [0, 1, 2]

    run(test())


def test_a_publisher_that_is_cancelled_while_it_waits_lets_the_next_one_go() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.credit_bytes = 100
            async with connect(broker.address) as client:
                broker.answers[Publish] = lambda _: []
                await client.publish({"n": 0}, bytes(50))
                tasks = [asyncio.create_task(client.publish({"n": n}, bytes(50))) for n in (1, 2)]
                await until(lambda: broker.peer.of(Publish))
                tasks[0].cancel()
                await asyncio.wait(tasks[:1])
                del broker.answers[Publish]
                broker.peer.send(acknowledgement(broker.peer.of(Publish)[0]))
                await tasks[1]
                await client.flush()
                assert numbers_in(broker.peer.of(Publish)) == [0, 2]

    run(test())


def test_publish_nowait_and_publish_many_send_the_same() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            first = client.publish_nowait({"n": 0}, pubend="quotes")
            rest = await client.publish_many((Message({"n": n}) for n in range(1, 600)), pubend="quotes")
            await client.flush()
            assert numbers_in(broker.peer.of(Publish)) == list(range(600))
            assert {frame.pubend for frame in broker.peer.of(Publish) if frame.bodies} == {"quotes"}
            assert [first, *rest] == sorted([first, *rest])

    run(test())


def test_a_bad_message_or_selector_is_the_callers_fault_at_once() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            with pytest.raises(InvalidMessageError):
                await client.publish({"": 1})
            with pytest.raises(SelectorError):
                client.subscribe("a = ")
            assert client.subscribe(attr("a") > 1).selector == "a > 1"

    run(test())


def test_refused_messages_are_reported_by_the_next_flush_and_only_by_it() -> None:
    async def test() -> None:
        def refuse(frame: Publish) -> list[Frame]:
            if not frame.bodies:
                return []
            refused = Refused("publish", frame.first, "may not publish", len(frame.bodies), frame.pubend)
            return [refused, Rewind(frame.first, 1, frame.pubend)]

        async with ScriptedBroker({Publish: refuse}) as broker, connect(broker.address) as client:
            await client.publish({"n": 0})
            await client.publish({"n": 1})
            with pytest.raises(RefusedError, match=r"may not publish \(messages refused: 2\)"):
                await client.flush()
            await client.flush()
            assert client.counters.refused == 2

    run(test())


def test_leaving_the_client_reports_refused_messages_too() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.answers[Publish] = lambda _: [Refused("publish", 1, "no", 1, PUBEND), Rewind(1, 1, PUBEND)]
            with pytest.raises(RefusedError):
                async with connect(broker.address) as client:
                    await client.publish({"n": 0})

    run(test())


def test_a_lost_connection_is_healed_and_subscriptions_go_on() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            one, two = client.subscribe("a = 1"), client.subscribe("a = 2")
            await one.ready()
            await two.ready()
            broker.peer.send(deliver(1, 1))
            assert (await one.get()).tick == 1
            for number in range(2, 5):
                broker.peer.cut()
                await until(lambda number=number: len(broker.peers) == number)  # type: ignore[misc]
                await one.ready()
                await until(lambda: len(broker.peer.of(Subscribe)) == 2)
                broker.peer.send(deliver(number, 1, 2))
                assert (await one.get()).tick == (await two.get()).tick == number
            assert client.counters.reconnects == 3
            assert client.counters.received == 4

    run(test())


def test_what_was_on_the_wire_is_reported_lost_and_what_waited_is_sent() -> None:
    async def test() -> None:
        settings = ClientSettings(linger_ms=60_000, backoff_first_ms=1, backoff_max_ms=2)
        broker = ScriptedBroker({Publish: lambda _: []})
        async with broker, connected(broker, settings) as client:
            await client.publish({"n": 0})
            flush = asyncio.create_task(client.flush())
            await until(lambda: broker.peer.of(Publish))
            await client.publish({"n": 1})
            del broker.answers[Publish]
            broker.peer.cut()
            with pytest.raises(ConnectionFailedError, match="lost with 1 messages on the wire"):
                await flush
            await client.flush()
            assert len(broker.peers) == 2
            assert numbers_in(broker.peer.of(Publish)) == [1]
            assert client.counters.lost == 1

    run(test())


def test_without_a_connection_publish_waits_and_nowait_says_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address, settings=QUICK).open()
            await broker.stop()
            await until(lambda: not client.is_connected)
            with pytest.raises(WouldBlockError, match="no connection"):
                client.publish_nowait({"n": 0})
            waiting = asyncio.create_task(client.publish({"n": 1}))
            async with ScriptedBroker(port=broker.port) as other:
                await waiting
                await client.flush()
                assert numbers_in(other.peer.of(Publish)) == [1]
                await client.close()
            broker.peers.clear()

    run(test())


def test_everybody_who_waits_is_told_when_the_broker_refuses_for_good() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            broker.answers[StatusRequest] = lambda _: []
            status = asyncio.create_task(client.status())
            await until(lambda: broker.peer.of(StatusRequest))
            broker.peer.send(Goodbye("refused", "go away"))
            with pytest.raises(ConnectionFailedError, match="before the broker answered"):
                await status
            for use in (client.status, lambda: client.publish({})):
                with pytest.raises(RefusedError, match="go away"):
                    await use()

    run(test())


def test_a_closed_client_says_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            with pytest.raises(ClientClosedError, match="opened before"):
                await client.open()
            await client.close()
            await client.close()
            for use in (client.open, client.status, lambda: client.publish({})):
                with pytest.raises(ClientClosedError):
                    await use()
            with pytest.raises(ClientClosedError):
                client.subscribe("TRUE")

    run(test())


def test_a_client_that_cannot_connect_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            address = broker.address
        client = connect(address, settings=ONCE)
        with pytest.raises(ConnectionFailedError):
            await client.open()
        with pytest.raises(ClientClosedError, match="could not connect"):
            client.subscribe("TRUE")

    run(test())


def test_an_address_that_is_none_is_refused_before_anything_happens() -> None:
    with pytest.raises(AddressError):
        connect("http://localhost")


def test_a_cancelled_program_closes_its_client() -> None:
    async def test() -> None:
        async def program(address: str) -> None:
            async with connect(address) as client:
                await client.publish({"n": 1})
                async for _ in client.subscribe("TRUE"):
                    pass

        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            task = asyncio.create_task(program(broker.address))
            await until(lambda: broker.peers and broker.peer.of(Subscribe))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await until(lambda: broker.peer.is_gone)

    run(test())


def test_closing_does_not_wait_for_ever_for_an_acknowledgement() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=20)
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=settings).open()
            await client.publish({"n": 1})
            with pytest.raises(ConnectionFailedError, match="1 messages were not acknowledged within 20 ms"):
                await client.close()

    run(test())


def saying(status: bytes) -> Callable[[Any], list[Frame]]:
    return lambda frame: [StatusReply(frame.number, status)]


def test_status_is_the_brokers_answer_or_its_refusal() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            assert await client.status() == BrokerStatus("scripted")
            for nonsense in (b"{", b'{"clients": 3}', b'{"broker": "b", "clients": "many"}'):
                broker.answers[StatusRequest] = saying(nonsense)
                with pytest.raises(ClientError, match="the status of the broker cannot be read"):
                    await client.status()
            broker.answers[StatusRequest] = lambda frame: [Refused("status", frame.number, "secret")]
            with pytest.raises(RefusedError, match="secret"):
                await client.status()

    run(test())


# Against the real broker.


def answered(frame: ReadRequest, last: int | None = None) -> list[Frame]:
    """A part of a log that ends there, with a message at its first tick."""
    end = frame.last if last is None else min(last, frame.last)
    return [LogAnswer(frame.pubend, "", frame.number, (frame.first, end), [frame.first], [b"x"])]


def test_logs_are_surveyed_and_read_in_parts() -> None:
    async def test() -> None:
        broker = ScriptedBroker(
            {
                SurveyRequest: lambda frame: [SurveyReply(frame.number, (("p", 3, 20),), ("q",))],
                ReadRequest: lambda frame: answered(frame, frame.first + 9),
            }
        )
        async with broker, connect(broker.address) as client:
            survey = await client.survey()
            assert (survey.spans["p"].earliest, survey.spans["p"].latest, survey.unreachable) == (3, 20, ("q",))
            wanted = attr("n") > 1
            parts = [part async for part in client.read("p", 3, 20, wanted, bytes_max=7)]
            assert [(part.pubend, part.first, part.last, part.ticks) for part in parts] == [
                ("p", 3, 12, [3]),
                ("p", 13, 20, [13]),
            ]
            assert [(each.selector, each.bytes_max) for each in broker.peer.of(ReadRequest)] == [(str(wanted), 7)] * 2
            with pytest.raises(SelectorError):
                client.read("p", 3, 20, "n >")

    run(test())


def test_an_answer_that_got_lost_is_asked_for_again_under_the_same_number() -> None:
    async def test() -> None:
        asked: list[ReadRequest] = []

        def answer(frame: ReadRequest) -> list[Frame]:
            asked.append(frame)
            return answered(frame) if len(asked) >= 3 else []

        async with ScriptedBroker({ReadRequest: answer}) as broker, connect(broker.address) as client:
            reading = LogReading(client._ask, again_ms=1)
            assert [part.last async for part in reading.read("p", 0, 9, "TRUE")] == [9]
            assert len(set(asked)) == 1

    run(test())


def test_a_reading_goes_on_over_the_next_connection() -> None:
    async def test() -> None:
        asked: list[ReadRequest] = []

        def answer(frame: ReadRequest) -> list[Frame]:
            asked.append(frame)
            if len(asked) % 2 == 0:
                broker.peer.cut()
                return []
            return answered(frame, frame.first + 9)

        async with ScriptedBroker({ReadRequest: answer}) as broker, connected(broker, QUICK) as client:
            parts = [part async for part in client.read("p", 0, 39)]
            assert [(part.first, part.last) for part in parts] == [(0, 9), (10, 19), (20, 29), (30, 39)]
            assert len(broker.peers) == 4

    run(test())


def test_a_reading_of_a_client_that_is_closed_meanwhile_ends() -> None:
    async def test() -> None:
        async with ScriptedBroker({ReadRequest: lambda _: []}) as broker:
            client = await connect(broker.address).open()
            reader = asyncio.create_task(anext(client.read("p", 0, 9)))
            await until(lambda: broker.peer.of(ReadRequest))
            await client.close()
            with pytest.raises(ClientClosedError):
                await reader
            with pytest.raises(ClientClosedError):
                await client.survey()

    run(test())


def test_a_reading_gives_up_when_the_client_does() -> None:
    async def test() -> None:
        settings = ClientSettings(give_up_ms=1)
        async with ScriptedBroker({ReadRequest: lambda _: []}) as broker, connected(broker, settings) as client:
            with pytest.raises(ConnectionFailedError, match="the log of pubend p: no answer within"):
                await anext(client.read("p", 0, 9))
            assert client.is_connected

    run(test())


def test_a_refused_reading_says_why() -> None:
    async def test() -> None:
        answers = {ReadRequest: lambda frame: [Refused("read", frame.number, "no such pubend")]}
        async with ScriptedBroker(answers) as broker, connect(broker.address) as client:
            with pytest.raises(RefusedError, match="the broker refused to read its log: no such pubend"):
                await anext(client.read("p", 0, 9))

    run(test())


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[BrokerNode, BrokerNode]]:
    brokers = {
        "pb": BrokerPlace("pb", 1, 0, pubends=("quotes",), best_effort=("quotes",)),
        "sb": BrokerPlace("sb", 2, 0),
    }
    overlay = Overlay("test", brokers, links=(("sb", "pb"),))
    async with BrokerNode(overlay, "pb") as pb, BrokerNode(with_port(overlay, "pb", pb.address[1]), "sb") as sb:
        yield pb, sb


def client_of(node: BrokerNode) -> Client:
    host, port = node.address
    return connect(f"penstock://{host}:{port}", settings=QUICK)


def test_messages_flow_through_two_real_brokers_by_content() -> None:
    async def test() -> None:
        async with two_brokers() as (pb, sb), client_of(pb) as publisher, client_of(sb) as subscriber:
            await linked(publisher, "sb")
            selected = await subscriber.subscribe("symbol = 'YHOO' and volume > 15").ready()
            everything = await subscriber.subscribe("symbol is not null").ready()
            assert selected.pending == ()
            ids = [await publisher.publish({"symbol": "YHOO", "volume": each}, b"%d" % each) for each in range(100)]
            await publisher.flush()
            received = [await selected.get() for _ in ids[16:]]
            assert [message.id for message in received] == ids[16:]
            assert (received[0].payload, received[0].pubend) == (b"16", "quotes")
            assert [(await everything.get()).attributes["volume"] for _ in range(100)] == list(range(100))
            with pytest.raises(UnknownPubendError, match="overlay test has no pubend 'nowhere'; there are: quotes"):
                await publisher.publish({"a": 1}, pubend="nowhere")
            await subscriber.publish({"symbol": "far", "volume": 0})
            await subscriber.flush()
            assert (await everything.get()).attributes["symbol"] == "far", "any broker takes messages for any pubend"

    run(test())


def test_clients_of_a_real_broker_come_back_after_its_restart() -> None:
    async def test() -> None:
        overlay = Overlay("test", {"b": BrokerPlace("b", 1, 0, pubends=("quotes",), best_effort=("quotes",))})
        node = BrokerNode(overlay, "b")
        await node.start()
        port = node.address[1]
        async with client_of(node) as client:
            subscription = await client.subscribe("n > 0").ready()
            await client.publish({"n": 1})
            assert (await subscription.get()).attributes == {"n": 1}
            await node.stop()
            await until(lambda: not client.is_connected)
            async with BrokerNode(with_port(overlay, "b", port), "b"):
                await subscription.ready()
                await client.publish({"n": 2})
                assert (await subscription.get()).attributes == {"n": 2}
                assert (await client.status()).clients == 1

    run(test())


def test_a_real_broker_checks_tokens_and_narrows_what_is_seen() -> None:
    async def test() -> None:
        rules = (Rule("bob", publish=None, subscribe=Selector.parse("public = TRUE")), Rule("%"))
        access = Access(tokens=TOKENS, rules=rules)
        overlay = Overlay(
            "test", {"b": BrokerPlace("b", 1, 0, pubends=("quotes",), best_effort=("quotes",))}, access=access
        )
        async with BrokerNode(overlay, "b") as node:
            address = f"penstock://127.0.0.1:{node.address[1]}"
            with pytest.raises(RefusedError, match=r"name 'bob': wrong or missing token$"):
                await connect(address, name="bob", token=TOKENS["ann"]).open()
            with pytest.raises(RefusedError, match="this is overlay test, not other"):
                await connect(address, name="bob", token=TOKENS["bob"], overlay="other").open()
            async with (
                connect(address, name="bob", token=TOKENS["bob"]) as bob,
                connect(address, name="ann", token=TOKENS["ann"], overlay="test") as ann,
            ):
                seen = await bob.subscribe("n > 0").ready()
                assert seen.selector == "n > 0 AND public = TRUE"
                await ann.publish_many([Message({"n": 1}), Message({"n": 2, "public": True})])
                assert (await seen.get()).attributes["n"] == 2
                await bob.publish({"n": 3})
                with pytest.raises(RefusedError, match="client bob may not publish"):
                    await bob.flush()

    run(test())


def test_a_real_broker_is_reached_through_tls_by_those_who_trust_it(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        place = BrokerPlace(
            "b", 1, 0, pubends=("quotes",), best_effort=("quotes",), tls=authority.issue("b", mutual=True)
        )
        async with BrokerNode(Overlay("test", {"b": place}), "b") as node:
            address = f"penstocks://127.0.0.1:{node.address[1]}"
            async with connect(address, tls=client_context(authority.issue("me"))) as client:
                subscription = await client.subscribe("TRUE").ready()
                await client.publish({"n": 1}, bytes(300_000))
                assert len((await subscription.get()).payload) == 300_000
            # At once: it does not get better by itself.
            with pytest.raises(ConnectionFailedError, match="certificate verify failed"):
                await connect(address, settings=ClientSettings(connect_timeout_ms=None)).open()
            nameless = ssl.create_default_context(cafile=str(authority.issue("me").ca))
            nameless.check_hostname = False
            with pytest.raises(ConnectionFailedError, match="it may want another certificate"):
                await connect(address, tls=nameless, settings=ONCE).open()

    run(test())


async def linked(client: Client, neighbour: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while neighbour not in (await client.status()).links:
            await asyncio.sleep(0.001)


async def cancelled_after(steps: int, work: Callable[[], Awaitable[object]], *, again: int = 0) -> bool:
    """Runs something and cancels it after so many turns of the loop, maybe again later; whether it had ended before."""

    async def body() -> None:
        await work()

    task = asyncio.create_task(body())
    for _ in range(steps + 1):
        if task.done():
            break
        await asyncio.sleep(0)
    has_ended = task.done()
    task.cancel()
    for _ in range(again):
        await asyncio.sleep(0)
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return has_ended


def own_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "penstock" in task.get_name()]


def is_cut(client: Client) -> bool:
    return client._shell.is_idle


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("again", [0, 1, 3])
def test_a_close_that_is_cancelled_at_any_step_leaves_nothing_behind(again: int, *, flush: bool) -> None:
    async def attempt(steps: int) -> bool:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            await client.publish({"n": 1})
            has_ended = await cancelled_after(steps, lambda: client.close(flush=flush), again=again)
            assert is_cut(client)
            assert own_tasks() == []
            assert isinstance(client.end, ClientClosedError)
            await client.close()
            await until(lambda: broker.peer.is_gone)
            return has_ended

    async def test() -> None:
        for steps in range(STEPS_MAX):
            if await attempt(steps):
                return
        pytest.fail("it never ended")

    run(test())


def test_an_open_that_is_cancelled_at_any_step_leaves_nothing_behind() -> None:
    async def attempt(steps: int) -> bool:
        async with ScriptedBroker() as broker:
            client = connect(broker.address)
            has_ended = await cancelled_after(steps, client.open)
            if has_ended:
                await client.close()
            # Connections are accepted in their order: behind this one, the broker knows the first one if there is any.
            async with connect(broker.address):
                pass
            await until(lambda: all(peer.is_gone for peer in broker.peers))
            assert is_cut(client)
            assert own_tasks() == []
            assert isinstance(client.end, ClientClosedError)
            return has_ended

    async def test() -> None:
        for steps in range(STEPS_MAX):
            if await attempt(steps):
                return
        pytest.fail("it never ended")

    run(test())


def test_a_second_close_waits_for_the_first() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            first = asyncio.create_task(client.close())
            second = asyncio.create_task(client.close())
            await second
            assert is_cut(client)
            await first
            assert len(broker.peer.of(Goodbye)) == 1

    run(test())


def test_a_second_close_does_not_claim_what_a_cancelled_one_could_not_flush() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=60_000)
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=settings).open()
            await client.publish({"n": 1})
            closing = asyncio.create_task(client.close())
            await until(lambda: len(broker.peer.of(Publish)) == 2)
            closing.cancel()
            with pytest.raises(ClientClosedError):
                await client.close()
            assert is_cut(client)
            with pytest.raises(asyncio.CancelledError):
                await closing
            await client.close()

    run(test())


def test_a_broker_that_takes_nothing_does_not_hold_up_who_gives_up() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=60_000)
        async with ScriptedBroker() as broker:
            client = await connect(broker.address, settings=settings).open()
            transport = broker.peer.transport
            connection = client._shell.connection
            assert transport is not None
            assert connection is not None
            assert connection._transport is not None
            transport.pause_reading()
            connection._transport.write(bytes(50_000_000))
            closing = asyncio.create_task(client.close())
            await until(lambda: client.end is not None)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert is_cut(client)

    run(test())


def test_whoever_waits_is_cancelled_when_the_task_has_ended_and_not_before() -> None:
    async def test() -> None:
        may_end, hurried = asyncio.Event(), []
        task = asyncio.create_task(may_end.wait())
        waiting = asyncio.create_task(finished(task, hurry=lambda: hurried.append(1)))
        await asyncio.sleep(0)
        for count in (1, 2):
            waiting.cancel()
            await until(lambda count=count: len(hurried) == count)  # type: ignore[misc]
            assert not waiting.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(test())


def test_what_the_task_raised_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def test() -> None:
        with pytest.raises(ValueError, match="broken"):
            await finished(asyncio.create_task(fail()), hurry=lambda: None)

    run(test())


def test_a_client_knows_the_pubends_of_the_overlay() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.pubends, broker.best_effort, broker.others = ("a", "b"), ("b",), (("c", "far", True),)
            client = connect(broker.address, settings=QUICK)
            assert client.pubends == {}
            async with client:
                places = {
                    "a": PubendPlace("scripted", is_guaranteed=True),
                    "b": PubendPlace("scripted", is_guaranteed=False),
                    "c": PubendPlace("far", is_guaranteed=True),
                }
                assert client.pubends == places
                broker.peer.send(PubendPlaces((("d", "far", False),), ("c",)))
                await until(lambda: "d" in client.pubends)
                assert [*client.pubends] == ["a", "b", "d"]
                with pytest.raises(TypeError):
                    client.pubends["e"] = places["a"]  # type: ignore[index]

    run(test())


def test_a_pubend_that_holds_back_its_publishers_keeps_nobody_from_publishing_to_another() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.pubends, broker.credit_bytes = ("a", "b"), 100
            broker.answers[Publish] = lambda frame: [] if frame.pubend == "a" else [acknowledgement(frame)]
            async with connect(broker.address) as client:
                await client.publish({"n": 0}, bytes(100), pubend="a")
                waiting = asyncio.create_task(client.publish({"n": 1}, bytes(100), pubend="a"))
                for number in range(20):
                    await client.publish({"n": number}, bytes(50), pubend="b")
                assert not waiting.done()
                del broker.answers[Publish]
                broker.peer.send(acknowledgement(next(each for each in broker.peer.of(Publish) if each.pubend == "a")))
                await waiting
                await client.flush()
                assert numbers_in([each for each in broker.peer.of(Publish) if each.pubend == "a"]) == [0, 1]
                assert numbers_in([each for each in broker.peer.of(Publish) if each.pubend == "b"]) == list(range(20))

    run(test())


def test_a_message_waits_while_nobody_knows_whether_its_pubend_exists() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.is_complete = False
            async with connect(broker.address) as client:
                found = asyncio.create_task(client.publish({"n": 1}, pubend="far"))
                missed = asyncio.create_task(client.publish({"n": 2}, pubend="nowhere"))
                await client.publish({"n": 3})
                await client.status()
                assert (found.done(), missed.done()) == (False, False)
                broker.peer.send(PubendPlaces((("far", "home", True),)))
                await found
                with pytest.raises(UnknownPubendError, match="no pubend 'nowhere'; there are: far, quotes"):
                    await missed
                with pytest.raises(UnknownPubendError):
                    client.publish_nowait({"n": 4}, pubend="nowhere")
                with pytest.raises(UnknownPubendError):
                    await client.publish_many([Message({"n": 4})], pubend="nowhere")

    run(test())
