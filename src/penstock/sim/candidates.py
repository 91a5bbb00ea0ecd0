"""Runs the homes of pubends beside simulated brokers, as ``live.homes`` does beside live ones (decision 24).

For each home that a broker may run there is a seat. In every life of the broker's process a ``Candidate`` decides, and
asks the shared database; the home itself is a simulated broker in the same process, whose one link is to the broker
that it runs beside.

Observers hear of every step of every home. A life that takes a step after a later one has begun breaks the law that
everything rests on, and so that is noted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

from penstock.broker.candidate import Action, Answer, Candidate, LeaseSettings, Release, Renew, Start, Stop, Take
from penstock.broker.settings import BrokerSettings
from penstock.sim.clock import Clock, Timer
from penstock.sim.database import Content, Database, Server, Transaction
from penstock.sim.disk import Disk
from penstock.sim.holdings import Holdings
from penstock.sim.host import Host
from penstock.sim.link import Link
from penstock.sim.node import SimBroker
from penstock.sim.ports import MakeBroker
from penstock.sim.process import Running, Waiting
from penstock.sim.shared_device import Opened, SharedDevice, StoreOf
from penstock.sim.trace import Trace
from penstock.sim.transactions import CommitChanges, ProveCommit, ReadContent, Tenure, breach_of

__all__ = ["Around", "Home", "HomePlan", "Homes", "Seat"]

_WAIT_MS_MAX: Final = 1_000
"""How long nothing is looked at, whatever the candidate says."""
_ENDS_US: Final = (0, 1_000, 60_000)
"""How long a home takes to end that was cut off."""
_BREACHES_MAX: Final = 20


@dataclass(slots=True, frozen=True)
class HomePlan:
    """A home, as it was drawn."""

    settings: BrokerSettings
    """Its own, but for its neighbour, which is the candidate that runs it."""
    candidates: tuple[str, ...]
    """In order of preference."""
    lease: LeaseSettings
    answer_ms: int
    """How long the database may take to answer."""

    @property
    def name(self) -> str:
        """Its name as a broker."""
        return self.settings.name

    @property
    def pubend(self) -> str:
        """The pubend whose home it is."""
        return self.settings.pubends[0]

    def described(self) -> str:
        """The plan as a readable line."""
        return f"home of {self.pubend}: {', '.join(self.candidates)}, leases of {self.lease.lease_ms:,} ms"


@dataclass(slots=True, frozen=True)
class Around:
    """What homes need from the world they live in."""

    clock: Clock
    trace: Trace
    make: MakeBroker
    seed: str
    checks: bool


class Home:
    """One home, wherever it runs."""

    def __init__(self, plan: HomePlan, database: Database) -> None:
        self.plan = plan
        self.given_up: dict[str, int] = {}
        """By pubend, the highest tick below which any life ever wanted to trim."""
        self.seats: dict[str, Seat] = {}
        """By candidate."""
        self.lives = 0
        """Lives so far; the last of them is the one that counts."""
        self.holder = ""
        """The candidate that began the latest life."""
        self.counts: Counter[str] = Counter()
        """Rare events, for the probes."""
        self.breaches: list[str] = []
        """Steps of lives that were not the latest, and what the database answered to such lives."""
        self.on_begun: Callable[[str], None] | None = None
        """Called with the candidate when a life begins, before it has opened its store."""
        self._database = database
        self._begun_in = 0
        """In which life of its candidate's process the latest life began."""

    @property
    def content(self) -> Content:
        """What the database has of it."""
        return self._database.content(self.plan.name)

    @property
    def disk(self) -> Disk:
        """Its disk, in the database."""
        return self.content.disk

    @property
    def nodes(self) -> list[SimBroker]:
        """The broker at each seat, up or not."""
        return [seat.node for seat in self.seats.values()]

    @property
    def running(self) -> SimBroker | None:
        """The latest life, if it is running."""
        seat = self.seats.get(self.holder)
        return seat.node if seat is not None and seat.is_serving else None

    def begin(self, candidate: str) -> int:
        """A life begins; returns its number."""
        if self.holder and self.holder != candidate:
            self._count_change(self.seats[self.holder].beside)
        self.lives += 1
        self.holder = candidate
        self._begun_in = self.seats[candidate].beside.incarnation
        if self.on_begun is not None:
            self.on_begun(candidate)
        return self.lives

    def _count_change(self, former: SimBroker) -> None:
        """Count why another candidate runs it now."""
        if not former.is_up or former.incarnation != self._begun_in:
            self.counts["taken_after_crash"] += 1
        elif former.gate.is_shut:
            self.counts["taken_after_pause"] += 1
        else:
            self.counts["taken_from_the_living"] += 1

    def look_at(self, life: int, node: SimBroker) -> None:
        """A life has taken a step."""
        if life != self.lives and len(self.breaches) < _BREACHES_MAX:
            self.breaches.append(f"life {life} of {node.name} took a step, and life {self.lives} has begun")


class Seat:
    """The place of one home beside one candidate, in all lives of that broker."""

    def __init__(self, home: Home, beside: SimBroker, database: Database, around: Around) -> None:
        plan = home.plan
        self.home, self.beside = home, beside
        self.database, self.around = database, around
        self.chance = Random(f"{around.seed}/homes/{plan.name}/{beside.name}")
        self.node = SimBroker(
            replace(plan.settings, neighbours=(beside.name,)),
            around.make,
            seed=f"{around.seed}/homes/{beside.name}",
            clock=around.clock,
            trace=around.trace,
            host=Host(around.clock),
            checks=around.checks,
            gate=beside.gate,
        )
        self.link = Link(around.clock, self.chance, self.node, beside)
        self._candidacy: Candidacy | None = None
        if beside.is_up:
            self.begin()

    @property
    def candidate(self) -> Candidate | None:
        """What decides in the present life of the broker; None while it is down."""
        return None if self._candidacy is None else self._candidacy.candidate

    @property
    def is_serving(self) -> bool:
        """Whether the home runs here and is linked with its candidate."""
        return self.node.is_up and not self.node.is_silent and self.link.is_connected

    def begin(self) -> None:
        """The broker has started."""
        self._candidacy = Candidacy(self)

    def end(self, *, in_order: bool) -> None:
        """The broker has ended: in order it leaves the home to others, otherwise the home dies with it."""
        candidacy, self._candidacy = self._candidacy, None
        if candidacy is None:
            return
        if in_order:
            candidacy.leave()
        else:
            candidacy.die()

    def want(self, to: str) -> None:
        """Ask for the home to move to a candidate."""
        if self._candidacy is not None:
            self._candidacy.want(to)


class Candidacy:
    """One life of a candidate's process, as far as one home is concerned."""

    def __init__(self, seat: Seat) -> None:
        plan, beside = seat.home.plan, seat.beside
        self.candidate = Candidate(beside.name, plan.lease)
        self._seat, self._plan, self._node = seat, plan, seat.node
        self._clock, self._gate = seat.around.clock, beside.gate
        self._life = f"{beside.name}/{beside.incarnation}"
        self._holdings = self._holdings_of(self._life)
        self._question: Running[Any] | None = None
        self._errand: Running[Any] | None = None
        self._device: SharedDevice | None = None
        """The store of the home, while it runs here."""
        self._is_running = False
        """Whether a life of the home belongs to this candidacy, from its start to its end."""
        self._timer: Timer | None = None
        self._is_over = False
        self._clock.after(0, self._wake)

    def _holdings_of(self, life: str) -> Holdings:
        plan = self._plan
        return Holdings(
            self._seat.database,
            home=plan.name,
            holder=self._seat.beside.name,
            life=life,
            place=plan.candidates.index(self._seat.beside.name),
            lease=plan.lease,
            answer_ms=plan.answer_ms,
        )

    # --- the life of the process

    def die(self) -> None:
        """The process is killed, and the home with it."""
        self._is_over = True
        self._cancel_timer()
        for running in (self._question, self._errand):
            if running is not None:
                running.cancel()
        self._holdings.close()
        if self._is_running:
            self._drop(loud=True)

    def leave(self) -> None:
        """The process ends in order: the home ends, and is released."""
        self._carry_out(self.candidate.leave(now_ms=self._clock.now_ms))
        self._wake()

    def want(self, to: str) -> None:
        """Ask for the home to move, on a connection of its own."""
        holdings = self._holdings_of("")
        if self._errand is not None:
            self._errand.cancel()

        def end(_: bool) -> None:
            holdings.close()

        self._errand = Running(holdings.wanting(to), self._gate, end)

    # --- the candidate

    def _wake(self) -> None:
        """Look whether there is anything to do, unless the process is stopped."""
        self._gate.ring(self._look)

    def _look(self) -> None:
        if self._is_over:
            return
        self._carry_out(self.candidate.on_deadline(now_ms=self._clock.now_ms))
        if self.candidate.is_over:
            self._is_over = True
            self._cancel_timer()
            self._holdings.close()
            return
        self._set_timer()

    def _set_timer(self) -> None:
        now_ms = self._clock.now_ms
        deadline_ms = self.candidate.next_deadline()
        wake_ms = now_ms + _WAIT_MS_MAX
        if deadline_ms is not None:
            wake_ms = max(now_ms, min(wake_ms, deadline_ms))
        self._cancel_timer()
        self._timer = self._clock.at(max(wake_ms * 1_000, self._clock.now_us), self._wake)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._clock.cancel(self._timer)
        self._timer = None

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Take() | Renew() | Release():
                    self._question = Running(self._asking(action), self._gate, self._on_answer)
                case Start(epoch):
                    self._begin(epoch)
                case Stop():
                    self._finish(action)

    def _asking(self, question: Take | Renew | Release) -> Waiting[tuple[int, Answer | None]]:
        """Put a question; returns when that was, and the answer."""
        # Connecting may take long, and the lease begins to run only with the question.
        connection = yield from self._holdings.connected()
        if connection is None:
            return 0, None
        asked_ms = self._clock.now_ms
        answer = yield from self._holdings.answering(question)
        if self._holdings.connection is not None:
            self._holdings.connection.on_news = self._on_news
        return asked_ms, answer

    def _on_answer(self, asked: tuple[int, Answer | None]) -> None:
        self._question = None
        if not self._is_over:
            asked_ms, answer = asked
            self._carry_out(self.candidate.on_answer(answer, now_ms=self._clock.now_ms, asked_ms=asked_ms))
            self._look()

    def _on_news(self) -> None:
        self._gate.through(self._hurry)

    def _hurry(self) -> None:
        if not self._is_over:
            self.candidate.hurry(now_ms=self._clock.now_ms)
            self._look()

    # --- the home

    def _begin(self, epoch: int) -> None:
        seat, node, home = self._seat, self._node, self._seat.home
        assert not node.is_up, f"{node.name} runs beside {seat.beside.name} already"
        life = home.begin(seat.beside.name)
        self._is_running = True
        tenure = Tenure(self._plan.name, epoch, self._life)
        store = StoreOf(tenure, seat.beside.name, self._plan.answer_ms)
        device = self._device = SharedDevice(
            seat.database,
            store,
            node.device_user,
            gate=self._gate,
            counts=home.counts,
            given_up=home.given_up,
            on_failed=self._on_failed,
            rng=seat.chance,
        )
        offset_ms = seat.beside.offset_ms
        device.open(self._clock.now_ms + offset_ms, partial(self._start, life))

    def _start(self, life: int, opened: Opened) -> None:
        node, candidate = self._node, self.candidate
        assert self._device is not None
        node.device = self._device
        node.clock_offset_ms = self._seat.beside.offset_ms
        node.may_act = lambda: self._clock.now_ms < candidate.lease_until_ms
        node.watch = partial(self._seat.home.look_at, life)
        node.on_life = self._on_life
        node.start(incarnation=opened.incarnation, recovered=opened.recovered)
        self._seat.link.want()

    def _on_life(self, how: str) -> None:
        """The home has begun or ended a life: if it ended by itself, a later one runs elsewhere."""
        if how and self._is_running and not self._is_over:
            self._clock.after(0, self._end_if_down)

    def _end_if_down(self) -> None:
        if self._is_running and not self._node.is_up and self._device is not None and self._device.is_over:
            self._ended(has_failed=True)

    def _on_failed(self, reason: str) -> None:
        """The store of the home has failed."""
        if self._is_running:
            self._seat.around.trace.note(self._clock.now_us, self._seat.beside.name, f"loses its home: {reason}")
            self._drop(loud=True)
            self._ended(has_failed=True)

    def _finish(self, stop: Stop) -> None:
        """Stop the home as the candidate says."""
        device = self._device
        assert device is not None
        node = self._node
        self._seat.home.counts["moved"] += stop.reason.startswith("it moves")
        may_act = self._clock.now_ms < self.candidate.lease_until_ms
        if stop.is_orderly and node.is_up and not node.is_silent and may_act:
            node.may_act = None
            device.on_stopped = self._on_stopped
            node.on_life = None
            node.stop()
            return
        self._drop(loud=True)
        self._clock.after(self._seat.chance.choice(_ENDS_US), partial(self._gate.through, self._on_stopped))

    def _on_stopped(self) -> None:
        if self._is_running and not self._is_over:
            self._ended(has_failed=False)

    def _drop(self, *, loud: bool) -> None:
        """End the home at once."""
        node, device = self._node, self._device
        assert device is not None
        if node.is_up and node.device is device:
            node.on_life = None
            node.crash(loud=loud)
        else:
            device.crash()
        self._unlink(device)

    def _unlink(self, device: SharedDevice) -> None:
        """Stop dialling, unless a later process of the broker runs the home here by now."""
        if not self._node.is_up or self._node.device is device:
            self._seat.link.unwant()

    def _ended(self, *, has_failed: bool) -> None:
        device, self._device = self._device, None
        assert device is not None
        self._is_running = False
        self._unlink(device)
        self.candidate.on_ended(now_ms=self._clock.now_ms, has_failed=has_failed)
        self._look()


class Homes:
    """All homes of a world, and the database that they share."""

    def __init__(
        self,
        plans: tuple[HomePlan, ...],
        brokers: dict[str, SimBroker],
        database: Database,
        around: Around,
    ) -> None:
        self.database = database
        self.homes = {plan.name: Home(plan, database) for plan in plans}
        for server in database.servers:
            server.audit = partial(self._audit, server)
        for home in self.homes.values():
            for name in home.plan.candidates:
                home.seats[name] = Seat(home, brokers[name], database, around)
        for name in dict.fromkeys(name for plan in plans for name in plan.candidates):
            brokers[name].on_life = partial(self._on_life, name)

    @property
    def nodes(self) -> list[SimBroker]:
        """The brokers at all seats, up or not."""
        return [node for home in self.homes.values() for node in home.nodes]

    def given_up(self) -> dict[str, int]:
        """By pubend, the highest tick below which its home ever wanted to trim."""
        return {pubend: tick for home in self.homes.values() for pubend, tick in home.given_up.items()}

    def unrest(self) -> str:
        """Which home does not run; empty if all do."""
        for home in self.homes.values():
            if home.running is None:
                return f"{home.plan.name} does not run anywhere"
        return ""

    def at(self, broker: str) -> list[Seat]:
        """The seats beside a broker."""
        return [home.seats[broker] for home in self.homes.values() if broker in home.seats]

    def _audit(self, server: Server, transaction: Transaction, answer: object) -> None:
        """The database has answered: nobody but the holder may have got anything that only the holder may have."""
        if isinstance(transaction, CommitChanges | ProveCommit | ReadContent):
            home = self.homes[transaction.tenure.home]
            breach = breach_of(transaction, answer, server.contents[home.plan.name].row)
            if breach and len(home.breaches) < _BREACHES_MAX:
                home.breaches.append(breach)

    def _on_life(self, broker: str, how: str) -> None:
        for seat in self.at(broker):
            if how:
                seat.end(in_order=how == "stops")
            else:
                seat.begin()
