"""Clients of durable names die, move, take over and forget, and in the end every name has one holder."""

from __future__ import annotations

from penstock.sim.lives import Lives
from penstock.sim.verdict import judge
from penstock.sim.world import World


class Stage:
    """Two brokers, two names, three clients for them, and a publisher."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.add_overlay([("b1", "b2")], guaranteed=True)
        self.publisher = self.world.add_client("pub", "b1")
        clients = [self.world.add_client(f"dur-{number}", "b2") for number in range(3)]
        self.noted: list[str] = []
        self.lives = Lives(self.world, clients, ["a = 1", ""], note=lambda kind, _: self.noted.append(kind))
        assert self.world.run_until_ready()

    def strike(self, blows: int) -> None:
        for number in range(blows):
            self.publisher.publish({"a": number % 2})
            self.lives.strike()
            self.world.run_for(700)

    def heal(self) -> str:
        for one, other in self.world.links:
            self.world.heal(one, other)
        self.world.run_for(8_000)
        self.lives.gather()
        self.world.run_for(20_000)
        unrest = self.lives.purge(self.publisher)
        self.world.run_for(20_000)
        self.lives.gather()
        self.world.run_for(20_000)
        return unrest or self.lives.unrest()


def test_after_all_that_every_name_has_one_holder_and_no_law_is_broken() -> None:
    noted: set[str] = set()
    for seed in range(3):
        stage = Stage(seed)
        stage.strike(60)
        assert stage.heal() == ""
        verdict = judge([stage.publisher], stage.lives.clients, forgotten=stage.lives.forgotten)
        assert verdict.is_sound, verdict.problems
        noted |= set(stage.noted)
    assert noted >= {"death", "absence", "move", "give_up", "take_over", "usurp", "new_name", "return"}


def test_what_was_acknowledged_at_rest_is_settled_and_never_comes_again() -> None:
    stage = Stage(1)
    stage.publisher.publish({"a": 1})
    stage.world.run_for(5_000)
    stage.lives.settle()
    records = [client.subscriptions[number] for client in stage.lives.clients for number in client.wanted]
    assert all(set(record.settled) == {"b1-pubend", "b2-pubend"} for record in records)
    stage.lives.die_at_rest()
    stage.world.run_for(110_000)
    assert stage.heal() == ""
    assert judge([stage.publisher], stage.lives.clients).is_sound
    assert {"death", "return"} <= set(stage.noted)


def test_what_was_acknowledged_is_settled_for_the_one_who_did_it_whatever_else_ends_meanwhile() -> None:
    """A client with two names loses the first one while the world settles."""
    stage = Stage(1)
    client = next(each for each in stage.lives.clients if each.wanted)
    first = next(iter(client.wanted))
    second = client.subscribe("", durable="second", habit=(3, 1))
    assert stage.world.run_until_ready()
    for _ in range(5):
        stage.publisher.publish({"a": 1})
        stage.world.run_for(1_000)
    last = [
        {each.pubend: each.tick for each in client.subscriptions[number].acknowledged} for number in (first, second)
    ]
    assert last[0] != last[1], "the second one keeps some messages back"
    stage.world.clock.after(1_000_000, lambda: client.unsubscribe(first))
    stage.lives.settle()
    assert client.subscriptions[first].settled == {}
    settled = client.subscriptions[second].settled
    assert {pubend: each.tick for pubend, each in settled.items()} == last[1]


def test_where_there_are_no_names_nothing_happens() -> None:
    world = World(1)
    lives = Lives(world, [], [], note=lambda *_: None)
    lives.strike()
    lives.die_at_rest()
    lives.settle()
    lives.gather()
    assert (lives.unrest(), lives.unclaimed()) == ("", [])


def test_a_name_without_a_holder_is_told_and_claimed() -> None:
    stage = Stage(1)
    holder = next(client for client in stage.lives.clients if client.wanted)
    name = holder.subscriptions[1].durable
    holder.unsubscribe(1)
    assert stage.lives.unrest() == f"durable subscription {name} is held by nobody"
    assert stage.lives.unclaimed() == [name]
    stage.lives.gather()
    stage.world.run_for(5_000)
    assert stage.lives.unrest() == ""
