"""STOMP and native clients that do this and that, right and wrong, at brokers that crash and links that break.

The laws: nothing whose SEND, COMMIT or DISCONNECT got a RECEIPT is lost; nothing whose ACK got one comes again;
nothing comes twice to one subscription of a connection, unless it says that it does; no exception leaves a peer, and
none wants to be woken for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from penstock.protocol.stomp import StompFrame, Version
from penstock.stomp import StompSettings
from stomp_stage import V1_0, V1_2, Stage, StompClient, broker, frame, linked

SEEDS = range(16)
STEPS = 400
TOPICS = ("/topic/a", "/topic/b.c")
QUEUES = ("/queue/w", "/queue/v")
DURABLES = {"d0": "/topic/a", "d1": "/topic/b.*"}
OWNER = "owner"
"""The client whose durable subscriptions those are."""


@dataclass
class Actor:
    """A STOMP client, and what it may count on."""

    client: StompClient
    name: str
    subscriptions: dict[str, str] = field(default_factory=dict)
    """Those that it has, by their ids: a name of a durable subscription, a queue or a topic."""
    former: dict[str, str] = field(default_factory=dict)
    """Those that it has ended; messages may still be on their way."""
    modes: dict[str, str] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    """What it has sent outside of transactions."""
    transactions: dict[str, list[int]] = field(default_factory=dict)
    promised: dict[str, list[int]] = field(default_factory=dict)
    """By receipt, the messages that are durable when it comes."""
    done: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By receipt, what never comes again when it comes: the subscription and the message."""
    acked: list[tuple[str, int]] = field(default_factory=list)
    heard: int = 0
    waiting: list[tuple[str, StompFrame]] = field(default_factory=list)
    """What it has not acknowledged, each with its subscription's name."""
    came: set[tuple[str, int]] = field(default_factory=set)


class Play:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        settings: dict[str, Any] = (
            {"retain_ms": 10**8, "credit_bytes": 3_000} if seed % 3 == 0 else {"retain_ms": 10**8}
        )
        self.stage = linked(**settings) if seed % 2 else Stage(broker(**settings))
        self.stage.stomp = StompSettings(
            port=1, nack_delay_ms=200, unacknowledged_max=5, transactions_max=3, prefetch=4
        )
        self.actors: list[Actor] = []
        self.numbered = 0
        self.destinations: dict[int, str] = {}
        self.durable: set[int] = set()
        self.finished: set[tuple[str, int]] = set()
        self.delivered: dict[str, set[int]] = {}
        self.serial = 0

    # What may happen.

    def act(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, self.arrive),
            (12, self.send),
            (4, self.send_together),
            (6, self.subscribe),
            (16, self.judge),
            (2, self.unsubscribe),
            (3, self.transact),
            (2, self.disconnect),
            (2, self.break_off),
            (1, self.blunder),
            (2, self.publish_natively),
            (10, self.wait),
            (2, self.hold_back),
            (1, self.crash),
            (2, self.cut),
        ]
        if len(self.actors) < 4 and self.chance.random() < 0.4:
            self.arrive()
        weights = [weight for weight, _ in acts]
        (chosen,) = self.chance.choices([act for _, act in acts], weights)
        chosen()
        self.look()

    def arrive(self) -> None:
        self.welcome(self.chance.choice([OWNER, OWNER, "b", "c"]))

    def welcome(self, name: str) -> Actor | None:
        at = self.chance.choice([*self.stage.brokers])
        if len(self.actors) >= 6:
            return None
        client = self.stage.stranger_by_stomp(at)
        actor = Actor(client, name)
        version = self.chance.choice([*Version, V1_2])
        beats = self.chance.choice(["0,0", "0,1000"])
        client.say("CONNECT", accept_version=version.value, login=actor.name, heart_beat=beats)
        self.actors.append(actor)
        return actor

    def number(self, destination: str) -> int:
        self.numbered += 1
        self.destinations[self.numbered] = destination
        return self.numbered

    def receipt(self) -> str:
        self.serial += 1
        return str(self.serial)

    def somebody(self) -> Actor | None:
        there = [each for each in self.actors if not each.client.peer.is_over]
        return self.chance.choice(there) if there else None

    def message(self, actor: Actor, **headers: str) -> tuple[StompFrame, int]:
        destination = self.chance.choice([*TOPICS, *QUEUES])
        number = self.number(destination)
        body = b"%d" % number + bytes(self.chance.choice([0, 0, 1_000]))
        return frame("SEND", body, destination=destination, number=str(number), **headers), number

    def send(self) -> None:
        actor = self.somebody()
        if actor is not None:
            receipt = self.receipt() if self.chance.random() < 0.7 else ""
            made, number = self.message(actor, **({"receipt": receipt} if receipt else {}))
            actor.sent.append(number)
            if receipt:
                actor.promised[receipt] = [number]
            actor.client.say_all(made)

    def send_together(self) -> None:
        actor = self.somebody()
        if actor is not None:
            made = [self.message(actor) for _ in range(self.chance.randint(2, 5))]
            actor.sent += [number for _, number in made]
            actor.client.say_all(*(each for each, _ in made))

    def subscribe(self) -> None:
        actor = self.somebody()
        if actor is not None:
            if actor.name == OWNER and self.chance.random() < 0.7:
                name = self.chance.choice([*DURABLES])
                self.subscribe_to(actor, name, DURABLES[name])
            else:
                destination = self.chance.choice([*TOPICS, *QUEUES, *QUEUES, "/topic/>"])
                self.subscribe_to(actor, destination, destination)

    def subscribe_to(self, actor: Actor, name: str, destination: str, mode: str = "") -> None:
        self.serial += 1
        identifier = f"s{self.serial}"
        mode = mode or self.chance.choice(["auto", "client", "client-individual"])
        headers = {"activemq__subscriptionName": name} if name in DURABLES else {}
        actor.subscriptions[identifier] = name
        actor.modes[identifier] = mode
        actor.client.say("SUBSCRIBE", id=identifier, destination=destination, ack=mode, **headers)

    def judge(self) -> None:
        actor = self.somebody()
        if actor is None or not actor.waiting:
            return
        name, message = self.chance.choice(actor.waiting)
        self.judge_one(actor, name, message, is_ack=self.chance.random() < 0.8 or actor.client.peer.version is V1_0)

    def judge_one(self, actor: Actor, name: str, message: StompFrame, *, is_ack: bool) -> None:
        identifier = message.headers["subscription"]
        upto = actor.waiting.index((name, message))
        meant = [(name, message)]
        if actor.modes[identifier] == "client":
            meant = [each for each in actor.waiting[: upto + 1] if each[1].headers["subscription"] == identifier]
        actor.waiting = [each for each in actor.waiting if each not in meant]
        receipt = self.receipt()
        done = [(name, int(each.headers["number"])) for _, each in meant]
        if is_ack and name not in TOPICS and name != "/topic/>":
            actor.done[receipt] = done
            actor.acked += done
        actor.client.ack(message, "ACK" if is_ack else "NACK", receipt=receipt)

    def unsubscribe(self) -> None:
        actor = self.somebody()
        if actor is not None and actor.subscriptions:
            identifier = self.chance.choice([*actor.subscriptions])
            actor.former[identifier] = actor.subscriptions.pop(identifier)
            actor.waiting = [each for each in actor.waiting if each[1].headers["subscription"] != identifier]
            actor.client.say("UNSUBSCRIBE", id=identifier, receipt=self.receipt())

    def transact(self) -> None:
        actor = self.somebody()
        if actor is None:
            return
        name = self.chance.choice("tu")
        if name not in actor.transactions:
            actor.transactions[name] = []
            actor.client.say("BEGIN", transaction=name)
            return
        if self.chance.random() < 0.5:
            made, number = self.message(actor, transaction=name)
            actor.transactions[name].append(number)
            actor.client.say_all(made)
            return
        numbers = actor.transactions.pop(name)
        receipt = self.receipt()
        if self.chance.random() < 0.3:
            actor.client.say("ABORT", transaction=name, receipt=receipt)
        else:
            actor.promised[receipt] = numbers
            actor.client.say("COMMIT", transaction=name, receipt=receipt)

    def disconnect(self) -> None:
        actor = self.somebody()
        if actor is not None:
            receipt = self.receipt()
            actor.promised[receipt] = [*actor.sent]
            actor.done[receipt] = [*actor.acked]
            actor.client.say("DISCONNECT", receipt=receipt)

    def break_off(self) -> None:
        actor = self.somebody()
        if actor is not None:
            self.drop(actor)

    def drop(self, actor: Actor) -> None:
        self.look()
        self.actors.remove(actor)
        if not actor.client.is_gone:
            actor.client.leave()

    def blunder(self) -> None:
        actor = self.somebody()
        if actor is not None:
            wrong = [
                frame("ACK", id="1-99999", message_id="x", subscription="s"),
                frame("SEND", destination="/nowhere/x"),
                frame("COMMIT", transaction="never"),
                frame("SUBSCRIBE", id="x", destination="/topic/x", selector="a ="),
                frame("UNSUBSCRIBE", id="never"),
                frame("CONNECT", accept_version="1.2"),
            ]
            actor.client.say_all(self.chance.choice(wrong))
            assert actor.client.peer.is_over or actor.client.peer.is_waiting or actor.client.error == ""

    def publish_natively(self) -> None:
        if self.stage.brokers:
            native = self.stage.client(self.chance.choice([*self.stage.brokers]), "native")
            destination = self.chance.choice([*TOPICS, *QUEUES])
            native.publish({"destination": destination, "number": self.number(destination)})
            self.stage.settle()

    def wait(self) -> None:
        self.stage.pass_time(self.chance.choice([50, 200, 1_000, 3_000]))

    def hold_back(self) -> None:
        self.stage.syncs = not self.stage.syncs
        if self.stage.syncs:
            self.stage.sync()

    def crash(self) -> None:
        if self.stage.brokers:
            name = self.chance.choice([*self.stage.brokers])
            self.look()
            self.stage.crash(name)
            self.actors = [each for each in self.actors if not each.client.is_gone]
            if self.chance.random() < 0.5:
                self.stage.pass_time(self.chance.choice([100, 2_000, 8_000]))
            self.stage.start(name)
            self.relink()

    def cut(self) -> None:
        links = self.stage.links()
        if links:
            self.stage.cut(*links[0])
        else:
            self.relink()

    def relink(self) -> None:
        if not self.stage.links() and len(self.stage.brokers) == 2:
            self.stage.link("b1", "b2")

    # What must hold.

    def look(self) -> None:
        for actor in list(self.actors):
            news = actor.client.frames[actor.heard :]
            actor.heard += len(news)
            for each in news:
                if each.command == "RECEIPT":
                    receipt = each.headers["receipt-id"]
                    self.durable.update(actor.promised.pop(receipt, ()))
                    self.finished.update(actor.done.pop(receipt, ()))
                elif each.command == "MESSAGE" and "number" in each.headers:
                    self.on_message(actor, each)
            if actor.client.peer.is_over:
                self.actors.remove(actor)
                if not actor.client.is_gone:
                    actor.client.leave()

    def on_message(self, actor: Actor, message: StompFrame) -> None:
        identifier, number = message.headers["subscription"], int(message.headers["number"])
        is_again = message.headers.get("redelivered") == "true"
        assert is_again or (identifier, number) not in actor.came, f"{number} came twice to {identifier}"
        actor.came.add((identifier, number))
        name = (actor.former | actor.subscriptions)[identifier]
        assert (name, number) not in self.finished, f"{number} of {name} was done, and came again"
        self.delivered.setdefault(name, set()).add(number)
        if "ack" in message.headers and identifier in actor.subscriptions:
            actor.waiting = [
                each
                for each in actor.waiting
                if (each[1].headers["subscription"], each[1].headers["number"]) != (identifier, str(number))
            ]
            actor.waiting.append((name, message))

    # From beginning to end.

    def begin(self) -> None:
        """Makes what has to be there before anything is sent."""
        actor = self.welcome(OWNER)
        assert actor is not None
        for name, destination in DURABLES.items():
            self.subscribe_to(actor, name, destination, "client-individual")
        self.stage.pass_time(2_000)
        worker = self.welcome("b")
        assert worker is not None
        for destination in QUEUES:
            self.subscribe_to(worker, destination, destination, "client-individual")
        self.stage.pass_time(2_000)
        self.look()

    def heal(self) -> None:
        self.stage.syncs = True
        self.stage.sync()
        self.relink()
        self.stage.pass_time(15_000)
        self.look()
        for actor in list(self.actors):
            self.drop(actor)
        self.stage.pass_time(15_000)
        self.actors = []

    def drain(self) -> None:
        """Reads everything that is left, and acknowledges it."""
        actor = Actor(self.stage.stranger_by_stomp(), OWNER)
        actor.client.say("CONNECT", accept_version="1.2", login=OWNER)
        self.actors.append(actor)
        for name, destination in DURABLES.items():
            self.subscribe_to(actor, name, destination, "client-individual")
        for destination in QUEUES:
            self.subscribe_to(actor, destination, destination, "client-individual")
        for _ in range(200):
            self.stage.pass_time(500)
            self.look()
            assert not actor.client.error, actor.client.error
            if not actor.waiting:
                break
            for name, message in list(actor.waiting):
                self.judge_one(actor, name, message, is_ack=True)
        assert not actor.waiting
        self.stage.pass_time(2_000)
        self.look()
        self.drop(actor)

    def everything(self) -> set[int]:
        """What all logs have."""
        client = self.stage.connect("auditor")
        client.subscribe("/topic/>", "t", penstock_start="earliest")
        client.subscribe("/pubend/p1", "p1", penstock_start="earliest")
        client.subscribe("/pubend/p2", "p2", penstock_start="earliest")
        client.subscribe("/pubend/p", "p", penstock_start="earliest")
        client.subscribe("/pubend/q", "q", penstock_start="earliest")
        self.stage.pass_time(10_000)
        assert not client.error, client.error
        found = {int(each.headers["number"]) for each in client.messages if "number" in each.headers}
        client.leave()
        return found

    def judge_all(self) -> None:
        assert self.durable <= self.everything()
        for name, destination in {**DURABLES, **{each: each for each in QUEUES}}.items():
            topic = "/topic/b.c" if destination == "/topic/b.*" else destination
            wanted = {number for number in self.durable if self.destinations[number] == topic}
            missing = wanted - self.delivered.get(name, set())
            assert not missing, f"{name} never got {sorted(missing)}"
        for name in self.stage.brokers:
            status = self.stage.brokers[name].status()
            assert (status.clients - self.natives(name), status.subscriptions) == (0, 0)
        self.stage.check_invariants()

    def natives(self, name: str) -> int:
        """The native clients that are still connected to this life of a broker."""
        there = self.stage.brokers[name]._connections.peers
        return sum(
            each in there for each, client in self.stage.clients.items() if client.broker == name and not client.closed
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_receipts_hold_whatever_happens(seed: int) -> None:
    play = Play(seed)
    play.begin()
    for _ in range(STEPS):
        play.act()
    play.heal()
    play.drain()
    play.judge_all()
