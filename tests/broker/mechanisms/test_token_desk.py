"""The token in brokers: control traffic over links, operations of the shell, constants that follow the overlay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import pairwise

import msgspec
import pytest

from overlay import chain as overlay_of
from penstock.broker.broker import Broker
from penstock.broker.mechanisms.token_desk import TokenDesk
from penstock.broker.settings import BrokerSettings
from penstock.model.errors import PeerError
from penstock.protocol.status import TokenStatus
from penstock.sim.world import World
from penstock.token.settings import PAPER, Plan

PLAN = Plan(op_ms=1_000, skip_ms=250)


def chain(world: World, size: int, plan: Plan | None = PLAN, *, pubends: Sequence[str] = ()) -> list[str]:
    names = [f"b{number}" for number in range(size)]
    for number, name in enumerate(names):
        neighbours = [names[other] for other in (number - 1, number + 1) if 0 <= other < size]
        world.add_broker(
            BrokerSettings(
                name,
                number=number + 1,
                neighbours=tuple(neighbours),
                token=plan,
                pubends=tuple(pubends) if number == 0 else (),
                best_effort=tuple(pubends) if number == 0 else (),
            )
        )
    for one, other in pairwise(names):
        world.add_link(one, other, latency_us=2_000)
    return names


def token_of(world: World, name: str) -> TokenStatus:
    found = world.brokers[name].core.status().token
    assert found is not None
    return found


def operations(world: World) -> list[tuple[int, str, str]]:
    """When, who, with which fencing number."""
    return sorted((at, name, fence) for name, broker in world.brokers.items() for at, fence in broker.operations)


def test_all_brokers_of_a_chain_operate_in_turn_about_every_least_interval() -> None:
    world = World(1, checks=True)
    names = chain(world, 5)
    world.run_for(150_000)
    found = operations(world)[5:]
    assert {name for _, name, _ in found} == set(names)
    for name in names:
        begins = [at for at, who, _ in found if who == name]
        gaps = [later - earlier for earlier, later in pairwise(begins)]
        assert min(gaps) >= 5_000
        assert sum(gaps) / len(gaps) < 3 * 5_000
    assert all(later[0] - earlier[0] >= 1_000 for earlier, later in pairwise(found))


def test_without_a_plan_nothing_walks() -> None:
    world = World(1)
    chain(world, 2, None)
    world.run_for(100_000)
    assert operations(world) == []
    assert world.brokers["b0"].core.status().token is None


def test_constants_follow_the_number_of_brokers_that_can_be_reached() -> None:
    world = World(2)
    chain(world, 4)
    world.run_for(5_000)
    assert token_of(world, "b0").members == 4
    assert token_of(world, "b0").min_ms == 4_000
    world.crash("b3")
    world.run_for(10_000)
    assert [token_of(world, name).members for name in ("b0", "b1", "b2")] == [3, 3, 3]
    assert token_of(world, "b0").min_ms == 3_000
    world.restart("b3")
    world.run_for(10_000)
    assert token_of(world, "b3").members == 4


def test_overload_is_reported_and_shown() -> None:
    output = StringIO()
    world = World(3, output=output)
    chain(world, 4, Plan(op_ms=1_000, min_ms=3_000))
    world.run_for(5_000)
    assert token_of(world, "b0").k_load == 1.333
    assert token_of(world, "b0").overloaded is True
    assert "token-overloaded members=4 load_percent=133" in output.getvalue()


def test_a_plan_may_change_appear_and_vanish_while_brokers_run() -> None:
    world = World(4)
    names = chain(world, 2, None)
    world.run_for(2_000)
    for plan in (PLAN, Plan(op_ms=500, variant=PAPER), None):
        for name in names:
            broker = world.brokers[name]
            broker.apply(replace(broker.settings, token=plan))
        world.run_for(20_000)
        found = world.brokers["b0"].core.status().token
        assert (found and found.op_ms) == (plan and plan.op_ms)
    assert world.brokers["b1"].core.status().token is None
    before = len(operations(world))
    assert before > 0
    world.run_for(20_000)
    assert len(operations(world)) == before


def test_a_killed_holder_delays_the_next_operation_by_less_than_twice_the_largest_constant() -> None:
    world = World(5)
    names = chain(world, 5)
    world.run_for(60_000)
    delays = []
    for _ in range(4):
        # The two ends of the chain may be killed without cutting the others off.
        assert world.run_until(
            lambda: any(token_of(world, name).holding for name in (names[0], names[-1])), limit_ms=120_000
        )
        holder = next(name for name in (names[0], names[-1]) if token_of(world, name).holding)
        world.crash(holder)
        killed_ms = world.clock.now_us // 1_000
        assert world.run_until(lambda at=killed_ms: operations(world)[-1][0] > at, limit_ms=60_000)  # type: ignore[misc]
        delays.append(operations(world)[-1][0] - killed_ms)
        world.restart(holder)
        world.run_for(30_000)
    assert max(delays) < 2 * 15_000


def test_what_an_operation_of_a_former_life_ends_is_nothing() -> None:
    world = World(6)
    chain(world, 1)
    assert world.run_until(lambda: bool(operations(world)), limit_ms=60_000)
    core = world.brokers["b0"].core
    now_ms = world.clock.now_us // 1_000
    assert core.operated("1/other/1", now_ms=now_ms) == []
    assert token_of(world, "b0").operating is True


class Ends:
    """One broker without a world around it."""

    def __init__(self) -> None:
        settings = BrokerSettings("b0", neighbours=("b1",), token=PLAN)
        self.broker = Broker(settings, incarnation=1, rng=_Middle())
        self.desk = self.broker._mechanisms._token


class _Middle:
    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def random(self) -> float:
        return 0.5


def test_a_letter_that_is_none_is_the_neighbours_fault() -> None:
    with pytest.raises(PeerError, match="b1 sent a malformed token message"):
        Ends().desk.on_message("b1", b"nonsense", now_ms=1)
    with pytest.raises(PeerError, match="b1 sent a malformed token message"):
        Ends().desk.on_message("b1", msgspec.msgpack.encode(["b0", "b1", 1, 5]), now_ms=1)


def linked() -> TokenDesk:
    """The desk of a broker that has a neighbour."""
    overlay = overlay_of("b0", "b1", token=PLAN)
    overlay.wait(2_000)
    return overlay.brokers["b0"]._mechanisms._token


def test_a_letter_with_nonsense_in_it_is_its_senders_fault_and_counted() -> None:
    desk = linked()
    answers = desk.on_message("b1", msgspec.msgpack.encode(["b0", "b1", 1, b"nonsense"]), now_ms=1)
    assert "malformed" in str(answers)
    status = desk.status()
    assert status is not None
    assert status.malformed == 1


def test_a_letter_of_somebody_who_is_not_there_is_neither_read_nor_remembered() -> None:
    desk = linked()
    for sender in ("b9", "x" * 100_000):
        assert desk.on_message("b1", msgspec.msgpack.encode(["b0", sender, 1, b"nonsense"]), now_ms=1) == []
    status = desk.status()
    assert status is not None
    assert status.malformed == 0


def test_a_letter_for_somebody_out_of_reach_is_dropped() -> None:
    desk = Ends().desk
    assert desk.on_message("b1", msgspec.msgpack.encode(["b9", "b1", 1, b""]), now_ms=1) == []
