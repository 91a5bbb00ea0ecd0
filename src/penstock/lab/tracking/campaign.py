"""Traces in a simulated overlay with faults, compared with what the simulator itself saw ([Tracking] section 3.3).

The truth is gathered outside the code under test: from bodies that arrive at brokers over links, the disks of pubends,
and what clients received and asked for. Harm: brokers crash or stop for a while, links are cut, disks are slow, and
tracking records on disk become unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from penstock.broker.broker import Broker
from penstock.broker.effects import Effect
from penstock.client.tracing import read_trace
from penstock.lab.tracking.verdict import TracingVerdict, Truth
from penstock.model.body import decode_attributes
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.protocol.frames import Forward, Frame, KnowledgeMessage, Refused, TraceAnswer, TraceReply, TraceRequest
from penstock.selectors import Selector
from penstock.session.changes import Answer
from penstock.sim.client import SimClient
from penstock.sim.topologies import broker_names, tree
from penstock.sim.wire import LinkOptions
from penstock.sim.world import World
from penstock.tracking.answers import BrokerAnswer, Trace

__all__ = ["Tracer", "TracingCampaign"]

_SELECTORS: Final = ("", "number < 300", "number >= 700", "number between 200 and 400")
_PAUSES_MS: Final = (50, 500, 2_000)
_ANSWER_MS: Final = 60_000
_LASTS_MS: Final = (200, 3_000, 15_000)
_PUBENDS: Final = 3
"""One in this many brokers has a publisher."""
_DAMAGED_MAX: Final = 5
"""The most tracking records that one blow makes unreadable."""


class Tracer(SimClient):
    """A client that traces messages."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        super().__init__(name, world.surroundings, place=broker, overlay=world.broker(broker).settings.overlay)
        self._world = world
        self.answer: Trace | None = None
        """The last trace."""
        self.refusal = ""
        world.admit(self, LinkOptions())

    def ask(self, message_id: MessageId) -> Trace | None:
        """Trace a message, or return None with a refusal; virtual time passes."""
        self.answer, self.refusal = None, ""
        self.session.ask(lambda number: TraceRequest(number, message_id.to_bytes()), now_ms=self.clock.now_ms)
        self._shell.pump()
        self._world.run_until(lambda: self.answer is not None or bool(self.refusal), limit_ms=_ANSWER_MS)
        return self.answer

    def on_answer(self, answer: Answer) -> None:
        """Take a broker's trace of a message, or its refusal."""
        if isinstance(answer, TraceReply):
            self.answer = read_trace(answer.trace)
        elif isinstance(answer, Refused):
            self.refusal = answer.reason


class TracingCampaign:
    """A random overlay with traffic and harm, and then traces of some of its messages."""

    def __init__(
        self,
        seed: int | str,
        *,
        brokers: int,
        settings: dict[str, Any] | None = None,
        on_round: Callable[[], None] = lambda: None,
        on_traced: Callable[[TracingVerdict], None] = lambda _: None,
    ) -> None:
        """Make the overlay, with these settings for all brokers; callbacks report the progress of rounds and traces."""
        self._on_round, self._on_traced = on_round, on_traced
        self._bodies: dict[bytes, bytes] = {}
        self._was_at: dict[bytes, dict[str, None]] = {}
        self._answers: list[BrokerAnswer] = []
        """Answers of single brokers to the current question."""
        self.world = World(seed, make_broker=partial(_Watched, self._was_at, self._answers))
        self._chance = self.world.faults
        names = broker_names(brokers)
        self._pairs = tree(names, children=3)
        for _ in range(brokers // 5):
            one, other = self._chance.sample(names, 2)
            if (one, other) not in self._pairs and (other, one) not in self._pairs:
                self._pairs.append((one, other))
        for broker in self.world.add_overlay(self._pairs, settings=settings, guaranteed=True, latency_us=2_000):
            broker.disk.journal = []
        self.publishers = [self.world.add_client(f"pub-{name}", name) for name in names[::_PUBENDS]]
        self.subscribers = [self.world.add_client(f"sub-{name}", name) for name in names]
        self._asked_for: dict[str, Selector | None] = {}
        for client in self.subscribers:
            selector = self._chance.choice(_SELECTORS)
            client.subscribe(selector)
            self._asked_for[client.name] = Selector.parse(selector) if selector else None
        self._homes = dict(zip((client.name for client in self.subscribers), names, strict=True))
        self.tracer = Tracer(self.world, "tracer", names[-1])
        self.blows: list[str] = []
        self._blows = (self._crash, self._stop, self._cut, self._slow_disk, self._damage)

    def run(self, *, messages: int, blows: int, traces: int) -> TracingVerdict:
        """Publish under harm, heal, and trace."""
        self.world.run_until_ready(limit_ms=60_000)
        rounds = max(blows, 1)
        for number in range(rounds):
            self._trade(messages // rounds)
            if number < blows:
                self._chance.choice(self._blows)()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
            self._on_round()
        self.world.run_for(2 * max(_LASTS_MS))
        assert self.world.run_until_ready(limit_ms=180_000), "the overlay does not come to rest"
        self.world.run_for(30_000)
        return self._trace(traces)

    # --- work and harm

    def _trade(self, messages: int) -> None:
        work = self.world.workload
        for place in range(messages):
            publisher, attributes = work.choice(self.publishers), {"number": work.randrange(1_000)}
            self.world.clock.after(2_000 * place, partial(publisher.publish, attributes))
        self.world.run_for(2 * messages)

    def _crash(self) -> None:
        self._down("crash", lambda name: self.world.crash(name, loud=self._chance.random() < 0.5))

    def _stop(self) -> None:
        self._down("stop", self.world.stop)

    def _down(self, what: str, end: Callable[[str], None]) -> None:
        up = [name for name, broker in self.world.brokers.items() if broker.is_up]
        name = self._chance.choice(up)
        self.blows.append(f"{what} {name}")
        end(name)
        self._later(lambda: self.world.restart(name))

    def _cut(self) -> None:
        one, other = self._chance.choice(self._pairs)
        self.blows.append(f"cut {one} {other}")
        self.world.cut(one, other, loud=self._chance.random() < 0.5)
        self._later(lambda: self.world.heal(one, other))

    def _slow_disk(self) -> None:
        name = self._chance.choice(list(self.world.brokers))
        device = self.world.broker(name).device
        self.blows.append(f"slow disk {name}")
        device.slowness = 50.0
        self._later(lambda: setattr(device, "slowness", 1.0))

    def _damage(self) -> None:
        name = self._chance.choice(list(self.world.brokers))
        disk = self.world.broker(name).device.disk
        kept = disk.kept_names()
        for record in self._chance.sample(kept, min(len(kept), self._chance.randint(1, _DAMAGED_MAX))):
            self.blows.append(f"damage {record} of {name}")
            disk.damage_kept(record)

    def _later(self, repair: Callable[[], None]) -> None:
        self.world.clock.after(1_000 * self._chance.choice(_LASTS_MS), repair)

    # --- judging

    def _trace(self, traces: int) -> TracingVerdict:
        for broker in self.world.brokers.values():
            for _, _, body in broker.disk.journal or ():
                self._bodies[body[:MESSAGE_ID_BYTES]] = body
                self._was_at.setdefault(body[:MESSAGE_ID_BYTES], {})[broker.name] = None
        got: dict[bytes, list[tuple[str, str]]] = {}
        for client in self.subscribers:
            for key in dict.fromkeys(each.body[:MESSAGE_ID_BYTES] for each in client.deliveries):
                got.setdefault(key, []).append((self._homes[client.name], client.name))
        verdict = TracingVerdict()
        known = sorted(self._was_at)
        for key in self._chance.sample(known, min(traces, len(known))):
            # No more traces in a second than a broker allows.
            self.world.run_for(25)
            self._ask(key, got.get(key, []), verdict)
            self._on_traced(verdict)
        return verdict

    def _ask(self, key: bytes, receivers: list[tuple[str, str]], verdict: TracingVerdict) -> None:
        message_id = MessageId.from_bytes(key)
        self._answers.clear()
        trace = self.tracer.ask(message_id)
        if trace is None:
            verdict.refused.append(f"{message_id}: {self.tracer.refusal or 'no answer'}")
            return
        attributes = decode_attributes(self._bodies[key])
        unwanted = [
            (self._homes[client], client)
            for client, selector in self._asked_for.items()
            if selector is not None and not selector.matches(attributes)
        ]
        verdict.judge(trace, Truth(list(self._was_at[key]), receivers, unwanted), self._answers)


class _Watched(Broker):
    """A broker that records which messages arrive, and what other brokers answer it."""

    def __init__(
        self, was_at: dict[bytes, dict[str, None]], answers: list[BrokerAnswer], *given: Any, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._was_at, self._answers = was_at, answers

    def receive(self, connection: int, frames: list[Frame], *, now_ms: int) -> list[Effect]:
        """Handle frames, and record the messages and answers in them."""
        effects = super().receive(connection, frames, now_ms=now_ms)
        # A peer that broke a rule, or was sent a goodbye, is no longer listened to.
        if connection in self._connections.peers:
            for frame in frames:
                if isinstance(frame, KnowledgeMessage | Forward):
                    for body in frame.bodies:
                        self._was_at.setdefault(body[:MESSAGE_ID_BYTES], {})[self.settings.name] = None
                elif isinstance(frame, TraceAnswer) and frame.to == self.settings.name:
                    self._answers.append(msgspec.msgpack.decode(frame.answer, type=BrokerAnswer))
        return effects
