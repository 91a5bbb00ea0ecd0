"""A broker in the real world, with a broker of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random

import pytest

from live.certificates import Authority
from live.support import FakeBroker, FramePeer, lone, row, run, until, with_port
from penstock.broker.access import Access
from penstock.broker.effects import Close, Effect, Record
from penstock.live.connection import Connection
from penstock.live.errors import ConfigError, ExposedError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay, Security
from penstock.live.tls import client_context
from penstock.protocol.codec import encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import PROTOCOL_VERSION, Deliver, Goodbye, Heartbeat, Hello, Welcome
from penstock.system.logs import configure_logs

HELLO = Hello(1, "client", "c", "test")
LOOPS = pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])


@LOOPS
def test_frames_go_to_the_broker_and_its_answers_come_back(plain: bool) -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        broker.on_receive = lambda connection, frames: broker.say(connection, *frames)
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            peer.send(HELLO, Goodbye("a", "b"))
            await peer.get(Goodbye)
            assert peer.heard == [HELLO, Goodbye("a", "b")]
            assert broker.asked[:3] == [("connect", 1, "", ""), *(("receive", 1, [each]) for each in peer.heard)]
            assert broker.source == "127.0.0.1"
            await peer.close()
            await until(lambda: broker.count("disconnect") == 1)
            assert node.counters.open_connections == 0
        assert broker.count("shutdown") == 1
        assert len(asyncio.all_tasks()) == 1

    run(scenario(), plain=plain)


def test_what_follows_from_all_frames_of_a_turn_is_asked_for_once() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peers = [await FramePeer.dial(node.address) for _ in range(3)]
            for peer in peers:
                peer.send(HELLO)
            await until(lambda: broker.count("receive") == 3)
            node.turns.end()
            before = broker.finished
            for connection in list(node._connections.values()):
                node.on_frames(connection, [Heartbeat(0)])
            assert broker.finished == before
            node.turns.end()
            assert (broker.count("receive"), broker.finished) == (6, before + 1)
            for peer in peers:
                await peer.close()

    run(scenario())


def test_those_who_spoke_in_a_turn_pay_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[tuple[int, float]] = []
    monkeypatch.setattr(Connection, "charge", lambda each, took_s: charged.append((each.number, took_s)))

    async def scenario() -> None:
        now_s = 0.0
        took_s = 0.0

        class Slow(FakeBroker):
            def finish(self, *, now_ms: int) -> Sequence[Effect]:
                nonlocal now_s
                now_s += took_s
                return super().finish(now_ms=now_ms)

        broker = Slow()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            monkeypatch.setattr(node.turns, "clock", lambda: now_s)
            peers = [await FramePeer.dial(node.address) for _ in range(3)]
            for peer in peers:
                peer.send(HELLO)
            await until(lambda: broker.count("receive") == 3)
            node.turns.end()
            charged.clear()
            took_s = 0.02
            for connection in list(node._connections.values())[:2]:
                node.on_frames(connection, [Heartbeat(0)])
            node.turns.end()
            assert [number for number, _ in charged] == [1, 2]
            assert sum(each_s for _, each_s in charged) == pytest.approx(0.02)
            for peer in peers:
                await peer.close()

    run(scenario())


def test_the_broker_hears_of_a_large_frame_before_all_of_it_is_there() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            large = encode_frame(Deliver(0, [1], [b""], [b"x" * 100_000]))
            peer.send(HELLO)
            await until(lambda: broker.count("receive") == 1)
            peer.send_bytes(large[:50_000])
            await until(lambda: ("progress", 1, 50_000) in broker.asked)
            assert broker.count("receive") == 1
            peer.send_bytes(large[50_000:])
            await until(lambda: broker.count("receive") == 2)
            await peer.close()

    run(scenario())


@LOOPS
def test_more_than_a_transport_takes_arrives_in_order(plain: bool) -> None:
    async def scenario() -> None:
        broker, count = FakeBroker(), 10_000
        many = [Deliver(0, [tick], [b""], [b"x" * 2_000]) for tick in range(count)]
        broker.on_receive = lambda connection, _frames: broker.say(connection, *many)
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            peer.send(HELLO)
            await peer.deliveries(count)
            assert [each.ticks[0] for each in peer.all(Deliver)] == list(range(count))
            assert node.counters.writes < count
            await peer.close()

    run(scenario(), plain=plain)


def test_a_broker_that_closes_a_connection_is_not_told_of_its_end() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        broker.on_receive = lambda connection, _frames: [
            *broker.say(connection, Goodbye("refused", "no")),
            Close(connection, "refused", "no"),
        ]
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            peer.send(HELLO)
            assert await peer.over() == Goodbye("refused", "no")
            await until(lambda: node.counters.open_connections == 0)
            assert broker.count("disconnect") == 0

    run(scenario())


def test_bytes_that_are_no_frame_end_their_connection_and_are_counted() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            peer.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
            goodbye = await peer.over()
            assert goodbye is not None
            assert goodbye.code == "protocol"
            assert "is not in 1 .." in goodbye.reason
            assert (node.counters.malformed, broker.count("disconnect")) == (1, 1)

    run(scenario())


@pytest.mark.parametrize(
    ("error", "code"), [(ProtocolError("out of order"), "protocol"), (RuntimeError("a bug"), "internal")]
)
def test_a_broker_that_fails_costs_one_connection(error: Exception, code: str) -> None:
    async def scenario() -> None:
        broker = FakeBroker()

        def fail(connection: int, frames: list[object]) -> list[Effect]:
            if connection == 1:
                raise error
            return []

        broker.on_receive = fail  # type: ignore[assignment]
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            one, two = await FramePeer.dial(node.address), await FramePeer.dial(node.address)
            one.send(HELLO)
            goodbye = await one.over()
            assert goodbye is not None
            assert goodbye.code == code
            two.send(HELLO)
            await until(lambda: broker.count("receive") == 2)
            assert not two.is_over
            assert node.counters.bugs == (code == "internal")
            assert broker.count("disconnect") == 1
            await two.close()

    run(scenario())


def test_a_frame_that_cannot_be_encoded_costs_one_connection() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        # All connections have something to say in the same turn.
        broker.on_receive = lambda _connection, _frames: [
            *broker.say(1, Heartbeat(2**64)),
            *(effect for connection in (2, 3) for effect in broker.say(connection, Goodbye("a", "b"))),
        ]
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peers = []
            for count in (1, 2, 3):
                peers.append(await FramePeer.dial(node.address))
                await until(lambda seen=count: broker.count("connect") == seen)  # type: ignore[misc]
            peers[1].send(HELLO)
            goodbye = await peers[0].over()
            assert goodbye is not None
            assert goodbye.code == "internal"
            assert [await peer.get(Goodbye) for peer in peers[1:]] == [Goodbye("a", "b")] * 2
            assert (node.counters.bugs, broker.count("disconnect")) == (1, 1)
            await asyncio.gather(*(peer.close() for peer in peers))

    run(scenario())


def test_the_timer_follows_the_deadline() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            broker.deadline_ms = node.clock.now_ms() + 10_000
            peer.send(HELLO)
            await until(lambda: broker.count("receive") == 1)
            for place, delay_ms in enumerate((30, 0, -5), start=1):
                broker.deadline_ms = deadline_ms = node.clock.now_ms() + delay_ms
                peer.send(HELLO)
                await until(lambda count=place: broker.count("deadline") == count)  # type: ignore[misc]
                assert broker.asked[-1][0] == "deadline"
                assert broker.asked[-1][2] >= deadline_ms
            await peer.close()

    run(scenario())


def test_a_deadline_that_moves_away_is_waited_for() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            await until(lambda: broker.count("connect") == 1)
            for delay_ms in (20, 60):
                broker.deadline_ms = deadline_ms = node.clock.now_ms() + delay_ms
                peer.send(HELLO)
            await until(lambda: broker.count("deadline") == 1)
            assert broker.asked[-1][2] >= deadline_ms
            await peer.close()

    run(scenario())


class FailingBroker(FakeBroker):
    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        super().on_deadline(now_ms=now_ms)
        raise RuntimeError("a bug")


def test_a_deadline_that_fails_is_counted_and_the_next_is_kept() -> None:
    async def scenario() -> None:
        broker = FailingBroker()
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            for bugs in (1, 2):
                broker.deadline_ms = 1
                peer.send(HELLO)
                await until(lambda count=bugs: node.counters.bugs == count)  # type: ignore[misc]
            assert not peer.is_over
            await peer.close()

    run(scenario())


def test_everybody_is_told_of_the_end() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        node = BrokerNode(lone(), "b1", broker=broker)
        await node.start()
        peers = [await FramePeer.dial(node.address) for _ in range(3)]
        await until(lambda: broker.count("connect") == 3)
        assert node.status().serving
        await node.stop()
        await node.stop()
        assert not node.status().serving
        assert [await peer.over() for peer in peers] == [Goodbye("shutdown", "bye")] * 3
        assert node.counters.open_connections == 0

    run(scenario())


def test_a_node_that_was_not_started_can_be_stopped() -> None:
    run(BrokerNode(lone(), "b1", broker=FakeBroker()).stop())


def test_links_are_dialled_and_dialled_again() -> None:
    async def scenario() -> None:
        overlay, first, second = row("b1", "b2"), FakeBroker(), FakeBroker()
        node = BrokerNode(overlay, "b1", broker=first)
        await node.start()
        port = node.address[1]
        overlay = with_port(overlay, "b1", port)
        async with BrokerNode(overlay, "b2", broker=second, rng=Random(1)) as dialling:
            await until(lambda: first.count("connect") == 1 and second.count("connect") == 1)
            assert second.asked[0] == ("connect", 1, "b1", "")
            assert first.asked[0] == ("connect", 1, "", "")
            await node.stop()
            await until(lambda: dialling.counters.dials_failed > 0)
            async with BrokerNode(overlay, "b1", broker=FakeBroker()):
                await until(lambda: second.count("connect") == 2)
            assert second.asked[-1][:2] != ("connect", 1)

    run(scenario())


def test_an_address_that_is_taken_is_said_so() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node:
            other = BrokerNode(with_port(lone(), "b1", node.address[1]), "b1", broker=FakeBroker())
            with pytest.raises(ConfigError, match=r"broker b1 cannot listen at 127\.0\.0\.1:\d+: .*in use"):
                await other.start()

    run(scenario())


def test_an_admin_port_that_is_taken_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node:
            overlay = lone()
            place = replace(overlay.brokers["b1"], admin_port=node.address[1])
            other = BrokerNode(replace(overlay, brokers={"b1": place}), "b1", broker=FakeBroker())
            with pytest.raises(ConfigError, match="admin API cannot listen"):
                await other.start()
            assert not other.is_serving
            assert len(asyncio.all_tasks()) == 1

    run(scenario())


def test_a_broker_open_to_the_world_does_not_start() -> None:
    overlay = lone()
    place = replace(overlay.brokers["b1"], bind="0.0.0.0")  # noqa: S104 - it must not
    node = BrokerNode(replace(overlay, brokers={"b1": place}), "b1", broker=FakeBroker())
    with pytest.raises(ExposedError):
        run(node.start())


def secured(names: tuple[str, ...], folder: Path, *, mutual: bool = True) -> tuple[Overlay, Authority]:
    overlay, authority = row(*names), Authority(folder)
    brokers = {
        name: replace(place, tls=authority.issue(name, mutual=mutual)) for name, place in overlay.brokers.items()
    }
    access = Access(certificates=mutual)
    return replace(overlay, brokers=brokers, security=Security(mutual=mutual), access=access), authority


@LOOPS
def test_with_mutual_tls_both_ends_of_a_link_know_each_other(plain: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay, authority = secured(("b1", "b2"), tmp_path)
        first, second = FakeBroker(), FakeBroker()
        async with BrokerNode(overlay, "b1", broker=first) as node:
            async with BrokerNode(with_port(overlay, "b1", node.address[1]), "b2", broker=second):
                await until(lambda: first.count("connect") == 1 and second.count("connect") == 1)
            assert first.asked[0] == ("connect", 1, "", "b2")
            assert second.asked[0] == ("connect", 1, "b1", "b1")
            peer = await FramePeer.dial(node.address, context=client_context(authority.issue("feed")))
            await until(lambda: ("connect", 2, "", "feed") in first.asked)
            peer.send_bytes(b"\0\0\0\0")
            goodbye = await peer.over()
            assert goodbye is not None
            assert goodbye.code == "protocol"

    run(scenario(), plain=plain)


def test_a_neighbour_with_the_certificate_of_another_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay, authority = secured(("b1", "b2"), tmp_path, mutual=False)
        wrong = replace(overlay.brokers["b1"], tls=authority.issue("mallory"))
        forged = replace(overlay, brokers=dict(overlay.brokers) | {"b1": wrong})
        second = FakeBroker()
        async with BrokerNode(forged, "b1", broker=FakeBroker()) as node:
            async with BrokerNode(with_port(overlay, "b1", node.address[1]), "b2", broker=second) as dialling:
                await until(lambda: dialling.counters.closed > 0)
            assert second.count("connect") == 0

    run(scenario())


@pytest.mark.parametrize("role", ["broker", "client"])
def test_with_mutual_tls_a_certificate_without_a_name_is_nobody(role: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay, authority = secured(("b1", "b2"), tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            peer = await FramePeer.dial(node.address, context=client_context(authority.issue("")))
            peer.send(Hello(PROTOCOL_VERSION, role, "b2", "test", 1))
            goodbye = await peer.over()
            assert goodbye is not None
            assert goodbye.code == "refused"
            assert (node.status().broker.links, node.status().broker.clients) == ([], 0)

    run(scenario())


def test_plain_bytes_at_a_tls_port_harm_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay, authority = secured(("b1",), tmp_path, mutual=False)
        broker = FakeBroker()
        broker.on_receive = lambda connection, _frames: broker.say(connection, Heartbeat(), HELLO)
        async with BrokerNode(overlay, "b1", broker=broker) as node:
            stranger = await FramePeer.dial(node.address)
            stranger.send(HELLO)
            await until(lambda: stranger.is_over)
            assert stranger.all(Welcome) == []
            await stranger.close()
            peer = await FramePeer.dial(node.address, context=client_context(authority.issue("c")))
            peer.send(HELLO)
            await peer.get(Hello)
            await peer.close()

    run(scenario())


def test_the_status_has_the_brokers_and_the_shells_figures() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node:
            status = node.status()
            assert (status.name, status.overlay, status.serving) == ("b1", "test", True)
            assert status.broker.subscriptions == 3
            assert status.node["accepted"] == 0
            assert status.address == f"127.0.0.1:{node.address[1]}"

    run(scenario())


class NobodyKnown(FakeBroker):
    """Knows nobody, and sends away whoever says anything."""

    def knows(self, connection: int) -> bool:
        return False


def test_strangers_cause_few_lines_in_the_log_however_many_they_are() -> None:
    async def scenario() -> None:
        broker = NobodyKnown()
        broker.on_receive = lambda connection, _frames: [
            Record("client-refused", (("peer", connection), ("client", "me"))),
            Close(connection, "refused", "not you"),
            Record("closed", (("peer", str(connection)), ("code", "refused"))),
        ]
        async with BrokerNode(lone(), "b1", broker=broker) as node:
            for data in (encode_frame(HELLO), b"GET / HTTP/1.1\r\n\r\n"):
                for _ in range(15):
                    peer = await FramePeer.dial(node.address)
                    peer.send_bytes(data)
                    await peer.over()
            await until(lambda: node.counters.open_connections == 0)

    stream = StringIO()
    configure_logs(stream=stream)
    run(scenario())
    lines = stream.getvalue().splitlines()
    assert sum(" closed " in line for line in lines) == 10
    assert sum(" client-refused " in line for line in lines) == 10
    assert sum(" malformed " in line for line in lines) == 10
