"""The groups of this broker's pubends: takes what members say, reads logs for them, and hands out messages.

Everything that a turn changes becomes durable in one commit. What depends on it waits for that: answers to members, and
messages that are handed out. A group that has caught up looks at messages when they are announced; one that is behind
has them read from the log, as far as it has room.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.due import Due
from penstock.broker.durable import SetValue
from penstock.broker.effects import ReadLog
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.settings import BrokerSettings
from penstock.model.body import take_in
from penstock.model.errors import MisuseError
from penstock.model.tick import TickRange
from penstock.protocol.control import shortened
from penstock.protocol.frames import (
    LATEST,
    Handed,
    WorkAsk,
    WorkJoined,
    WorkLeave,
    WorkOutcomes,
    WorkVerdicts,
)
from penstock.protocol.status import GroupStatus
from penstock.protocol.work_frames import DEAD_LETTERS, DEAD_WORK_MS, PREFETCH_MAX, Verdict
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import EVERYTHING
from penstock.streams.knowledge import Knowledge
from penstock.work.group import Group, Member
from penstock.work.ledger import DamagedLedgerError, Ledger, State, Task
from penstock.work.terms import Terms

__all__ = ["WorkAnswer", "WorkHome"]

WorkAnswer: TypeAlias = Handed | WorkJoined | WorkOutcomes
"""A word of a pubend to a host, which both are named in it."""

_PREFIX: Final = "work"
_VERDICTS: Final = tuple(Verdict)
"""By their numbers: to make one of its number costs several times as much, for every message."""
_FIRST_NUMBER: Final = 1 << 61
"""Numbers of reads: far from those for subscribers, and those for clients that read logs."""
_READ_BYTES: Final = 128 * 1024
_FRAME_BYTES: Final = 64 * 1024
"""Most data handed out in one frame, unless a single message has more."""
_Key: TypeAlias = tuple[str, str]
"""Pubend and group."""


@dataclass(slots=True)
class _Handout:
    """What one member was given, to be sent when that is durable."""

    key: _Key
    member: bytes
    tasks: list[Task]
    attempts: list[int]
    """Which attempt at each of them this is: one whose time is over before it was sent may be given again."""


@dataclass(slots=True)
class _Waiting:
    """What waits for a commit."""

    commit: int
    answers: list[WorkAnswer] = field(default_factory=list)
    handed: list[_Handout] = field(default_factory=list)
    given_up: list[tuple[_Key, Group, int]] = field(default_factory=list)
    """Groups with new dead letters, each with the number of the last one."""


class WorkHome:
    """The groups at the pubends of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        connections: Connections,
        logs: Mapping[str, PubendLog],
        registers: Mapping[str, Register],
        commits: Commits,
        values: Mapping[str, bytes],
        dead_letters: DeadLetters,
        *,
        life: int = 0,
    ) -> None:
        """Takes the number of this life of the broker, which is higher than that of any before."""
        self._settings, self._connections = settings, connections
        self._life = life
        self._logs, self._registers, self._commits = logs, registers, commits
        self._values = {name: value for name, value in values.items() if name.startswith(f"{_PREFIX}/")}
        """What was stored, until groups are made of it at the first turn."""
        self._expired: list[bytes] = []
        self._groups: dict[_Key, Group] = {}
        self._damaged: dict[_Key, list[str]] = {}
        """Groups that cannot be read any more, with the names of their values: they hold the whole log."""
        self._stirred: dict[_Key, None] = {}
        """Groups to look after at the end of the turn."""
        self._outcomes: dict[tuple[_Key, bytes, str], list[tuple[int, int, int, int]]] = {}
        self._answers: list[WorkAnswer] = []
        """What has to wait for this turn's commit."""
        self._again: list[_Handout] = []
        """What members that have come anew had before."""
        self._waiting: deque[_Waiting] = deque()
        self._numbered: dict[_Key, int] = {}
        """By group, the number up to which its dead letters are durable as such: only these are sent."""
        self._last_commit = self._durable = 0
        """The last commit with something in it, and the last one whose values are durable."""
        self.dead_letters: Final = dead_letters
        self._reads: dict[int, ReadLog] = {}
        self._last_read = _FIRST_NUMBER
        self._effects: list[ReadLog] = []
        self.due = Due(self.next_deadline)
        self.counts = {"groups_made": 0, "work_lost": 0, "work_resent": 0}

    def begin(self, *, now_ms: int) -> None:
        """Goes on with the groups of the former life."""
        heads: dict[_Key, bytes] = {}
        pages: dict[_Key, dict[int, bytes]] = {}
        names: dict[_Key, list[str]] = {}
        for name, value in self._values.items():
            _, pubend, page, group = name.split("/", 3)
            if pubend not in self._logs:
                continue
            key = (pubend, group)
            names.setdefault(key, []).append(name)
            if page:
                pages.setdefault(key, {})[int(page)] = value
            else:
                heads[key] = value
        for key, known in names.items():
            try:
                ledger = Ledger.restored(heads.get(key, b""), pages.get(key, {}))
                self._groups[key] = Group(ledger, now_ms=now_ms)
                self._numbered[key] = ledger.dead
                self._stir(key)
            except (DamagedLedgerError, SelectorError) as error:
                self._damaged[key] = known
                self._connections.record("group-damaged", pubend=key[0], group=key[1], problem=str(error))
        self._values = {}
        self.keep_dead_letters(now_ms=now_ms)

    def keep_dead_letters(self, *, now_ms: int) -> None:
        """Makes the group that holds dead letters, if they come here: nobody may have looked at them for long."""
        pubend = self._settings.dead_letters
        key = (pubend, DEAD_LETTERS)
        if pubend not in self._logs or key in self._groups or key in self._damaged:
            return
        terms = Terms(DEAD_LETTERS, str(EVERYTHING), work_ms=DEAD_WORK_MS)
        self._groups[key] = Group(Ledger(terms, "", self._logs[pubend].trimmed_below - 1, now_ms), now_ms=now_ms)
        self._stir(key)

    # --- members

    def ask(self, frame: WorkAsk, *, now_ms: int) -> list[WorkAnswer]:
        """A host asks for messages for a member: takes it into the group, which may be new."""
        key = (frame.pubend, frame.group)
        if key in self._damaged:
            problem = f"what was stored of group {frame.group!r} is damaged; forget the group to make it anew"
            return [_joined(frame, problem)]
        group = self._groups.get(key)
        if group is None:
            if frame.has_joined:
                # It belonged to a group that is gone: what is still said in it must not make it anew.
                return [_joined(frame, _forgotten(frame.group))]
            made = self._make(frame, now_ms)
            if isinstance(made, str):
                return [_joined(frame, made)]
            group = self._groups[key] = made
        problem = group.terms.difference(_terms(frame))
        if problem:
            return [_joined(frame, problem)]
        prefetch = min(frame.prefetch, PREFETCH_MAX)
        is_new = group.join(frame.member, frame.host, frame.client, frame.round, prefetch, now_ms=now_ms)
        member = group.members.get(frame.member)
        if member is None:
            return [_joined(frame, f"group {frame.group!r} has no room for more members")]
        answers: list[WorkAnswer] = []
        if member.round != frame.round:
            # An old word.
            return []
        if is_new or not frame.has_joined:
            # Also to one that is known: an earlier answer may have got lost.
            self._answers.append(_joined(frame, ""))
        if is_new:
            # It has come anew: what it was sent before may not have arrived.
            read = [task for task in member.held.values() if task.body]
            self._again.append(_handout(key, frame.member, read))
        is_counted = (frame.life, frame.series) == (self._life, member.series)
        received = frame.received if is_counted else 0
        for handing in group.confirm(frame.member, frame.round, received, now_ms=now_ms):
            self.counts["work_resent"] += 1
            tasks = handing.open(frame.member)
            # Also if nothing is left of it: the host waits for the number.
            answers.append(self._handed(key, member, handing.sequence, tasks))
        self._stir(key)
        return answers

    def _make(self, frame: WorkAsk, now_ms: int) -> Group | str:
        """Makes a group, or says why it cannot be."""
        terms = _terms(frame)
        if terms.deliveries_max and not self._settings.dead_letters:
            return f"deliveries_max needs a pubend for dead letters, and broker {self._settings.name} knows none"
        log = self._logs[frame.pubend]
        if frame.group == DEAD_LETTERS:
            return (
                f"group {DEAD_LETTERS!r} is made by the broker, where dead letters go, and pubend {log.name} has none"
            )
        if frame.group in self._registers[frame.pubend]:
            return f"{frame.group!r} is the name of a durable subscription at pubend {frame.pubend}"
        if sum(pubend == frame.pubend for pubend, _ in self._groups) >= self._settings.groups_max:
            return f"pubend {frame.pubend} has {self._settings.groups_max:,} groups, which is its limit (groups_max)"
        start = log.promised + 1 if frame.start == LATEST else max(frame.start, log.trimmed_below)
        try:
            terms.check()
            made = Group(Ledger(terms, frame.client if frame.is_owned else "", start - 1, now_ms), now_ms=now_ms)
        except (MisuseError, SelectorError) as error:
            return str(error)
        self.counts["groups_made"] += 1
        return made

    def leave(self, frame: WorkLeave, *, now_ms: int) -> None:
        """A member has left, or its connection is gone."""
        group = self._groups.get((frame.pubend, frame.group))
        if group is not None:
            group.leave(frame.member, frame.round, is_final=frame.is_final, now_ms=now_ms)
            self._stir((frame.pubend, frame.group))

    def judge(self, frame: WorkVerdicts, *, now_ms: int) -> None:
        """Takes a member's verdicts; it is answered when they are durable."""
        key = (frame.pubend, frame.group)
        group = self._groups.get(key)
        if group is None:
            return
        outcomes = self._outcomes.setdefault((key, frame.member, frame.host), [])
        for tick, attempt, verdict, delay_ms, reason in frame.verdicts:
            outcome = group.judge(frame.member, tick, attempt, _VERDICTS[verdict], delay_ms, reason, now_ms=now_ms)
            outcomes.append((tick, attempt, verdict, outcome))
        self._stir(key)

    @property
    def groups(self) -> Mapping[tuple[str, str], Group]:
        """The groups, by pubend and name."""
        return self._groups

    def client_of(self, pubend: str, name: str) -> str | None:
        """The client that made a group, empty if it need not be known; None if there is no such group."""
        group = self._groups.get((pubend, name))
        if group is None:
            return "" if (pubend, name) in self._damaged else None
        return group.ledger.client

    def problem_with_forgetting(self, pubend: str, name: str) -> str:
        """Why a group must stay; empty if it can be forgotten."""
        if (pubend, name) in self._groups and (pubend, name) == (self._settings.dead_letters, DEAD_LETTERS):
            return f"group {name!r} keeps the dead letters of all groups; 'penstock dead drop' drops those it has"
        return ""

    def forget(self, pubend: str, name: str) -> int:
        """Forgets a group with everything that it has kept; returns the number of the commit that does it."""
        key = (pubend, name)
        self.dead_letters.forget(key)
        self._numbered.pop(key, None)
        group = self._groups.pop(key, None)
        names = self._damaged.pop(key, [])
        if group is not None:
            names = [_value_name(key, page) for page in group.ledger.names()]
            for member in group.members.values():
                problem = shortened(_forgotten(name))
                self._answers.append(WorkJoined(pubend, member.host, member.identity, member.round, problem))
        for each in names:
            self._last_commit = self._commits.add(SetValue(each, None))
        self._stir(key)
        return self._last_commit

    # --- messages

    def on_announced(self, knowledge: Knowledge, *, now_ms: int) -> None:
        """Messages of a pubend have become durable: groups that have caught up look at them."""
        if not self._groups:
            return
        first, last = knowledge.first, knowledge.last
        decoded = knowledge.decoded
        if decoded is None:
            decoded = take_in(knowledge.bodies)
        for key, group in self._groups.items():
            if key[0] == knowledge.pubend and first <= group.cursor <= last + 1:
                group.look(zip(knowledge.ticks, knowledge.bodies, decoded, strict=True), last, now_ms=now_ms)
                self._stir(key)

    def on_begun(self, pubend: str) -> None:
        """A pubend has begun: what lies between its last message and its beginning can be read, or is lost."""
        for key in self._groups:
            if key[0] == pubend:
                self._stir(key)

    def on_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None, *, now_ms: int
    ) -> bool:
        """A read has ended; returns False if it was not ours."""
        read = self._reads.pop(number, None)
        if read is None:
            return False
        last = min(last, read.last)
        ticks = [tick for tick, _ in messages if tick <= last]
        bodies = [body for _, body in messages[: len(ticks)]]
        found = list(zip(ticks, bodies, take_in(bodies), strict=True))
        for key, group in self._groups.items():
            if key[0] == read.pubend:
                if read.first <= group.cursor <= last + 1:
                    group.look(found, last, now_ms=now_ms)
                if damaged is not None and damaged.first <= group.cursor <= damaged.last:
                    self._lose(key, group, damaged.last)
                self._stir(key)
        return True

    def take_expired(self) -> list[bytes]:
        """Returns the messages that groups have not handed out, since they have expired."""
        expired, self._expired = self._expired, []
        return expired

    def take_effects(self) -> list[ReadLog]:
        """Returns the reads for the shell."""
        effects, self._effects = self._effects, []
        return effects

    def _read(self, key: _Key, group: Group) -> None:
        """Reads the log for a group that is behind; one read at a time for each pubend."""
        log = self._logs[key[0]]
        if group.cursor < log.trimmed_below:
            self._lose(key, group, log.trimmed_below - 1)
        if group.cursor > log.promised or not group.has_room:
            return
        if any(read.pubend == key[0] for read in self._reads.values()):
            return
        self._last_read += 1
        read = ReadLog(self._last_read, key[0], group.cursor, log.promised, _READ_BYTES)
        self._reads[self._last_read] = read
        self._effects.append(read)

    def _lose(self, key: _Key, group: Group, last: int) -> None:
        """The log up to a tick cannot be read any more."""
        lost = group.lose(last)
        self.counts["work_lost"] += len(lost)
        if lost:
            first = lost[0].tick
            self._connections.record("work-lost", pubend=key[0], group=key[1], count=len(lost), first=first, last=last)

    def bury(self) -> None:
        """Finishes the messages whose dead letters are durable where they belong."""
        for key, last in self.dead_letters.take_arrived():
            group = self._groups.get(key)
            if group is not None:
                for number in [each for each in group.dying if each <= last]:
                    group.bury(number)
                self._stir(key)

    # --- the end of a turn, and of a commit

    @property
    def is_idle(self) -> bool:
        """Whether there is no group, and nothing waits for a commit."""
        return not self._groups and not self._waiting

    def _stir(self, key: _Key) -> None:
        self._stirred[key] = None

    @property
    def is_stirred(self) -> bool:
        """Whether something has to be done at the end of the turn."""
        return bool(self._stirred)

    def finish(self, *, now_ms: int) -> list[WorkAnswer]:
        """Hands out what can be, and puts what has changed into this turn's commit; returns what need not wait."""
        handed, self._again = self._again, []
        given_up: list[tuple[_Key, Group, int]] = []
        while self._stirred:
            key = next(iter(self._stirred))
            del self._stirred[key]
            group = self._groups.get(key)
            if group is None:
                if key[1] == DEAD_LETTERS:
                    # It was damaged, and forgotten for that.
                    self.keep_dead_letters(now_ms=now_ms)
                continue
            self._read(key, group)
            numbered = self._numbered.get(key, 0)
            self.dead_letters.look(key, group, self._settings.dead_letters, numbered=numbered, now_ms=now_ms)
            self.bury()
            given = group.hand_out(now_ms=now_ms)
            handed += [_handout(key, member, tasks) for member, tasks in given.items()]
            self._expired += group.take_expired()
            changes = group.ledger.take_changes()
            for page, value in changes.items():
                self._last_commit = self._commits.add(SetValue(_value_name(key, page), value))
            if "" in changes and group.ledger.dead > numbered:
                given_up.append((key, group, group.ledger.dead))
            deadline_ms = group.next_deadline()
            if deadline_ms is not None:
                self.due.by(deadline_ms)
        for (key, member, host), outcomes in self._outcomes.items():
            self._answers.append(WorkOutcomes(key[0], host, member, tuple(outcomes)))
        answers, self._answers, self._outcomes = self._answers, [], {}
        if self._last_commit <= self._durable:
            return answers + self._sent(handed, now_ms)
        if answers or handed or given_up:
            self._waiting.append(_Waiting(self._last_commit, answers, handed, given_up))
        return []

    def on_committed(self, number: int, *, now_ms: int) -> list[WorkAnswer]:
        """Commits up to this number are durable, or the values in them: returns what waited for them."""
        answers: list[WorkAnswer] = []
        self._durable = max(number, self._durable)
        while self._waiting and self._waiting[0].commit <= number:
            waiting = self._waiting.popleft()
            answers += waiting.answers
            answers += self._sent(waiting.handed, now_ms)
            for key, group, last in waiting.given_up:
                if self._groups.get(key) is group:
                    self._numbered[key] = last
                    self._stir(key)
        return answers

    def _sent(self, handed: Iterable[_Handout], now_ms: int) -> list[WorkAnswer]:
        answers: list[WorkAnswer] = []
        for each in handed:
            group = self._groups.get(each.key)
            member = group.members.get(each.member) if group else None
            if member is not None:
                kept = [
                    task
                    for task, attempt in zip(each.tasks, each.attempts, strict=True)
                    if task.state is State.HELD and task.member == each.member and task.attempts == attempt
                ]
                answers += self._hand(each.key, member, kept, now_ms)
        return answers

    def _hand(self, key: _Key, member: Member, tasks: Sequence[Task], now_ms: int) -> list[WorkAnswer]:
        group = self._groups[key]
        frames: list[WorkAnswer] = []
        start = size = 0
        for end, task in enumerate(tasks, start=1):
            size += len(task.body)
            if size >= _FRAME_BYTES or end == len(tasks):
                part = tasks[start:end]
                handing = group.handing(member, part, now_ms=now_ms)
                frames.append(self._handed(key, member, handing.sequence, part))
                start, size = end, 0
        return frames

    def _handed(self, key: _Key, member: Member, sequence: int, tasks: Sequence[Task]) -> Handed:
        return Handed(
            key[0],
            member.host,
            member.identity,
            (self._life, member.series, member.round, sequence),
            [task.tick for task in tasks],
            [task.attempts for task in tasks],
            [task.body for task in tasks],
        )

    # --- time

    def next_deadline(self) -> int | None:
        """When a group changes by itself."""
        wishes = [group.next_deadline() for group in self._groups.values()]
        return min([each for each in wishes if each is not None], default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Lets groups do what is due."""
        for key in self.dead_letters.late(now_ms=now_ms):
            self._stir(key)
        for key, group in self._groups.items():
            due_ms = group.next_deadline()
            if due_ms is not None and now_ms >= due_ms:
                group.on_deadline(now_ms=now_ms)
                self._stir(key)

    # --- what groups hold, and figures

    def lowest(self, pubend: str) -> tuple[str, int] | None:
        """The group that is furthest behind at a pubend, and the tick from which on it needs the log."""
        found = [(group.position, name) for (each, name), group in self._groups.items() if each == pubend]
        found += [(0, name) for each, name in self._damaged if each == pubend]
        if not found:
            return None
        tick, name = min(found)
        return name, tick

    def listed(
        self, pubend: str, after: str, count_max: int, may_see: Callable[[str, str], bool]
    ) -> list[tuple[str, Group]]:
        """The next groups of a pubend in alphabetical order that may be seen, up to a maximum."""
        found = [
            (name, group)
            for (each, name), group in self._groups.items()
            if each == pubend and name > after and may_see(name, group.ledger.client)
        ]
        return sorted(found, key=lambda each: each[0])[:count_max]

    def status(self, pubend: str, may_see: Callable[[str, str], bool] | None) -> dict[str, GroupStatus]:
        """Figures by group, of those that may be seen."""
        return {
            name: _status(group)
            for (each, name), group in self._groups.items()
            if each == pubend and (may_see is None or may_see(name, group.ledger.client))
        }

    def check_invariants(self) -> None:
        """Fails if a group contradicts itself."""
        for group in self._groups.values():
            group.check_invariants()


def _value_name(key: _Key, page: str) -> str:
    return f"{_PREFIX}/{key[0]}/{page}/{key[1]}"


def _terms(frame: WorkAsk) -> Terms:
    return Terms(frame.group, frame.selector, frame.key, frame.work_ms, frame.deliveries_max)


def _joined(frame: WorkAsk, problem: str) -> WorkJoined:
    return WorkJoined(frame.pubend, frame.host, frame.member, frame.round, shortened(problem))


def _forgotten(group: str) -> str:
    return f"group {group!r} was forgotten"


def _handout(key: _Key, member: bytes, tasks: list[Task]) -> _Handout:
    return _Handout(key, member, tasks, [task.attempts for task in tasks])


def _status(group: Group) -> GroupStatus:
    return GroupStatus(
        client=group.ledger.client,
        selector=group.terms.selector,
        position=group.position,
        known=group.ledger.undone,
        held=sum(len(member.held) for member in group.members.values()),
        dying=len(group.dying),
        members=_members(group),
        counts=dict(group.counts),
    )


def _members(group: Group) -> dict[str, int]:
    """How many messages each member has, by name; where several have one name, by name and identity."""
    names = Counter(member.client for member in group.members.values())
    return {
        f"{member.client} {member.identity.hex()}".strip()
        if names[member.client] > 1 or not member.client
        else member.client: len(member.held)
        for member in group.members.values()
    }
