"""Campaigns against work queues: a random overlay, groups that share what is published, harm, healing, and a verdict.

Workers at any brokers refuse, forget, stall, die, leave, come back and are moved, while the faults of the delivery
campaign strike links, brokers and disks. In the end everything is repaired and workers are careful: then everything
must be done. The laws are those of ``SharingCourt``.

What else there may be is drawn for each seed by generators of its own (``sharing_extras``): a pubend for dead letters,
which may fill up, groups that are forgotten, messages that expire, workers that read slowly, and crowds of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from penstock.broker.broker import Broker
from penstock.model.values import AttributeValue
from penstock.protocol.frames import LATEST
from penstock.protocol.work_frames import DEAD_LETTERS, DEAD_WORK_MS
from penstock.session.work import Shared
from penstock.sim.client import SimClient
from penstock.sim.delivery import exceeded, told
from penstock.sim.delivery_plan import draw_plan
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.faults import LASTS_MS_MAX, Faults
from penstock.sim.migration_campaign import order_moves
from penstock.sim.ports import MakeBroker
from penstock.sim.probes import observed
from penstock.sim.sharing_extras import DEAD_PUBEND, Extras
from penstock.sim.sharing_verdict import SharingCourt
from penstock.sim.wire import LinkOptions
from penstock.sim.worker import GroupPlan, Worker
from penstock.sim.world import World

__all__ = ["SHARING_PROBES", "SharingCampaign"]

SHARING_PROBES: Final = {
    "work_repeated": "a message was handed to a worker again",
    "work_refused": "a refused message came again",
    "work_left": "a message came to others because its holder left",
    "work_run_out": "the time for a message was over",
    "work_run_out_unread": "the time for a message was over before its worker read it",
    "work_of_absent_members": "a message came to others because nothing was heard of its holder",
    "restarts_with_work_held": "a pubend's broker started while workers had messages",
    "moves_with_work_held": "a worker that had messages was moved by its broker",
    "keys_waited": "a message waited for the one before it with the same key",
    "work_resent": "messages that may not have arrived were sent again",
    "work_late": "a verdict came too late",
    "held_back_by_disk": "publishers were told that the disk is full",
    "held_back_by_log": "publishers were told that a log has reached its maximum",
    "work_dead": "a message became a dead letter",
    "restarts_with_dead_letters": "a pubend's broker started while dead letters were on their way",
    "dead_letters_waited": "a dead letter was not durable for seconds, as its pubend was full or away",
    "work_expired": "a message expired before anybody had done it",
    "groups_forgotten": "a group was forgotten",
    "forgotten_with_work_held": "a group was forgotten while workers had messages",
    "groups_made_anew": "a group was made anew after it had been forgotten",
    "pages_recovered": "a pubend's broker started with more than one page of a group",
    "read_late": "a worker read a message when it had been given more time for it",
    "torn_writes": "a crash destroyed a group of commits under way",
}
"""What each probe of this campaign means, by its name."""

_CLIENT_LATENCIES_US: Final = (0, 500, 5_000, 50_000)
_SYMBOLS: Final = ("ACME", "BOLT", "CORK", "DUNE")
_SELECTORS: Final = (
    "",
    "symbol = 'ACME'",
    "volume > 800",
    "volume < 100 or symbol = 'CORK'",
    "symbol <> 'CORK'",
)
_WORK_MS: Final = (1_500, 4_000, 20_000)
"""Longer than it takes to any member, or nothing would ever be done in time."""
_PREFETCHES: Final = (1, 2, 10, 50)
_TRADED: Final = 30
"""Bound on the messages published while a blow takes effect."""
_PAUSES_MS: Final = (20, 200, 1_500, 6_000)
_ABSENCES_MS: Final = (20, 1_000, 4_000, 9_000)
_CONVERGE_MS: Final = 240_000
"""Virtual time in which everything must be done after all harm was repaired."""
_CROWD: Final = (70, 160)
_HOT_SYMBOLS: Final = ("ACME",) * 12 + _SYMBOLS
"""Keys of the messages of a crowd: most have to wait for one another."""
_CRASHED: Final = 0.6
"""Share of crowds after which the broker crashes."""
_CRASHES_MS: Final = (30, 120, 400, 1_500)
_CLERKS: Final = GroupPlan(Shared(DEAD_LETTERS, work_ms=DEAD_WORK_MS, prefetch=50), "", 0, (DEAD_PUBEND,))
"""Those who make room where dead letters go; the broker makes their group by itself."""
_ANSWERS_LOST: Final = 0.05
"""Share of messages that may be done without anybody having been told."""


@dataclass(slots=True)
class _Forgetting:
    """A request to forget a group."""

    client: SimClient
    group: str
    asked_us: int
    refused: int
    """How many requests of this client had been refused by then."""
    made: dict[str, int]
    """By pubend, when the group was made that is to be forgotten."""


class SharingCampaign:
    """One seed's overlay, groups, harm and healing."""

    def __init__(
        self,
        seed: int | str,
        *,
        checks: bool = False,
        trace_lines: int = 10_000,
        brokers_max: int = 6,
        make_broker: MakeBroker = Broker,
    ) -> None:
        """Draw an overlay; with ``checks``, invariants are checked after every step of every broker."""
        self.world = World(f"sharing/{seed}", checks=checks, trace_lines=trace_lines, make_broker=make_broker)
        self._chance: Random = self.world.faults
        self._work: Random = self.world.workload
        self.extras = Extras(str(self.world.seed))
        self.plan = self.extras.add_dead_letters(draw_plan(self._chance, brokers_max=brokers_max))
        for settings in self.plan.brokers:
            # Where logs lapse, groups lose messages; there is nothing to judge then.
            broker = self.world.add_broker(replace(settings, retain_policy="hold"))
            broker.disk.journal = []
        for pair, options in zip(self.plan.pairs, self.plan.links, strict=True):
            self.world.add_link(*pair, **options)
        self._pubends = [
            (settings.name, pubend)
            for settings in self.plan.brokers
            for pubend in settings.pubends
            if pubend not in settings.best_effort and pubend != settings.dead_letters
        ]
        self.faults = Faults(self.world, list(self.plan.pairs))
        plans = [self._drawn_group(number) for number in range(self._chance.randrange(1, 4))]
        clerks = [_CLERKS] if self.extras.has_clerk else []
        self.court = SharingCourt([*plans, *clerks], self.faults.excused)
        for broker in self.world.brokers.values():
            broker.watch = self.court.look_at
            quick = broker.settings.best_effort
            self.court.hosts.update({pubend: broker for pubend in broker.settings.pubends if pubend not in quick})
            if broker.settings.dead_letters in broker.settings.pubends:
                self.court.dead_host = broker
        self.publishers = [self._add_publisher(number) for number in range(self._chance.randrange(2, 6))]
        self.court.askers.extend(self.publishers)
        self.workers = [
            self._add_worker(number, plans[number % len(plans)])
            for number in range(max(len(plans), self._chance.randrange(2, 9)))
        ]
        self.workers += [self._add_worker(len(self.workers), plan) for plan in clerks]
        self.extras.set_habits(self.workers)
        self._forgettings: list[_Forgetting] = []
        self._session = 0
        self._published = 0
        self._exceeded: list[str] = []

    def run(self, *, blows_max: int = 40) -> DeliveryRun:
        """Work quietly, do harm, heal, and finish all work; returns the outcome."""
        run = DeliveryRun(str(self.world.seed), [*self.plan.described(), *map(_described, self.court.plans.values())])
        try:
            self._harm(blows_max)
            run.unconverged = self._heal()
            self._judge(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            run.crash = told(error)
        run.exceeded = list(dict.fromkeys(self._exceeded))
        run.faults, run.timeline = self.faults.counts, self.faults.timeline
        run.simulated_ms, run.digest = self.world.elapsed_ms, self.world.digest()
        if run.failure is not None:
            run.lines = self.world.trace.lines()
        return run

    # --- the world

    def _drawn_group(self, number: int) -> GroupPlan:
        chance = self._chance
        pubends = tuple(pubend for _, pubend in self._pubends)
        shared = Shared(
            f"group-{number}",
            shared_by=chance.choice(("", "symbol")),
            work_ms=chance.choice(_WORK_MS),
            prefetch=chance.choice(_PREFETCHES),
        )
        wanted = chance.choice(((), pubends, pubends[:1]))
        shared = replace(shared, deliveries_max=self.extras.deliveries_max(number))
        return GroupPlan(shared, chance.choice(_SELECTORS), chance.choice((0, LATEST, LATEST)), wanted)

    def _add_publisher(self, number: int) -> SimClient:
        name = self._chance.choice(list(self.world.brokers))
        return self.world.add_client(f"pub-{number}", name, latency_us=self._chance.choice(_CLIENT_LATENCIES_US))

    def _add_worker(self, number: int, plan: GroupPlan) -> Worker:
        place = self._chance.choice(list(self.world.brokers))
        overlay = self.world.broker(place).settings.overlay
        worker = Worker(
            f"work-{number}", self.world.surroundings, place=place, overlay=overlay, on_job=self.court.on_job
        )
        self.court.workers[worker.name] = worker
        self.world.admit(worker, LinkOptions(latency_us=self._chance.choice(_CLIENT_LATENCIES_US)))
        worker.join(plan)
        return worker

    # --- harm, healing, verdict

    def _harm(self, blows_max: int) -> None:
        self.world.run_until_ready()
        self._note_in_force()
        self._trade()
        self.world.run_for(1_000)
        for _ in range(self._chance.randrange(4, blows_max)):
            self._trade()
            if self._chance.random() < 0.6:
                self.faults.strike()
            if self._chance.random() < 0.5:
                self._chance.choice(self._fates())()
            if self.extras.is_crowded_now():
                self._crowd()
            if self.extras.is_forgotten_now():
                self._forget()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
            self._note_in_force()
            self._look()
        self.world.run_for(LASTS_MS_MAX)
        self.faults.repair()

    def _heal(self) -> str:
        for worker in self.workers:
            worker.be_careful()
            self._come_back(worker)
        self.world.run_for(LASTS_MS_MAX)
        # Nothing is broken any more: what is published now must be done, too.
        self._note_in_force()
        self._trade()
        self.world.run_for(2_000)
        self.world.run_until(lambda: not self._unrest(), limit_ms=_CONVERGE_MS)
        self._look()
        return self._unrest()

    def _check_forgotten(self) -> None:
        """Whoever was told that a group is forgotten can rely on that."""
        for each in list(self._forgettings):
            if each.client.forgotten.get(each.group, -1) < each.asked_us:
                continue
            self._forgettings.remove(each)
            if each.client.witness.refused != each.refused:
                # Its broker may not even have heard of the pubend.
                continue
            for pubend, made in each.made.items():
                if self.court.made(each.group, pubend, self.court.hosts[pubend]) == made:
                    self._exceeded.append(f"{each.client.name} was told that {each.group} is forgotten at {pubend}")

    def _unrest(self) -> str:
        for client in self.world.clients.values():
            if not client.is_ready:
                return f"{client.name} is not connected, or not a member"
        for publisher in self.publishers:
            if publisher.backlog or publisher.unsettled:
                return f"{publisher.name} has messages that are not acknowledged"
        return self.court.unrest(self.world.brokers.values())

    def _judge(self, run: DeliveryRun) -> None:
        acknowledged = [
            each.body
            for client in self.publishers
            for each in client.published
            if each.acked_us is not None and each.is_guaranteed
        ]
        run.verdict = self.court.judge(self.world.brokers.values(), acknowledged)
        run.counts = observed(self.world) + self.court.counts
        run.counts["read_late"] = sum(worker.read_late for worker in self.workers)
        lost, owed = run.counts["answers_lost"], run.counts["work_owed"]
        if lost > max(3, _ANSWERS_LOST * owed):
            run.verdict.lost += 1
            run.verdict.problems.append(f"of {owed} messages, {lost} are done by workers that were never told")

    def _note_in_force(self) -> None:
        """Note where groups are in force."""
        for group in self.court.plans:
            for pubend, host in self.court.hosts.items():
                self.court.note_in_force(group, pubend, host)
        self._check_forgotten()

    def _look(self) -> None:
        for broker in self.world.brokers.values():
            if broker.is_up:
                broker.check_invariants()
                self._exceeded += exceeded(broker, pubends=len(self._pubends) + len(self.plan.brokers))

    # --- work

    def _trade(self) -> None:
        apart_us = self._work.choice((0, 1_000, 20_000))
        for place in range(self._work.randrange(_TRADED)):
            self._published += 1
            attributes = {
                "symbol": self._work.choice(_SYMBOLS),
                "volume": self._work.randrange(1_000),
                "number": self._published,
            }
            publisher = self._work.choice(self.publishers)
            payload = b"x" * self._work.choice(self.plan.payload_bytes)
            pubend = self._work.choice(self._pubends)[1]
            publish = partial(publisher.publish, attributes, payload, pubend, self.extras.lifetime_s())
            self.world.clock.after(apart_us * place, publish)

    def _crowd(self) -> None:
        """Publish many messages to one pubend, most of them with the same key, and perhaps crash its broker then."""
        host, pubend = self.extras.chance.choice(self._pubends)
        publisher = self.extras.chance.choice(self.publishers)
        count = self.extras.chance.randrange(*_CROWD)
        self.faults.note("crowd", f"{publisher.name} publishes {count} messages to {pubend}")
        for _ in range(count):
            self._published += 1
            symbol = self.extras.chance.choice(_HOT_SYMBOLS)
            attributes: dict[str, AttributeValue] = {"symbol": symbol, "volume": self.extras.chance.randrange(1_000)}
            attributes["number"] = self._published
            publisher.publish(attributes, b"", pubend)
        if self.extras.chance.random() < _CRASHED:
            ms = self.extras.chance.choice(_CRASHES_MS)
            self.world.clock.after(ms * 1_000, partial(self.faults.crash, host))

    def _forget(self) -> None:
        """Have somebody forget a group, whoever is a member of it."""
        client = self.extras.chance.choice(self.publishers)
        group = self.extras.chance.choice([each for each in self.court.plans if each != DEAD_LETTERS])
        if not client.is_connected:
            return
        self.faults.note("forget", f"{client.name} forgets {group}")
        made = {pubend: self.court.made(group, pubend, host) for pubend, host in self.court.hosts.items()}
        # A broker that has just started may not have heard of all pubends, and cannot tell.
        places = client.session.publishing.places
        known = {pubend: each for pubend, each in made.items() if each is not None and pubend in places}
        self._forgettings.append(_Forgetting(client, group, self.world.clock.now_us, client.witness.refused, known))
        client.forget(group)

    # --- what becomes of workers

    def _fates(self) -> list[Callable[[], None]]:
        return [self._die, self._die, self._vanish, self._quit, self._stall, self._order, self._order, self._roam]

    def _die(self) -> None:
        worker = self._work.choice(self.workers)
        if worker.is_up:
            self.faults.note("death", f"{worker.name} dies")
            worker.die(loud=self._flip())
            self.world.withdraw(worker.name)
            self._after(partial(self._come_back, worker))

    def _vanish(self) -> None:
        """Take a worker away, but alive: it comes back with all it has."""
        worker = self._work.choice(self.workers)
        if worker.is_up and not worker.is_away:
            self.faults.note("absence", f"{worker.name} goes away")
            self.world.withdraw(worker.name, loud=self._flip())
            self._after(partial(self._come_back, worker))

    def _quit(self) -> None:
        worker = self._work.choice(self.workers)
        for number in list(worker.wanted):
            self.faults.note("quit", f"{worker.name} leaves {worker.groups[number].name}")
            worker.quit(number)
            self._after(partial(self._come_back, worker))

    def _stall(self) -> None:
        worker = self._work.choice(self.workers)
        ms = self._work.choice(_ABSENCES_MS)
        self.faults.note("stalled_worker", f"{worker.name} does nothing for {ms} ms")
        worker.stall(ms)

    def _order(self) -> None:
        """Have a broker move its clients to another one."""
        names = [name for name, broker in self.world.brokers.items() if broker.is_up]
        if len(names) < 2:
            return
        old, new = self._work.sample(names, 2)
        self._session += 1
        moved = order_moves(self.world, old, new, session=self._session)
        if moved:
            self.faults.note("move", f"{', '.join(moved)} are to go from {old} to {new}")
        for name in moved:
            self.court.counts["moves_with_work_held"] += self.court.has_work(name)

    def _roam(self) -> None:
        """Send a publisher to another broker, with what it has not got acknowledged."""
        client = self._work.choice(self.publishers)
        if not client.is_away:
            broker = self._work.choice(list(self.world.brokers))
            self.faults.note("roam", f"{client.name} goes from {client.place} to {broker}")
            self.world.withdraw(client.name)
            self._after(partial(self.world.place, client.name, broker))

    def _come_back(self, worker: Worker) -> None:
        if not worker.is_up or worker.is_away:
            broker = self._work.choice(list(self.world.brokers))
            self.faults.note("return", f"{worker.name} comes back at {broker}")
            self.world.place(worker.name, broker)
        if not worker.wanted:
            worker.join(next(iter(worker.groups.values())))

    def _after(self, what: Callable[[], None]) -> None:
        self.world.clock.after(self._work.choice(_ABSENCES_MS) * 1_000, what)

    def _flip(self) -> bool:
        return self._work.random() < 0.5


def _described(plan: GroupPlan) -> str:
    shared = plan.shared
    start = "the latest" if plan.start == LATEST else "the earliest"
    pubends = ", ".join(plan.pubends) or "all pubends"
    return (
        f"{shared.group}: {plan.selector or 'everything'} from {start} of {pubends}, "
        f"by {shared.shared_by or 'no key'}, {shared.work_ms} ms, {shared.prefetch} at a time, "
        f"{shared.deliveries_max or 'any number of'} deliveries"
    )
