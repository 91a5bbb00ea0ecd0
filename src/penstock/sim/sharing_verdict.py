"""Judges work queues: every message that a group is owed is done once, by whoever has it, and in the order of keys.

What workers were handed and said comes from the workers; when messages were handed out comes from looking at the
pubends after every step, since only their clocks count. The laws:

- **complete**: every message that became durable after a group was durable at its pubend, or was kept there then if the
  group begins with the earliest, and that the group selects, is acknowledged by a member that was told that this
  counts, or is a dead letter. A member that died before it was answered may have been the one. A message with a
  lifetime may be done by nobody once the pubend's clock has come to its end.
- **once**: no message is acknowledged by two members that were both told that this counts, and none is handed out again
  after that. None is both acknowledged and a dead letter.
- **one at a time**: a holder loses its message only when it has refused or returned it, or left; ``work_ms`` after the
  message was handed out, or after the holder asked for more time and was told that this counts; or when the pubend has
  not heard of the holder for ``AWAY_MS``. All by the clock of the pubend's broker. When that broker starts, the time of
  all that is handed out begins anew, as it does not know how much of it is over.
- **attempts count up**: each attempt at a message is seen by one application, once.
- **in order**: with a key, a message is handed out for the first time when every earlier one with the same key that the
  group is owed was acknowledged, is a durable dead letter, or has expired while nobody had it.
- **in time**: no message is handed out that has expired.
- **dead letters**: a message counts as done once its dead letter is durable, not before. Each has one dead letter, with
  its identifier, attributes and payload, and as many attempts as members have seen, no fewer than ``deliveries_max``.
- **forgotten**: a group comes anew at a pubend only if it was forgotten there, once for each request, and never for a
  member that has belonged to it all the while. Who believes to be a member is one. Nothing is left on disks of a group
  that was forgotten. Of a group that was made anew all laws hold again; it has nothing to do with the former one.
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
from penstock.protocol.frames import LATEST
from penstock.protocol.work_frames import DEAD_LETTERS, Outcome, Verdict
from penstock.session.work import Said
from penstock.sim.client import SimClient
from penstock.sim.node import SimBroker
from penstock.sim.sharing_index import SharingIndex
from penstock.sim.verdict import Verdict as Figures
from penstock.sim.worker import GroupPlan, Job, Worker
from penstock.work.group import AWAY_MS, Group
from penstock.work.ledger import Ledger, State, Task

__all__ = ["SharingCourt"]

_PROBLEMS_MAX: Final = 20
_ID_BYTES: Final = 16
_SETTLED_US: Final = 6_000_000
"""After this long nothing is on the way any more that a host said before it knew that its client belongs to a group."""
_WAITED_MS: Final = 5_000
"""A dead letter that is not durable for this long had to wait for its pubend."""
_Place = tuple[str, str, int]
"""A group, a pubend, and when the group was made: it may be forgotten, and made anew."""
_Spot = tuple[str, str, int, int]
"""The same, and a tick."""
_Task = tuple[str, str, int]
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

    group: Group
    incarnation: int
    seen: tuple[int, ...] = ()
    """The group's counters when it was last looked at."""
    given: dict[int, _Given] = field(default_factory=dict)
    """By tick."""
    open: dict[int, Task] = field(default_factory=dict)
    """By tick, what was held or given up when the group was last looked at."""


class SharingCourt:
    """Everything that is known about the groups of a world."""

    def __init__(self, plans: Iterable[GroupPlan], excused: Collection[bytes] = ()) -> None:
        """Judge these groups; excused bodies cannot be read any more, as their records were damaged."""
        self.plans: Final = {plan.name: plan for plan in plans}
        self.workers: Final[dict[str, Worker]] = {}
        self.hosts: Final[dict[str, SimBroker]] = {}
        """The brokers of the pubends at which groups work."""
        self.dead_host: SimBroker | None = None
        """The broker of the pubend for dead letters, if there is one."""
        self.askers: Final[list[SimClient]] = []
        """The clients that may ask to forget a group."""
        self.jobs: Final[list[Job]] = []
        self._excused = excused
        self._by_task: dict[_Task, list[Job]] = {}
        self._handed: dict[_Task, dict[tuple[int, bytes], list[int]]] = {}
        """By attempt and member: when the groups were made whose pubend has handed out a message as that."""
        self._index = SharingIndex(self.plans)
        self._lives: dict[str, dict[tuple[str, str], _Life]] = {}
        """By broker, pubend and group."""
        self._eras: dict[tuple[str, str], list[int]] = {}
        """By group and pubend: when the group was made, each time."""
        self._told: dict[tuple[str, str], set[tuple[bytes, int]]] = {}
        """Who had belonged to a group for a while when it was forgotten, each with the number of the connection."""
        self._owed: dict[_Place, tuple[int, frozenset[int]]] = {}
        """The tick after which a group is owed everything, and single ticks before."""
        self._dying: dict[_Task, set[int]] = {}
        """When the groups were made that have given up a message."""
        self._dying_ms: dict[_Spot, int] = {}
        """When a message was given up, by the clock of its pubend's broker."""
        self._buried: set[_Spot] = set()
        """Which messages are done as dead letters."""
        self.figures: Final = Figures()
        self.counts: Final[Counter[str]] = Counter()
        """How often each path was taken."""

    # --- what workers see

    def on_job(self, job: Job) -> None:
        """A worker was handed a message."""
        message, group = job.message, job.group.name
        task = (group, message.pubend, message.tick)
        jobs = self._by_task.setdefault(task, [])
        handed = self._handed.get(task, {}).get((message.attempt, job.member), [])
        # Of several groups of that name it is the last one that takes its verdict.
        job.eras.update(handed[-1:])
        for other in jobs:
            is_of_another = job.eras and other.eras and job.eras.isdisjoint(other.eras)
            if other.message.attempt == message.attempt and not is_of_another:
                self.figures.duplicated += 1
                self._complain(f"attempt {message.attempt} at {_named(task)} came to {other.worker}, then {job.worker}")
        if not self._index.selects(group, message.body):
            self.figures.wrongly_filtered += 1
            self._complain(f"{group} has not selected {_named(task)}, which {job.worker} was handed")
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
        life = self._lives.get(broker.name, {}).get((pubend, group))
        if life is None or (group, pubend, life.group.ledger.made) in self._owed:
            return
        disk = broker.disk
        made = self.made(group, pubend, broker)
        if made is not None and (group, pubend, made) not in self._owed:
            kept = disk.ticks(pubend) if self.plans[group].start != LATEST else []
            self._owed[group, pubend, made] = disk.last_tick(pubend), frozenset(kept)

    @staticmethod
    def made(group: str, pubend: str, broker: SimBroker) -> int | None:
        """When a group was made, as a pubend's disk says; None if it is not there."""
        head = broker.disk.recovered().values.get(f"work/{pubend}//{group}")
        return None if head is None else Ledger.restored(head, {}).made

    def look_at(self, broker: SimBroker) -> None:
        """Look at the groups of a broker's pubends, after a step."""
        if not broker.is_up:
            return
        core = broker.core
        assert isinstance(core, Broker)
        groups = core.work.home.groups
        lives = self._lives.setdefault(broker.name, {})
        for key, group in groups.items():
            if key[1] not in self.plans:
                self._check_foreign(key[0], key[1], broker)
                continue
            life = lives.get(key)
            if life is None or life.incarnation != broker.incarnation or life.group is not group:
                if life is not None and life.group.ledger.made != group.ledger.made:
                    self._end(key, life)
                life = lives[key] = self._begin(key, group, broker)
            seen = (*group.counts.values(), sum([len(member.held) for member in group.members.values()]))
            if seen != life.seen:
                life.seen = seen
                self._look(broker, (key[1], key[0], group.ledger.made), group, life)
        if len(lives) > len(groups):
            for key in [each for each in lives if each not in groups]:
                self._end(key, lives.pop(key))

    def _check_foreign(self, pubend: str, name: str, broker: SimBroker) -> None:
        if name != DEAD_LETTERS or pubend != broker.settings.dead_letters:
            self.figures.wrongly_filtered += 1
            self._complain(f"there is a group {name} at {pubend}, which nobody has asked for")

    def _begin(self, key: tuple[str, str], group: Group, broker: SimBroker) -> _Life:
        """A group begins, or a life of its pubend's broker: with what is on its disk."""
        pubend, name = key
        made = group.ledger.made
        eras = self._eras.setdefault((name, pubend), [])
        if made not in eras:
            self._check_anew(name, pubend, group)
            eras.append(made)
        if pubend == broker.settings.dead_letters and name != DEAD_LETTERS:
            self.figures.wrongly_filtered += 1
            self._complain(f"{name} works on the dead letters, which nobody has asked for")
        life = _Life(group, broker.incarnation)
        self.counts["pages_recovered"] += len({task.page for task in group.ledger.undone_tasks()}) > 1
        for task in group.ledger.tasks.values():
            is_held = task.state is State.HELD
            self.counts["restarts_with_work_held"] += is_held
            life.given[task.tick] = _Given(task.attempts, task.member, broker.now_ms, is_held)
            if task.number:
                self.counts["restarts_with_dead_letters"] += task.state is State.DYING
                self._give_up((name, pubend, made, task.tick), task, broker.now_ms)
            if is_held or task.state is State.DYING:
                life.open[task.tick] = task
        return life

    def _end(self, key: tuple[str, str], life: _Life) -> None:
        """A group is gone from its pubend: it was forgotten, or was not durable when the broker crashed."""
        pubend, name = key
        told = self._told[name, pubend] = set()
        for member in life.group.members.values():
            for worker in self.workers.values():
                since_us = worker.confirmed_us(member.identity, pubend)
                if since_us is not None and worker.clock.now_us - since_us >= _SETTLED_US:
                    told.add((member.identity, member.round))
        self.counts["groups_forgotten"] += 1
        self.counts["forgotten_with_work_held"] += any(member.held for member in life.group.members.values())

    def _check_anew(self, name: str, pubend: str, group: Group) -> None:
        """A group was made at a pubend: rightly, if it is the first one, or those before it were forgotten."""
        former = sum((name, pubend, each) in self._owed for each in self._eras[name, pubend])
        if former > self._forgets(name):
            self.figures.duplicated += 1
            self._complain(f"{name} is made anew at {pubend} though nobody has forgotten it ({former} times before)")
        told = self._told.get((name, pubend), set())
        if any((member.identity, member.round) in told for member in group.members.values()):
            self.figures.duplicated += 1
            self._complain(f"{name} was forgotten at {pubend}, and comes back for a member that belonged to it")
        self.counts["groups_made_anew"] += former > 0

    def _look(self, broker: SimBroker, place: _Place, group: Group, life: _Life) -> None:
        prefetch = self.plans[place[0]].shared.prefetch
        for member in group.members.values():
            if len(member.held) > prefetch:
                self.figures.duplicated += 1
                self._complain(f"a member of {place[:2]} has {len(member.held)}, more than {prefetch}")
        for tick, task in list(life.open.items()):
            self._look_at_open((*place, tick), task, life, broker)
        for task in group.ledger.undone_tasks():
            before = life.given.get(task.tick)
            if task.attempts > (before.attempt if before else 0):
                self._look_at_given((*place, task.tick), task, life, broker)

    def _look_at_open(self, spot: _Spot, task: Task, life: _Life, broker: SimBroker) -> None:
        """A message was held or given up: see whether it is still."""
        before = life.given[task.tick]
        is_given = task.attempts > before.attempt
        if before.is_held and (is_given or task.state is not State.HELD):
            before.is_held = False
            if task.state is not State.DONE:
                self._check_released(spot, life.group, before, broker)
        if task.number:
            self._give_up(spot, task, broker.now_ms)
        if task.state not in (State.HELD, State.DYING):
            del life.open[task.tick]

    def _look_at_given(self, spot: _Spot, task: Task, life: _Life, broker: SimBroker) -> None:
        """A message was handed out."""
        name, pubend, made, tick = spot
        self._index.read([broker])
        if task.attempts == 1:
            self._check_order(spot, life.group, broker)
        end_ms = self._index.ends_ms.get((pubend, tick))
        if end_ms is not None and end_ms <= broker.now_ms:
            self.figures.wrongly_filtered += 1
            self._complain(f"{_named(spot)} is handed out {broker.now_ms - end_ms} ms after it has expired")
        life.given[tick] = _Given(task.attempts, task.member, broker.now_ms)
        life.open[tick] = task
        eras = self._handed.setdefault((name, pubend, tick), {}).setdefault((task.attempts, task.member), [])
        if made not in eras:
            eras.append(made)
        for job in self._by_task.get((name, pubend, tick), []):
            # Handed out to the same member by a former group of that name: it may say only now that it is done.
            is_same = (job.message.attempt, job.member) == (task.attempts, task.member)
            if is_same and job.eras and not any(said.outcome is not None for said in _done([job])):
                job.eras.add(made)

    def _give_up(self, spot: _Spot, task: Task, now_ms: int) -> None:
        """A message was given up, and is done if its dead letter is durable."""
        name, pubend, made, tick = spot
        self._dying.setdefault((name, pubend, tick), set()).add(made)
        since_ms = self._dying_ms.setdefault(spot, now_ms)
        if task.state is not State.DONE or spot in self._buried:
            return
        if self.dead_host is not None:
            self._index.read([self.dead_host])
        letters = self._index.letters.get((name, pubend, tick), [])
        body = self._index.bodies.get((pubend, tick))
        if letters:
            self._buried.add(spot)
            self.counts["dead_letters_waited"] += now_ms - since_ms >= _WAITED_MS
        elif body not in self._excused:
            self.figures.lost += 1
            self._complain(f"{_named(spot)} is done as a dead letter, which is not durable")

    def _check_released(self, spot: _Spot, group: Group, before: _Given, broker: SimBroker) -> None:
        """A holder has lost its message: rightly, if this is not a breach."""
        now_ms = broker.now_ms
        jobs = self._jobs(spot)
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
        if member is None and self._forgets(spot[0]):
            # Where the group was forgotten it was refused, and so it has left here, too; its worker will hear of that.
            self.counts["work_of_refused_members"] += 1
            return
        heard_ms = before.at_ms if member is None else max(member.heard_ms, before.at_ms)
        if now_ms - heard_ms >= AWAY_MS and (member is None or member.is_away):
            self.counts["work_of_absent_members"] += 1
            return
        attempt = (before.member, spot[1], spot[3], before.attempt)
        extended_us = [each.extended_us[attempt] for each in self.workers.values() if attempt in each.extended_us]
        # Of extensions the observer knows when they were asked for: pubends hear of them later, never earlier.
        since_ms = max([before.at_ms, *[each // 1_000 + broker.clock_offset_ms for each in extended_us]])
        # Pubends allow a third more than applications are promised.
        if now_ms - since_ms >= self.plans[spot[0]].shared.work_ms * 4 // 3:
            self.counts["work_run_out"] += 1
            self.counts["work_run_out_unread"] += not last
            return
        self.figures.duplicated += 1
        self._complain(f"{_named(spot)} is taken from its holder {now_ms - since_ms} ms after attempt {before.attempt}")

    def _forgets(self, group: str) -> int:
        """How often clients have said that a group is to be forgotten."""
        return sum(client.witness.forgets[group] for client in self.askers)

    def _has_left(self, identity: bytes) -> bool:
        for worker in self.workers.values():
            number = worker.identities.get(identity)
            if number is not None:
                return number in worker.left_us
        return False

    def _check_order(self, spot: _Spot, group: Group, broker: SimBroker) -> None:
        """A message is handed out for the first time: those before it with its key are done."""
        name, pubend, made, tick = spot
        key = self._index.keys.get((name, pubend, tick))
        if key is None:
            return
        is_counted = False
        for each, body in reversed(self._index.keyed[name, pubend, key]):
            if each >= tick or body in self._excused or not self._is_owed(spot[:3], each):
                continue
            earlier = (name, pubend, made, each)
            self.counts["keys_waited"] += not is_counted
            is_counted = True
            if _done(self._jobs(earlier)) or earlier in self._buried:
                # What was before that one was done then.
                return
            known = group.ledger.tasks.get(each)
            if not self._has_expired(pubend, each, broker) or (known is not None and known.state is State.HELD):
                self.figures.reordered += 1
                self._complain(f"{_named(spot)} is handed out before {each} of the same key is done")
                return

    def _has_expired(self, pubend: str, tick: int, broker: SimBroker) -> bool:
        """Whether the clock of a pubend's broker has ever come to the end of a message."""
        end_ms = self._index.ends_ms.get((pubend, tick))
        return end_ms is not None and broker.wall_ms_max() >= end_ms

    # --- in the end

    def judge(self, brokers: Iterable[SimBroker], acknowledged: Iterable[bytes]) -> Figures:
        """Check everything that is a law once the world is at rest."""
        brokers = list(brokers)
        self._index.read(brokers)
        journal = [(broker, *each) for broker in brokers for each in broker.disk.journal or ()]
        durable = {body[:_ID_BYTES] for _, _, _, body in journal}
        for body in acknowledged:
            self.figures.acknowledged += 1
            if body[:_ID_BYTES] not in durable:
                self.figures.lost += 1
                self._complain("a message was acknowledged and never became durable")
        self.figures.published = len(durable)
        for broker, pubend, tick, body in journal:
            for group in self.plans:
                # A group that was forgotten is owed nothing any more.
                for made in self._eras.get((group, pubend), [])[-1:]:
                    is_owed = self._is_owed((group, pubend, made), tick) and self._index.selects(group, body)
                    if is_owed and body not in self._excused:
                        self._check_done((group, pubend, made, tick), broker)
        for task, jobs in self._by_task.items():
            self.counts["work_late"] += sum(said.outcome is Outcome.LOST for said in _done(jobs))
            self._check_once(task, jobs)
        self._check_letters()
        for broker in brokers:
            self._check_left_over(broker)
        return self.figures

    def _check_once(self, task: _Task, jobs: list[Job]) -> None:
        group, pubend, tick = task
        kept = [job for job in jobs for said in _done([job]) if said.outcome is Outcome.KEPT]
        for made in self._eras.get((group, pubend), [0]):
            spot = (group, pubend, made, tick)
            done = [job.worker for job in kept if self._is_of(job, made)]
            done += ["a dead letter"] if spot in self._buried else []
            if len(done) > 1:
                self.figures.duplicated += 1
                self._complain(f"{_named(task)} is done by {' and '.join(done)}")

    def _check_done(self, spot: _Spot, broker: SimBroker) -> None:
        outcomes = [said.outcome for said in _done(self._jobs(spot))]
        self.counts["work_owed"] += 1
        if Outcome.KEPT in outcomes:
            return
        if spot in self._buried:
            self.counts["work_dead"] += 1
            return
        if self._has_expired(spot[1], spot[3], broker):
            self.counts["work_expired"] += 1
            return
        if None in outcomes or Outcome.UNKNOWN in outcomes:
            self.counts["answers_lost"] += 1
            return
        self.figures.lost += 1
        self._complain(f"{_named(spot)} is done by nobody; the answers: {outcomes}")

    def _check_letters(self) -> None:
        """Each message that was given up has one dead letter, or one for each time that its group was made."""
        for task, letters in self._index.letters.items():
            eras = self._dying.get(task, set())
            if len(letters) > len(eras):
                self.figures.duplicated += 1
                self._complain(f"{_named(task)} has {len(letters)} dead letters, and was given up {len(eras)} times")
            for letter in letters:
                fault = self._index.fault_of(task, letter) or self._miscount(task, letter.attempts, eras)
                if fault:
                    self.figures.wrongly_filtered += 1
                    self._complain(f"the dead letter of {_named(task)} {fault}")

    def _miscount(self, task: _Task, attempts: int, eras: set[int]) -> str:
        """What is wrong with how often a message was handed out, as its dead letter says."""
        least = self.plans[task[0]].shared.deliveries_max
        handed = self._handed.get(task, {})
        if len(eras) == 1:
            of_group = [job.message.attempt for job in self._by_task.get(task, []) if self._is_of(job, *eras)]
            least = max([least, *of_group])
        most = max([attempt for attempt, _ in handed], default=0)
        return "" if least <= attempts <= most else f"has {attempts} attempts, and there were {least} to {most}"

    def _check_left_over(self, broker: SimBroker) -> None:
        """What is on a disk belongs to a group that there is."""
        core = broker.core
        assert isinstance(core, Broker)
        names = [each.split("/", 3)[1:] for each in broker.disk.recovered().values if each.startswith("work/")]
        for pubend, page, name in names:
            group = core.work.home.groups.get((pubend, name))
            if group is None or page not in group.ledger.names():
                self.figures.duplicated += 1
                self._complain(f"{name} has left page {page or 'head'} on the disk of {pubend}")

    def unrest(self, brokers: Iterable[SimBroker]) -> str:
        """What is not done yet; empty if everything is."""
        for broker in brokers:
            core = broker.core
            assert isinstance(core, Broker)
            for (pubend, name), group in core.work.home.groups.items():
                if name not in self.plans:
                    continue
                if group.ledger.undone:
                    return f"{name} has {group.ledger.undone} messages of {pubend} that are not done"
                if group.position <= broker.disk.last_tick(pubend):
                    return f"{name} holds the log of {pubend} from {group.position} on"
        for worker in self.workers.values():
            for number in worker.wanted:
                if stranger := self._stranger(worker, number):
                    return stranger
        for job in self.jobs:
            for _, said in job.said:
                if said.outcome is None and self.workers[job.worker].is_member(job.number):
                    return f"{job.worker} has no answer to {said.verdict.name} of {job.message.tick}"
        return ""

    def _stranger(self, worker: Worker, number: int) -> str:
        """Where a worker believes to be a member, and is not."""
        plan = worker.groups[number]
        for pubend, broker in self.hosts.items():
            is_meant = pubend in plan.pubends if plan.pubends else pubend != broker.settings.dead_letters
            core = broker.core
            assert isinstance(core, Broker)
            group = core.work.home.groups.get((pubend, plan.name))
            if is_meant and (group is None or worker.member(number) not in group.members):
                return f"{worker.name} believes to be a member of {plan.name} at {pubend}"
        return ""

    # --- tools

    def _is_owed(self, place: _Place, tick: int) -> bool:
        owed = self._owed.get(place)
        return owed is not None and (tick > owed[0] or tick in owed[1])

    def _jobs(self, spot: _Spot) -> list[Job]:
        """What workers were handed of a message by one group."""
        return [job for job in self._by_task.get((spot[0], spot[1], spot[3]), []) if self._is_of(job, spot[2])]

    @staticmethod
    def _is_of(job: Job, made: int) -> bool:
        """Whether a job comes from the group that was made then; one of which nothing is known comes from any."""
        return not job.eras or made in job.eras

    def _complain(self, what: str) -> None:
        if len(self.figures.problems) < _PROBLEMS_MAX:
            self.figures.problems.append(what)


def _done(jobs: Iterable[Job]) -> list[Said]:
    """What workers said who were done."""
    return [said for job in jobs for _, said in job.said if said.verdict is Verdict.DONE]


def _named(spot: _Spot | _Task) -> str:
    return f"{spot[1]} {spot[-1]} for {spot[0]}"
