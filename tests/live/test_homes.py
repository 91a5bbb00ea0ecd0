"""Homes of pubends at their candidates, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import psycopg
import pytest

import penstock
from live.support import place_of, run, until
from penstock.broker.candidate import LeaseSettings
from penstock.lab.databases import DatabaseServer, database_folder, missing_reason
from penstock.live.errors import ConfigError
from penstock.live.homes import Homes, lease_clock_ms
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Database, Home, Overlay, number_for
from penstock.live.tenure import Tenure

_LEASE = LeaseSettings(lease_ms=20_000)
"""None runs out while a test takes its time, however busy the machine is."""
_SHORT_LEASE = LeaseSettings(lease_ms=1_000)
_LONG_LEASE = LeaseSettings(lease_ms=260_000)
"""Its holder renews it so rarely that a test cannot wait for that."""


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    """A database that the tests of this module share: each has an overlay of its own."""
    if missing_reason():
        pytest.skip(missing_reason())
    with database_folder() as folder, DatabaseServer(folder / "db") as server:
        yield server.make().start()


def overlay_of(name: str, url: str, *, lease: LeaseSettings = _LEASE) -> Overlay:
    """Candidates pb1 and pb2 of the pubend orders, and sb1, which dials both."""
    brokers = {each: replace(place_of(each, 0), pubends=(), best_effort=()) for each in ("pb1", "pb2", "sb1")}
    brokers = {each: replace(place, number=number_for(each)) for each, place in brokers.items()}
    place = BrokerPlace(
        name="orders.home",
        number=number_for("orders.home"),
        port=0,
        pubends=("orders",),
        database=Database(url),
        tunables=brokers["pb1"].tunables,
    )
    home = Home(place, ("pb1", "pb2"), lease)
    links = (("pb2", "pb1"), ("sb1", "pb1"), ("sb1", "pb2"))
    return Overlay(name=name, brokers=brokers, links=links, homes={home.name: home})


@asynccontextmanager
async def running(overlay: Overlay) -> AsyncIterator[dict[str, BrokerNode]]:
    """All brokers of the overlay; each is told the ports of those before it."""
    nodes: dict[str, BrokerNode] = {}
    async with AsyncExitStack() as stack:
        for name in overlay.brokers:
            ports = {each: node.address[1] for each, node in nodes.items()}
            brokers = {each: replace(place, port=ports.get(each, 0)) for each, place in overlay.brokers.items()}
            nodes[name] = await stack.enter_async_context(BrokerNode(replace(overlay, brokers=brokers), name))
        yield nodes


async def holder_of(nodes: dict[str, BrokerNode], *, but: str = "") -> BrokerNode:
    """The broker that runs the home, as soon as one does."""
    await until(lambda: any(node.homes.brokers() for name, node in nodes.items() if name != but))
    return next(node for name, node in nodes.items() if name != but and node.homes.brokers())


def candidates_of(nodes: dict[str, BrokerNode]) -> list[BrokerNode]:
    return [node for node in nodes.values() if node.homes.candidacies()]


async def served(node: BrokerNode) -> None:
    """Wait until the broker reaches the pubend."""
    await until(lambda: "orders.home" in node.broker.status().brokers)


@asynccontextmanager
async def client_of(node: BrokerNode) -> AsyncIterator[penstock.Client]:
    async with penstock.connect("penstock://{}:{}".format(*node.address)) as client:
        yield client


def test_the_first_candidate_runs_the_home_and_others_know_it(
    server: DatabaseServer, request: pytest.FixtureRequest
) -> None:
    async def story() -> None:
        async with running(overlay_of(request.node.name, server.url)) as nodes:
            holder = await holder_of(nodes)
            (status,) = holder.homes.candidacies()
            assert (status.pubend, status.candidates, status.holder) == ("orders", ["pb1", "pb2"], holder.name)
            assert status.epoch == 1
            assert status.problem == ""
            assert holder.broker.status().homes["orders.home"].pubends == ["orders"]
            other = nodes["pb2" if holder.name == "pb1" else "pb1"]
            await until(lambda: other.homes.candidacies()[0].holder == holder.name)
            assert other.homes.candidacies()[0].epoch == 0

    run(story())


def test_a_pubend_moves_and_nothing_is_lost_or_doubled(server: DatabaseServer, request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        async with running(overlay_of(request.node.name, server.url, lease=_LONG_LEASE)) as nodes:
            holder = await holder_of(nodes)
            await served(nodes["sb1"])
            other = "pb2" if holder.name == "pb1" else "pb1"
            async with client_of(nodes["sb1"]) as client:
                wanted = await client.subscribe("n >= 0").ready()
                publishing = asyncio.create_task(publish(client, 600))
                await holder.homes.move("orders", other)
                assert [message["n"] async for message in limited(wanted, 600)] == [*range(600)]
                await publishing
                assert (await holder_of(nodes, but=holder.name)).name == other
                await publish(client, 10)
                assert [message["n"] async for message in limited(wanted, 10)] == [*range(10)]
            assert nodes[other].homes.candidacies()[0].epoch == 2

    run(story())


def test_when_the_holder_dies_another_candidate_goes_on(server: DatabaseServer, request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        async with running(overlay_of(request.node.name, server.url, lease=_SHORT_LEASE)) as nodes:
            await served(nodes["sb1"])
            async with client_of(nodes["sb1"]) as client:
                wanted = await client.subscribe("n >= 0").ready()
                publishing = asyncio.create_task(publish(client, 600))
                # Only now, since on a busy machine a short lease may run out, and another one have the home.
                holder = await holder_of(nodes)
                epoch = holder.homes.candidacies()[0].epoch
                await died(holder)
                assert [message["n"] async for message in limited(wanted, 600)] == [*range(600)]
                await publishing
            assert (await holder_of(nodes, but=holder.name)).homes.candidacies()[0].epoch > epoch

    run(story())


def test_what_a_home_could_not_do_is_told(request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        async with running(overlay_of(request.node.name, "postgresql://penstock@127.0.0.1:1/postgres")) as nodes:
            await until(
                lambda: "no server among 127.0.0.1:1 is a primary" in nodes["pb1"].homes.candidacies()[0].problem
            )

    run(story())


def test_what_a_home_waits_for_when_it_begins_is_told(server: DatabaseServer, request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        overlay = overlay_of(request.node.name, server.url)
        (home,) = overlay.homes.values()
        database = replace(home.database, replicas_min=1)
        waiting = replace(home, place=replace(home.place, database=database))
        async with running(replace(overlay, homes={home.name: waiting})) as nodes:
            wanted = "the database waits for 0 standbys with each commit, and replicas_min is 1"
            await until(lambda: wanted in [node.homes.candidacies()[0].problem for node in candidates_of(nodes)])

    run(story())


def test_why_a_home_could_not_run_is_told_until_it_runs(server: DatabaseServer, request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        overlay = overlay_of(request.node.name, server.url, lease=_SHORT_LEASE)
        async with running(overlay) as nodes:
            await holder_of(nodes)
        server.execute("UPDATE penstock.format SET version = 2")
        try:
            async with running(overlay) as nodes:
                candidates = candidates_of(nodes)
                # Each has its turn, and asks the database often in between.
                await until(lambda: all("of format 2" in node.homes.candidacies()[0].problem for node in candidates))
                server.execute("UPDATE penstock.format SET version = 1")
                holder = await holder_of(nodes)
                await until(lambda: not holder.homes.candidacies()[0].problem)
        finally:
            server.execute("UPDATE penstock.format SET version = 1")

    run(story())


def test_a_candidate_goes_on_asking_after_the_database_has_denied_what_it_needs(
    server: DatabaseServer, request: pytest.FixtureRequest
) -> None:
    server.execute("CREATE ROLE plain LOGIN")
    server.execute("CREATE DATABASE hardened OWNER plain")
    own, url = f"{server.url.rpartition('/')[0]}/hardened", server.url.replace("penstock@", "plain@")
    with psycopg.connect(own, autocommit=True) as hardened:
        hardened.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")

        async def story() -> None:
            async with running(overlay_of(request.node.name, url.replace("/postgres", "/hardened"))) as nodes:
                candidates = candidates_of(nodes)
                denied = "permission denied for function pg_walfile_name"
                await until(lambda: all(denied in node.homes.candidacies()[0].problem for node in candidates))
                hardened.execute("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")
                await holder_of(nodes)

        run(story())


def test_a_home_that_cannot_even_be_made_is_given_up_to_others(
    server: DatabaseServer, request: pytest.FixtureRequest
) -> None:
    def broken(overlay: Overlay, name: str, *, tenure: Tenure) -> BrokerNode:
        raise ConfigError(f"{name} of {overlay.name} cannot be made in epoch {tenure.epoch}")

    async def story() -> None:
        homes = Homes(overlay_of(request.node.name, server.url, lease=_SHORT_LEASE), "pb1", make=broken)
        homes.start(("127.0.0.1", 1))
        await until(lambda: "cannot be made in epoch 1" in homes.candidacies()[0].problem)
        # The others have their turn, and then it tries again.
        await until(lambda: "cannot be made in epoch 2" in homes.candidacies()[0].problem)
        await homes.stop()

    run(story())


def test_two_databases_do_not_take_a_home_from_each_other_again_and_again(
    server: DatabaseServer, request: pytest.FixtureRequest
) -> None:
    server.execute("CREATE DATABASE another")
    overlay = overlay_of(request.node.name, server.url)
    (home,) = overlay.homes.values()
    url = server.url.replace("/postgres", "/another")
    other = replace(home, place=replace(home.place, database=Database(url)), candidates=("pb2",))
    mine = replace(home, candidates=("pb1",))

    async def story() -> None:
        async with AsyncExitStack() as stack:
            first = replace(overlay, homes={home.name: mine})
            one = await stack.enter_async_context(BrokerNode(first, "pb1"))
            await holder_of({"pb1": one})
            brokers = {**overlay.brokers, "pb1": replace(overlay.brokers["pb1"], port=one.address[1])}
            second = replace(overlay, brokers=brokers, homes={home.name: other})
            two = await stack.enter_async_context(BrokerNode(second, "pb2"))
            await until(
                lambda: any(
                    "do all candidates name the same database" in each.homes.candidacies()[0].problem
                    for each in (one, two)
                )
            )

    run(story())


def test_only_a_candidate_may_have_it(server: DatabaseServer, request: pytest.FixtureRequest) -> None:
    async def story() -> None:
        async with running(overlay_of(request.node.name, server.url)) as nodes:
            with pytest.raises(ConfigError, match="'sb1' is no candidate for orders: pb1, pb2"):
                await nodes["pb1"].homes.move("orders", "sb1")
            with pytest.raises(ConfigError, match="no candidate for a pubend 'orders'; it is for: none"):
                await nodes["sb1"].homes.move("orders", "pb1")

    run(story())


def test_the_clock_of_leases_never_goes_back() -> None:
    times = [lease_clock_ms() for _ in range(1_000)]
    assert times == sorted(times)


async def died(holder: BrokerNode) -> None:
    """End the home as the death of its process would: it says nothing to anybody, and its lease has to run out."""
    seat = holder.homes._seats["orders"]
    assert seat._run is not None
    assert seat.node is not None
    seat._run.cancel()
    seat._run = asyncio.create_task(asyncio.sleep(0))
    await seat.node.cut_off()


async def publish(client: penstock.Client, count: int) -> None:
    for number in range(count):
        await client.publish({"n": number})
        if number % 20 == 0:
            await asyncio.sleep(0.002)
    await client.flush()


async def limited(wanted: penstock.Subscription, count: int) -> AsyncIterator[dict[str, object]]:
    """The attributes of the first messages."""
    while count:
        message = await anext(wanted)
        yield dict(message.attributes)
        count -= 1
