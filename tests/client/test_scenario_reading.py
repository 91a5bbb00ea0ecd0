"""Logs of real brokers with real stores, read by clients while brokers, connections and other readers come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.scripted import LIMIT_S, QUICK, run, until
from live.support import FAST, FramePeer, guaranteed, place_of
from penstock.broker.broker import Broker
from penstock.client.client import Client, connect
from penstock.client.reading import LogPart, LogReading
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.message import Message
from penstock.protocol.frames import Frame, LogAnswer, LogRequest, LogSpan, ReadRequest, SurveyRequest
from penstock.session.errors import RefusedError
from penstock.session.received import Received

PUBEND = "pb.a"
COUNT = 200


def pair(folder: Path) -> Overlay:
    """A broker with a pubend, and one behind it without; on ports that they keep over restarts."""
    ports = free_ports(2)
    host = BrokerPlace(name="sb", number=2, port=ports[1], tunables=dict(FAST))
    origin = replace(place_of("pb", 1), best_effort=(), data=folder, port=ports[0])
    return Overlay(name="test", brokers={"pb": origin, "sb": host}, links=(("sb", "pb"),))


@asynccontextmanager
async def running(overlay: Overlay) -> AsyncIterator[tuple[BrokerNode, BrokerNode]]:
    async with BrokerNode(overlay, "pb") as origin, BrokerNode(overlay, "sb") as host:
        await until(lambda: sees(host))
        yield origin, host
        assert (origin.counters.bugs, host.counters.bugs) == (0, 0)


def sees(host: BrokerNode) -> bool:
    assert isinstance(host.broker, Broker)
    return PUBEND in host.broker._topology.guaranteed() and "pb" in host.broker._connections.links


def url(node: BrokerNode) -> str:
    return "penstock://{}:{}".format(*node.address)


async def publish(node: BrokerNode, count: int = COUNT) -> None:
    async with connect(url(node), settings=QUICK) as publisher:
        await publisher.publish_many([Message({"number": number}, bytes(100)) for number in range(count)])
        await publisher.flush()


def numbers(*parts: LogPart) -> list[Any]:
    found = [Received(part.pubend, *row) for part in parts for row in zip(part.ticks, part.bodies, strict=True)]
    return [each.attributes["number"] for each in found]


def check_that_they_cover(parts: list[LogPart], first: int, last: int) -> None:
    assert [part.first for part in parts] == [first, *(part.last + 1 for part in parts[:-1])]
    assert parts[-1].last == last
    assert not any(part.lost for part in parts if part.first >= first)


async def span(client: Client) -> tuple[int, int]:
    found = (await client.survey()).spans[PUBEND]
    return found.earliest, found.latest


def test_a_client_behind_another_broker_reads_all_there_is_in_parts_of_any_size(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(pair(tmp_path)) as (origin, host), connect(url(host), settings=QUICK) as client:
            await publish(origin)
            first, last = await span(client)
            for size in (1, 500, 10**6):
                parts = [part async for part in client.read(PUBEND, first, last, bytes_max=size)]
                check_that_they_cover(parts, first, last)
                assert numbers(*parts) == list(range(COUNT))
            some = [part async for part in client.read(PUBEND, first, last, "number >= 10 AND number < 20")]
            assert numbers(*some) == list(range(10, 20))

    run(test())


def test_two_readings_and_a_subscription_share_a_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(pair(tmp_path)) as (origin, host), connect(url(host), settings=QUICK) as client:
            await publish(origin)
            first, last = await span(client)
            subscription = await client.subscribe("number >= 0").ready()

            async def read(size: int) -> list[Any]:
                return numbers(*[part async for part in client.read(PUBEND, first, last, bytes_max=size)])

            readings = [asyncio.create_task(read(size)) for size in (100, 1_000, 3_000)]
            await publish(origin)
            heard = [(await subscription.get()).attributes["number"] for _ in range(COUNT)]
            assert heard == list(range(COUNT))
            for reading in readings:
                assert await reading == list(range(COUNT))

    run(test())


@pytest.mark.parametrize("victim", ["pb", "sb"])
def test_a_reading_survives_the_restart_of_a_broker_and_is_exact(tmp_path: Path, victim: str) -> None:
    async def test() -> None:
        overlay = pair(tmp_path)
        origin, host = BrokerNode(overlay, "pb"), BrokerNode(overlay, "sb")
        await origin.start()
        await host.start()
        await until(lambda: sees(host))
        await publish(origin)
        async with connect(url(host), settings=QUICK) as client:
            first, last = await span(client)
            reading = LogReading(client._ask, again_ms=50).read(PUBEND, first, last, "TRUE", bytes_max=2_000)
            parts = [await anext(reading)]
            if victim == "pb":
                await origin.stop()
                origin = BrokerNode(overlay, "pb")
                await origin.start()
            else:
                await host.stop()
                host = BrokerNode(overlay, "sb")
                await host.start()
            await until(lambda: sees(host))
            parts += [part async for part in reading]
            check_that_they_cover(parts, first, last)
            assert numbers(*parts) == list(range(COUNT))
        for node in (host, origin):
            assert node.counters.bugs == 0
            await node.stop()

    run(test())


def test_a_survey_names_a_pubend_whose_broker_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        overlay = pair(tmp_path)
        async with BrokerNode(overlay, "sb") as host:
            async with BrokerNode(overlay, "pb"):
                await until(lambda: sees(host))
            async with connect(url(host), settings=QUICK) as client:
                survey = await client.survey()
                assert (survey.spans, survey.unreachable) == ({}, (PUBEND,))

    run(test())


def test_a_damaged_record_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    async def test() -> None:
        overlay = guaranteed(tmp_path, name="pb")
        async with BrokerNode(overlay, "pb") as node, connect(url(node)) as client:
            for number in range(3):
                await client.publish({"number": number}, b"payload-%d" % number)
                await client.flush()
            first, last = await span(client)
            ticks = [tick async for part in client.read(PUBEND, first, last) for tick in part.ticks]
        deface(tmp_path, b"payload-1")
        async with BrokerNode(overlay, "pb") as node, connect(url(node)) as client:
            parts = [part async for part in client.read(PUBEND, first, last)]
            assert numbers(*parts) == [0, 2]
            assert [each for part in parts for each in part.lost] == [(ticks[1], ticks[1])]
            assert (parts[0].first, parts[-1].last) == (first, last)

    run(test())


def deface(folder: Path, text: bytes) -> None:
    """Changes bytes of a record where they lie."""
    found = [(path, data) for path in folder.rglob("*") if path.is_file() and text in (data := path.read_bytes())]
    assert found, "the record is not to be found"
    for path, data in found:
        with path.open("r+b") as file:
            file.seek(data.index(text))
            file.write(b"X" * len(text))


def test_what_is_yet_to_come_and_what_nobody_has_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(pair(tmp_path)) as (_, host), connect(url(host)) as client:
            _, last = await span(client)
            with pytest.raises(RefusedError, match="is in the future"):
                await anext(client.read(PUBEND, last + 2**40, last + 2**40))
            with pytest.raises(RefusedError, match=r"no guaranteed pubend 'x' in this overlay; there are: pb\.a"):
                await anext(client.read("x", 0, 1))

    run(test())


def test_a_client_that_vanishes_in_the_middle_leaves_nothing_at_any_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(pair(tmp_path)) as (origin, host):
            await publish(origin)
            for _ in range(5):
                peer = await FramePeer.client(host.address)
                for number in range(10):
                    peer.send(ReadRequest(number, PUBEND, 0, 2**62, "TRUE", 100))
                await peer.drain()
                await peer.close()
            await until(lambda: all(is_idle(node) for node in (origin, host)))
            async with connect(url(host)) as client:
                first, last = await span(client)
                assert numbers(*[part async for part in client.read(PUBEND, first, last)]) == list(range(COUNT))

    run(test())


def is_idle(node: BrokerNode) -> bool:
    assert isinstance(node.broker, Broker)
    desk = node.broker._log_desk
    serving = desk._serving
    return not any((desk._readings, desk._surveys, serving._waiting, serving._under_way, serving._keys))


def test_a_client_that_floods_a_broker_with_requests_and_reads_nothing_is_sent_away(tmp_path: Path) -> None:
    async def test() -> None:
        overlay = guaranteed(
            tmp_path, name="pb", tunables={**FAST, "client_outbox_bytes": 200_000, "silent_ms": 60_000}
        )
        async with BrokerNode(overlay, "pb") as node:
            await publish(node, 20)
            peer = await FramePeer.client(node.address)
            peer._task.cancel()
            most = 0
            assert isinstance(node.broker, Broker)
            for number in range(10**6):
                if not node.broker._log_desk._rooms.connections.peers:
                    break
                peer.send(ReadRequest(number, PUBEND, 0, 2**62, "TRUE", 10**6))
                await asyncio.sleep(0)
                most = max(most, node.broker._connections.waiting_bytes())
            assert most < 250_000
            assert node.counters.bugs == 0
            await peer.close()

    run(test())


HOSTILE: list[Frame] = [
    LogRequest(PUBEND, "pb", 1, 0, 9, 9),
    LogSpan(PUBEND, "pb", 1, 0, 9),
    LogAnswer(PUBEND, "pb", 1, (0, 9), [3], [b"x"]),
]


def test_hostile_frames_end_their_own_connection_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with BrokerNode(guaranteed(tmp_path, name="pb"), "pb") as node:
            await publish(node, 5)
            for frame in HOSTILE:
                peer = await FramePeer.client(node.address)
                peer.send(frame)
                goodbye = await peer.over()
                assert goodbye is not None
                assert goodbye.code == "protocol"
            odd = await FramePeer.client(node.address)
            odd.send(ReadRequest(2**62, PUBEND, 0, 2**62, "TRUE", 2**62), SurveyRequest(-(2**62)))
            assert (await odd.get(LogAnswer)).number == 2**62
            await odd.close()
            assert node.counters.bugs == 0

    run(test())


def test_threads_read_with_one_blocking_client_and_leave_early(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(pair(tmp_path)) as (origin, host):
            await publish(origin)
            await asyncio.to_thread(blocking, url(host))
            await until(lambda: is_idle(host))

    def blocking(address: str) -> None:
        with connect_sync(address) as client:
            found = client.survey().spans[PUBEND]
            seen: dict[int, list[Any]] = {}

            def read(size: int) -> None:
                parts = client.read(PUBEND, found.earliest, found.latest, bytes_max=size)
                seen[size] = numbers(*parts) if size % 2 else numbers(next(parts))

            threads = [threading.Thread(target=read, args=(100 * place + place,)) for place in range(1, 7)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LIMIT_S)
            for size, each in seen.items():
                assert each == (list(range(COUNT)) if size % 2 else list(range(len(each))))
            assert len(seen) == 6

    run(test())
