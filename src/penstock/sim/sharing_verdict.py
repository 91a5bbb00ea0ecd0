"""Judges work queues: every message that a group is owed is done once, by whoever has it, and in the order of keys.

What workers were handed and said comes from the workers; when messages were handed out comes from looking at the
pubends after every step, since only their clocks count. The laws:

- **complete**: every message that became durable after a group was durable at its pubend, or was kept there then if the
  group begins with the earliest, and that the group selects, is acknowledged by a member that was told that this
  counts. A member that died before it was answered may have been the one.
- **once**: no message is acknowledged by two members that were both told that this counts, and none is handed out again
  after that.
- **one at a time**: a holder loses its message only when it has refused or returned it, or left; ``work_ms`` after the
  message was handed out, or after the holder asked for more time and was told that this counts; or when the pubend has
  not heard of the holder for ``AWAY_MS``. All by the clock of the pubend's broker. When that broker starts, the time of
  all that is handed out begins anew, as it does not know how much of it is over.
- **attempts count up**: each attempt at a message is seen by one application, once.
- **in order**: with a key, a message is handed out for the first time when every earlier one with the same key that the
  group is owed was acknowledged.
- **as selected**: by a naive evaluation of the selector.
- **within bounds**: no member has more than its ``prefetch`` of a pubend.
- **nothing is left**: at rest, no group holds the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.broker import Broker
from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.protocol.frames import LATEST
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse
from penstock.session.work import Said
from penstock.sim.node import SimBroker
from penstock.sim.verdict import Verdict as Figures
from penstock.sim.worker import GroupPlan, Job, Worker
from penstock.work.group import AWAY_MS, Group
from penstock.work.ledger import State

__all__ = ["SharingCourt"]

_PROBLEMS_MAX: Final = 20
_ID_BYTES: Final = 16
_Place = tuple[str, str]
"""A group and a pubend."""
_Spot = tuple[str, str, int]
"""A group, a pubend and a tick."""


@dataclass(slots=True)
class _Given:
    """The last time that a pubend handed out a message, as seen from outside."""

    attempt: int
    member: bytes
    at_ms: int
    """By the clock of the pubend's broker; when that broker started, if that was later."""
    is_held: bool = True


@dataclass(slots=True)
class _Life:
    """What was seen of one group in one life of its pubend's broker."""

    incarnation: int
    seen: tuple[int, ...] = ()
    """The group's counters when it was last looked at."""
    given: dict[int, _Given] = field(default_factory=dict)
    """By tick."""


class SharingCourt:
    """Everything that is known about the groups of a world."""

    def __init__(self, plans: Iterable[GroupPlan], excused: Collection[bytes] = ()) -> None:
        """Judge these groups; excused bodies cannot be read any more, as their records were damaged."""
        self.plans: Final = {plan.name: plan for plan in plans}
        self.workers: Final[dict[str, Worker]] = {}
        self.jobs: Final[list[Job]] = []
        self._excused = excused
        self._by_spot: dict[_Spot, list[Job]] = {}
        self._tests = {name: compile_condition(parse(plan.selector)) for name, plan in self.plans.items()}
        self._lives: dict[_Place, _Life] = {}
        self._owed: dict[_Place, tuple[int, frozenset[int]]] = {}
        """By group and pubend: the tick after which a group is owed everything, and single ticks before."""
        self._read: Counter[str] = Counter()
        """By broker, how much of its journal is in the index."""
        self._keyed: dict[tuple[str, str, AttributeValue], list[tuple[int, bytes]]] = {}
        """By group, pubend and key: the messages that the group selects, in order."""
        self._keys: dict[_Spot, AttributeValue] = {}
        self.figures: Final = Figures()
        self.counts: Final[Counter[str]] = Counter()
        """How often each path was taken."""

    # --- what workers see

    def on_job(self, job: Job) -> None:
        """A worker was handed a message."""
        message, group = job.message, job.group.name
        spot = (group, message.pubend, message.tick)
        jobs = self._by_spot.setdefault(spot, [])
        for other in jobs:
            if other.message.attempt == message.attempt:
                self.figures.duplicated += 1
                self._complain(f"attempt {message.attempt} at {_named(spot)} came to {other.worker}, then {job.worker}")
        if self._tests[group](decode_attributes(message.body)) is not True:
            self.figures.wrongly_filtered += 1
            self._complain(f"{group} has not selected {_named(spot)}, which {job.worker} was handed")
        self.figures.delivered += 1
        self.counts["work_repeated"] += message.attempt > 1
        jobs.append(job)
        self.jobs.append(job)

    def has_work(self, name: str) -> bool:
        """Whether a worker has a message of which it has said nothing."""
        worker = self.workers.get(name)
        mine = [job for job in self.jobs if job.worker == name]
        return worker is not None and any(not job.said and worker.is_member(job.number) for job in mine)

    # --- what pubends do

    def note_in_force(self, group: str, pubend: str, broker: SimBroker) -> None:
        """Note whether a group is in force at a pubend, that is on its disk; the first time counts."""
        disk = broker.disk
        if (group, pubend) not in self._owed and f"work/{pubend}//{group}" in disk.recovered().values:
            kept = disk.ticks(pubend) if self.plans[group].start != LATEST else []
            self._owed[group, pubend] = disk.last_tick(pubend), frozenset(kept)

    def look_at(self, broker: SimBroker) -> None:
        """Look at the groups of a broker's pubends, after a step."""
        if not broker.is_up:
            return
        core = broker.core
        assert isinstance(core, Broker)
        for (pubend, name), group in core.work.home.groups.items():
            place = (name, pubend)
            life = self._lives.get(place)
            if life is None or life.incarnation != broker.incarnation:
                life = self._lives[place] = self._begin(group, broker)
            seen = (*group.counts.values(), sum(len(member.held) for member in group.members.values()))
            if seen != life.seen:
                life.seen = seen
                self._look(broker, place, group, life)

    def _begin(self, group: Group, broker: SimBroker) -> _Life:
        """A life of a pubend's broker begins with what is on its disk."""
        life = _Life(broker.incarnation)
        for task in group.ledger.tasks.values():
            is_held = task.state is State.HELD
            self.counts["restarts_with_work_held"] += is_held
            life.given[task.tick] = _Given(task.attempts, task.member, broker.now_ms, is_held)
        return life

    def _look(self, broker: SimBroker, place: _Place, group: Group, life: _Life) -> None:
        prefetch = self.plans[place[0]].shared.prefetch
        for member in group.members.values():
            if len(member.held) > prefetch:
                self.figures.duplicated += 1
                self._complain(f"a member of {place} has {len(member.held)}, more than {prefetch}")
        for task in group.ledger.tasks.values():
            spot = (*place, task.tick)
            before = life.given.get(task.tick)
            is_given = task.attempts > (before.attempt if before else 0)
            if before is not None and before.is_held and (is_given or task.state is not State.HELD):
                before.is_held = False
                if task.state is not State.DONE:
                    self._check_released(spot, group, before, broker)
            if is_given:
                if task.attempts == 1:
                    self._check_order(broker, spot)
                life.given[task.tick] = _Given(task.attempts, task.member, broker.now_ms)

    def _check_released(self, spot: _Spot, group: Group, before: _Given, broker: SimBroker) -> None:
        """A holder has lost its message: rightly, if this is not a breach."""
        now_ms = broker.now_ms
        jobs = self._by_spot.get(spot, [])
        if any(said.outcome is Outcome.KEPT for said in _done(jobs)):
            self.figures.duplicated += 1
            self._complain(f"{_named(spot)} is to be handed out again after it was done")
        last = [job for job in jobs if job.message.attempt == before.attempt]
        if any(job.has_said(Verdict.REFUSED, Verdict.RETURNED) for job in last):
            self.counts["work_refused"] += 1
            return
        if self._has_left(before.member):
            self.counts["work_left"] += 1
            return
        member = group.members.get(before.member)
        heard_ms = before.at_ms if member is None else max(member.heard_ms, before.at_ms)
        if now_ms - heard_ms >= AWAY_MS and (member is None or member.is_away):
            self.counts["work_of_absent_members"] += 1
            return
        extended_us = [
            said_us
            for job in last
            for said_us, said in job.said
            if said.verdict is Verdict.EXTENDED and said.outcome is Outcome.KEPT
        ]
        # Of extensions the observer knows when they were asked for: pubends hear of them later, never earlier.
        since_ms = max([before.at_ms, *[each // 1_000 + broker.clock_offset_ms for each in extended_us]])
        # Pubends allow a third more than applications are promised.
        if now_ms - since_ms >= self.plans[spot[0]].shared.work_ms * 4 // 3:
            self.counts["work_run_out"] += 1
            return
        self.figures.duplicated += 1
        self._complain(f"{_named(spot)} is taken from its holder {now_ms - since_ms} ms after attempt {before.attempt}")

    def _has_left(self, identity: bytes) -> bool:
        for worker in self.workers.values():
            number = worker.identities.get(identity)
            if number is not None:
                return number in worker.left_us
        return False

    def _check_order(self, broker: SimBroker, spot: _Spot) -> None:
        """A message is handed out for the first time: the last one before it with its key is done."""
        self._index(broker)
        group, pubend, tick = spot
        if (key := self._keys.get(spot)) is None:
            return
        earlier = [
            (each, body)
            for each, body in self._keyed[group, pubend, key]
            if each < tick and body not in self._excused and self._is_owed(group, pubend, each)
        ]
        if earlier:
            jobs = self._by_spot.get((group, pubend, earlier[-1][0]), [])
            self.counts["keys_waited"] += 1
            if not _done(jobs):
                self.figures.reordered += 1
                self._complain(f"{_named(spot)} is handed out before {earlier[-1][0]} of the same key is done")

    def _index(self, broker: SimBroker) -> None:
        journal = broker.disk.journal or []
        for pubend, tick, body in journal[self._read[broker.name] :]:
            attributes = decode_attributes(body)
            for group, plan in self.plans.items():
                key = attributes.get(plan.shared.shared_by) if plan.shared.shared_by else None
                if key is not None and self._tests[group](attributes) is True:
                    self._keyed.setdefault((group, pubend, key), []).append((tick, body))
                    self._keys[group, pubend, tick] = key
        self._read[broker.name] = len(journal)

    # --- in the end

    def judge(self, brokers: Iterable[SimBroker], acknowledged: Iterable[bytes]) -> Figures:
        """Check everything that is a law once the world is at rest."""
        journal = [each for broker in brokers for each in broker.disk.journal or ()]
        durable = {body[:_ID_BYTES] for _, _, body in journal}
        for body in acknowledged:
            self.figures.acknowledged += 1
            if body[:_ID_BYTES] not in durable:
                self.figures.lost += 1
                self._complain("a message was acknowledged and never became durable")
        self.figures.published = len(durable)
        for pubend, tick, body in journal:
            attributes = decode_attributes(body)
            for group, test in self._tests.items():
                if self._is_owed(group, pubend, tick) and test(attributes) is True and body not in self._excused:
                    self._check_done((group, pubend, tick))
        for spot, jobs in self._by_spot.items():
            self.counts["work_late"] += sum(said.outcome is Outcome.LOST for said in _done(jobs))
            kept = [job for job in jobs for said in _done([job]) if said.outcome is Outcome.KEPT]
            if len(kept) > 1:
                self.figures.duplicated += 1
                self._complain(f"{_named(spot)} is done by {' and '.join(job.worker for job in kept)}")
        return self.figures

    def _check_done(self, spot: _Spot) -> None:
        outcomes = [said.outcome for said in _done(self._by_spot.get(spot, []))]
        self.counts["work_owed"] += 1
        if Outcome.KEPT in outcomes:
            return
        if None in outcomes or Outcome.UNKNOWN in outcomes:
            self.counts["answers_lost"] += 1
            return
        self.figures.lost += 1
        self._complain(f"{_named(spot)} is done by nobody; the answers: {outcomes}")

    def unrest(self, brokers: Iterable[SimBroker]) -> str:
        """What is not done yet; empty if everything is."""
        for broker in brokers:
            core = broker.core
            assert isinstance(core, Broker)
            for (pubend, name), group in core.work.home.groups.items():
                if group.ledger.undone:
                    return f"{name} has {group.ledger.undone} messages of {pubend} that are not done"
                if group.position <= broker.disk.last_tick(pubend):
                    return f"{name} holds the log of {pubend} from {group.position} on"
        for job in self.jobs:
            for _, said in job.said:
                if said.outcome is None and self.workers[job.worker].is_member(job.number):
                    return f"{job.worker} has no answer to {said.verdict.name} of {job.message.tick}"
        return ""

    # --- tools

    def _is_owed(self, group: str, pubend: str, tick: int) -> bool:
        owed = self._owed.get((group, pubend))
        return owed is not None and (tick > owed[0] or tick in owed[1])

    def _complain(self, what: str) -> None:
        if len(self.figures.problems) < _PROBLEMS_MAX:
            self.figures.problems.append(what)


def _done(jobs: Iterable[Job]) -> list[Said]:
    """What workers said who were done."""
    return [said for job in jobs for _, said in job.said if said.verdict is Verdict.DONE]


def _named(spot: _Spot) -> str:
    return f"{spot[1]} {spot[2]} for {spot[0]}"
