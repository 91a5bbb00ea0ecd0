"""Many subscribers, cheaply: what they get, and how they move."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.broker import Broker
from penstock.broker.settings import BrokerSettings
from penstock.sim.crowd import Member, OutputPort
from penstock.sim.world import World


def pair(bytes_s: float = 1e9) -> tuple[World, Callable[[str, str], Member]]:
    world = World(1)
    names = ("a", "b")
    for number, name in enumerate(("h", *names), start=1):
        neighbours = names if name == "h" else ("h",)
        pubends = ("p",) if name == "h" else ()
        world.add_broker(BrokerSettings(name, number=number, pubends=pubends, neighbours=neighbours))
    for name in names:
        world.add_link(name, "h")
    brokers = {name: (world.broker(name), OutputPort(world.clock, bytes_s)) for name in names}

    def join(name: str, selector: str) -> Member:
        member = Member(name, selector, clock=world.clock, brokers=brokers)
        member.join("a")
        return member

    return world, join


def ask_to_move(world: World, member: Member, session: int = 7) -> None:
    core = world.broker("a").core
    assert isinstance(core, Broker)
    assert member.current is not None
    connection = member.current.number
    problem = core.migrations.move(
        connection, broker="b", address="b", session=session, total=1, now_ms=world.clock.now_ms
    )
    assert problem == ""
    member.current.wake()


def publish(world: World, count: int, first: int = 0) -> None:
    publisher = world.clients.get("publisher") or world.add_client("publisher", "h")
    for number in range(first, first + count):
        world.clock.after(number * 1_000, lambda number=number: publisher.publish({"x": number}))  # type: ignore[misc]


def test_members_get_what_they_want_in_order() -> None:
    world, join = pair()
    world.run_for(500)
    all_of_it, some = join("s1", "x >= 0"), join("s2", "x < 10")
    world.run_for(500)
    assert all_of_it.is_subscribed
    assert all_of_it.broker == "a"
    publish(world, 50)
    world.run_for(3_000)
    assert len(all_of_it.ticks["p"]) == 50
    assert list(all_of_it.ticks["p"]) == sorted(all_of_it.ticks["p"])
    assert len(some.ticks["p"]) == 10


def test_a_member_moves_and_misses_nothing() -> None:
    world, join = pair()
    world.run_for(500)
    member = join("s1", "x >= 0")
    world.run_for(500)
    publish(world, 300)
    world.run_for(700)
    ask_to_move(world, member)
    world.run_for(4_000)
    assert member.broker == "b"
    assert member.moves == 1
    assert [name for _, name in member.trail] == ["a", "b"]
    assert len(member.ticks["p"]) == 300
    assert list(member.ticks["p"]) == sorted(set(member.ticks["p"]))


def test_a_member_stays_when_nobody_is_there() -> None:
    world, join = pair()
    world.run_for(500)
    member = join("s1", "x >= 0")
    world.run_for(500)
    world.crash("b")
    ask_to_move(world, member)
    publish(world, 20)
    world.run_for(2_000)
    assert member.broker == "a"
    assert member.moves == 0
    assert len(member.ticks["p"]) == 20


def test_a_member_comes_back_after_a_crash_and_goes_on() -> None:
    world, join = pair()
    world.run_for(500)
    member = join("s1", "x >= 0")
    world.run_for(500)
    publish(world, 100)
    world.run_for(50)
    world.crash("a")
    assert member.away == 1
    world.run_for(500)
    world.restart("a")
    world.run_for(8_000)
    assert list(member.ticks["p"]) == sorted(set(member.ticks["p"]))
    assert len(member.ticks["p"]) == 100


def test_clients_share_the_output_bandwidth_of_their_broker() -> None:
    fast_world, fast_join = pair()
    slow_world, slow_join = pair(bytes_s=5_000)
    delays = []
    for world, join in ((fast_world, fast_join), (slow_world, slow_join)):
        world.run_for(500)
        members = [join(f"s{number}", "x >= 0") for number in range(5)]
        world.run_for(2_000)
        publish(world, 50)
        world.run_for(20_000)
        last = max(member.arrived_us for member in members)
        assert all(len(member.ticks["p"]) == 50 for member in members)
        delays.append(last - world.clock.now_us + 20_000_000)
    assert delays[1] - delays[0] > 2_000_000, "250 deliveries of some fifty bytes at 5,000 bytes a second"
