"""A group at one pubend: who its members are, which messages each of them has, and what becomes of each message.

The pubend decides alone, so members may be anywhere. A message is handed to one member at a time, for a limited time.
It comes to another one when it is refused, when that time is over, or when its member has been away for a while.
Whoever was handed a message may say that it is done as long as nobody else was handed it since. Everything that must
not be forgotten is in the ledger: a message is handed out, and a member told that one is done, only when that is
durable. A message that expires before it is handed out, or between two attempts, is done; one that a member has by then
is that member's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from penstock.model.expiry import expires_at_ms
from penstock.model.values import Attributes, AttributeValue
from penstock.protocol.work_frames import DELAY_MS_MAX, Outcome, Verdict
from penstock.selectors.effort import effort_of
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.selector import Selector
from penstock.work.ledger import Ledger, State, Task

__all__ = ["AWAY_MS", "Group", "Handing", "Member"]

AWAY_MS: Final = 5_000
"""After this long without a word, a member counts as away; after as long again, what it has is handed to others."""
_FORGET_MS: Final = 2 * AWAY_MS
"""After this long, it is no member any more, unless it still has something."""
_RETURN_MS: Final = 2 * AWAY_MS
"""How long members have after a restart to say that they are there: links have to come up first."""
_RESEND_MS: Final = 1_000
_RESEND_MS_MAX: Final = 16_000
_TASKS_MAX: Final = 10_000
"""Most messages that a group knows of and that are not done; later ones wait in the log."""
_BYTES_MAX: Final = 16 * 1024 * 1024
_MEMBER_BYTES: Final = 1024 * 1024
"""Most bytes that a member has at a time, unless a single message has more."""
_MEMBERS_MAX: Final = 10_000
_TIMERS_SPARE: Final = 1_000
_UNKEYED: Final = None


@dataclass(slots=True)
class Handing:
    """Messages that a member is sent together."""

    sequence: int
    tasks: list[Task]
    attempts: list[int]
    sent_ms: int
    wait_ms: int = 0
    """How long to wait for a confirmation before it is sent again: longer each time, as the way may just be slow."""

    def open(self, member: bytes) -> list[Task]:
        """Those that the member still has."""
        return [
            task
            for task, attempt in zip(self.tasks, self.attempts, strict=True)
            if task.state is State.HELD and task.member == member and task.attempts == attempt
        ]


@dataclass(slots=True, eq=False)
class Member:
    """One member of a group."""

    identity: bytes
    host: str
    """The broker that it is connected to."""
    client: str
    """Its name, for operators."""
    round: int
    """Counts its connections: what it says on earlier ones counts nowhere."""
    prefetch: int
    """How many messages it wants at a time; 0 if it has only come to make the group."""
    heard_ms: int
    held: dict[int, Task] = field(default_factory=dict)
    """What it has, by tick."""
    held_bytes: int = 0
    series: int = 0
    """Tells its numbers from those before it came anew, or was forgotten for a while."""
    sequence: int = 0
    unconfirmed: deque[Handing] = field(default_factory=deque)
    """What was sent and may not have arrived."""
    overdue: dict[int, int] = field(default_factory=dict)
    """By tick, the attempts whose time was over before they arrived, as far as is known: they may be on the way."""
    window: int = 1
    """How many messages it gets at a time: fewer than it wants after some whose time was over on the way."""
    is_away: bool = False


class Group:
    """The members and messages of one group at one pubend."""

    def __init__(self, ledger: Ledger, *, now_ms: int) -> None:
        self.ledger: Final = ledger
        self.terms: Final = ledger.terms
        selector = Selector.parse(self.terms.selector)
        self._test = compile_condition(selector.condition)
        self.effort: Final = effort_of(selector.condition)
        self.hold_ms: Final = self.terms.work_ms * 4 // 3
        """How long a member may have a message: clients ask for more time, three times as often, until it is read."""
        self.members: Final[dict[bytes, Member]] = {}
        lowest = ledger.lowest()
        self.cursor: int = ledger.frontier + 1 if lowest is None else lowest
        """The first tick that was not looked at."""
        self._known = ledger.frontier
        """Up to here, messages that are in no ledger are done."""
        self._ready: list[int] = []
        self._ready_alone: list[int] = []
        """Those that are given up if they fail once more: nothing else may fail with them."""
        self._alone: dict[bytes, Task] = {}
        """By member, what it has alone, or had last."""
        self._emptied: dict[bytes, int] = {}
        """By member, until when it is handed nothing, so that it can have something alone."""
        self._timers: list[tuple[int, int]] = []
        """When a message changes by itself, and its tick; some do not any more."""
        self._keys: dict[AttributeValue, deque[Task]] = {}
        """By key, the messages that are not done, in order: only the first may be handed out."""
        self._bytes = 0
        self._turn = self._series = 0
        self._found: dict[bytes, list[Task]] = {}
        """By member, what it had before a restart and may never have got: found in the log again."""
        self.dying: Final[dict[int, Task]] = {}
        """Those that are given up, by their number as dead letters."""
        self.counts = {
            "handed": 0,
            "done": 0,
            "refused": 0,
            "run_out": 0,
            "left": 0,
            "dead": 0,
            "late": 0,
            "expired": 0,
        }
        self._expired: list[bytes] = []
        for task in ledger.undone_tasks():
            if task.state is State.HELD:
                # Its member may still work on it, and how long it has is not known any more: until it is heard of, it
                # counts as away.
                task.work_until_ms = now_ms + self.hold_ms
                task.until_ms = min(task.work_until_ms, now_ms + _RETURN_MS)
                heappush(self._timers, (task.until_ms, task.tick))
            elif task.state is State.DELAYED and task.until_ms <= now_ms:
                task.state = State.READY
            elif task.state is State.DELAYED:
                # If more is left than all of the delay, the clock was set back since.
                task.until_ms = min(task.until_ms, now_ms + min(task.delay_ms, DELAY_MS_MAX))
                heappush(self._timers, (task.until_ms, task.tick))
            elif task.state is State.DYING:
                self.dying[task.number] = task

    # --- messages from the log

    @property
    def has_room(self) -> bool:
        """Whether it is to look at more of the log; what it had before a restart it always reads again."""
        if self.cursor <= self._known:
            return True
        return self.ledger.undone < _TASKS_MAX and self._bytes < _BYTES_MAX

    @property
    def position(self) -> int:
        """Everything below this tick is done, and not needed any more."""
        lowest = self.ledger.lowest()
        return self.cursor if lowest is None else min(lowest, self.cursor)

    def look(self, messages: Iterable[tuple[int, bytes, Attributes]], last: int, *, now_ms: int) -> None:
        """Looks at all messages from the cursor to a tick, until there is no more room."""
        for tick, body, attributes in messages:
            if tick < self.cursor:
                continue
            if not self.has_room:
                self.cursor = tick
                return
            self._look_at(tick, body, attributes, now_ms)
        self.cursor = max(self.cursor, last + 1)

    def _look_at(self, tick: int, body: bytes, attributes: Attributes, now_ms: int) -> None:
        task = self.ledger.tasks.get(tick)
        expires_ms = expires_at_ms(body, attributes) or 0
        if task is None:
            if tick <= self._known or self._test(attributes) is not True:
                return
            if 0 < expires_ms <= now_ms:
                self._note_expired(body)
                return
            task = self.ledger.add(tick)
        elif task.state is State.DONE:
            return
        task.body = body
        task.expires_ms = expires_ms
        self._bytes += len(body)
        if self.terms.key:
            task.key = attributes.get(self.terms.key)
        if task.key is not _UNKEYED:
            self._keys.setdefault(task.key, deque()).append(task)
        if task.state is State.HELD:
            self._find(task, now_ms)
        self._offer(task)

    def _find(self, task: Task, now_ms: int) -> None:
        """A message that a member had before a restart is in the log."""
        member = self.members.get(task.member)
        if member is None or member.is_away:
            # It may have come back since, and gone again.
            self._set_until(task, min(task.until_ms, now_ms + _RETURN_MS))
        if member is not None:
            if task.tick in member.held:
                # It has had a place there since that member joined; now its size is known.
                member.held_bytes += len(task.body)
            self._hold_still(member, task)
            self._found.setdefault(task.member, []).append(task)

    def lose(self, last: int) -> list[Task]:
        """The log up to a tick was lost, or trimmed; returns what can never be handed out again."""
        lost = [task for task in self.ledger.undone_tasks() if task.tick <= last and not task.body]
        for task in lost:
            self.dying.pop(task.number, None)
            self._finish(task)
        self.cursor = max(self.cursor, last + 1)
        return lost

    def take_expired(self) -> list[bytes]:
        """Returns the messages that have expired since the last call."""
        expired, self._expired = self._expired, []
        return expired

    def _note_expired(self, body: bytes) -> None:
        self.counts["expired"] += 1
        self._expired.append(body)

    def _expire(self, task: Task) -> None:
        """A message that no member has has expired: it is done."""
        self._note_expired(task.body)
        self._finish(task)

    def _offer(self, task: Task) -> None:
        if task.state is State.READY and task.body and task.expires_ms and task.until_ms != task.expires_ms:
            self._set_until(task, task.expires_ms)
        if task.state is State.READY and task.body and self._is_first(task):
            heappush(self._ready_alone if self._is_last_attempt(task) else self._ready, task.tick)

    def _is_first(self, task: Task) -> bool:
        return task.key is _UNKEYED or self._keys[task.key][0] is task

    def _is_last_attempt(self, task: Task) -> bool:
        """Whether a message is given up when its next attempt, or the present one, is in vain."""
        return 0 < self.terms.deliveries_max <= task.failures + 1

    # --- members

    def join(self, identity: bytes, host: str, client: str, round_: int, prefetch: int, *, now_ms: int) -> bool:
        """A member is there, or still there; returns whether it has come anew, and has to be sent all that it has."""
        known = self.members.get(identity)
        if known is not None and round_ < known.round:
            return False
        if known is None and len(self.members) >= _MEMBERS_MAX:
            return False
        is_new = known is None
        if known is None:
            known = self.members[identity] = Member(identity, host, client, round_, prefetch, now_ms)
            known.window = prefetch
            self._count_anew(known)
            for task in self.ledger.undone_tasks():
                if task.state is State.HELD and task.member == identity:
                    self._set_until(task, task.work_until_ms)
                    # Also before it has been read: it takes a place.
                    self._hold_still(known, task)
        known.heard_ms, known.prefetch = now_ms, prefetch
        if known.is_away:
            known.is_away = False
            for task in known.held.values():
                self._set_until(task, task.work_until_ms)
        if round_ > known.round:
            known.round, known.host = round_, host
            self._count_anew(known)
            is_new = True
        return is_new

    def _count_anew(self, member: Member) -> None:
        self._series += 1
        member.series, member.sequence = self._series, 0
        member.unconfirmed.clear()
        member.overdue.clear()

    def leave(self, identity: bytes, round_: int, *, is_final: bool, now_ms: int) -> None:
        """A member is gone for good, or perhaps only its connection is."""
        member = self.members.get(identity)
        if member is None or member.round != round_:
            return
        if not is_final:
            self._miss(member, now_ms)
            return
        for task in list(member.held.values()):
            self.counts["left"] += 1
            self._fail(task, "its member left", 0, now_ms)
        del self.members[identity]

    def _miss(self, member: Member, now_ms: int) -> None:
        """Nothing was heard of a member, or its connection is gone: it has some time to come back."""
        member.is_away = True
        for task in member.held.values():
            self._set_until(task, min(task.until_ms, now_ms + AWAY_MS))

    def _set_until(self, task: Task, until_ms: int) -> None:
        task.until_ms = until_ms
        heappush(self._timers, (until_ms, task.tick))
        if len(self._timers) > 2 * self.ledger.undone + _TIMERS_SPARE:
            waiting = (State.HELD, State.DELAYED)
            tasks = [each for each in self.ledger.undone_tasks() if each.state in waiting or each.expires_ms]
            self._timers = [(each.until_ms, each.tick) for each in tasks]
            heapify(self._timers)

    def _hold(self, member: Member, task: Task) -> None:
        if task.tick not in member.held:
            member.held[task.tick] = task
            member.held_bytes += len(task.body)

    def _hold_still(self, member: Member, task: Task) -> None:
        """A member has what it had before a restart."""
        self._hold(member, task)
        if self._is_last_attempt(task):
            self._alone[member.identity] = task

    def _release(self, task: Task) -> None:
        member = self.members.get(task.member)
        if member is not None and member.held.pop(task.tick, None) is not None:
            member.held_bytes -= len(task.body)

    # --- handing out

    def hand_out(self, *, now_ms: int) -> dict[bytes, list[Task]]:
        """Gives ready messages to members with room, in turn; to be sent once the ledger's changes are durable."""
        given, self._found = self._found, {}
        members: Iterable[Member] = self.members.values()
        if self._ready_alone or self._alone:
            members = self._hand_out_alone(given, now_ms)
        while self._ready:
            wanting = [each for each in members if _has_room(each)]
            if not wanting:
                break
            self._turn += 1
            for place in range(len(wanting)):
                member = wanting[(self._turn + place) % len(wanting)]
                share = -(-len(self._ready) // (len(wanting) - place))
                given.setdefault(member.identity, []).extend(self._give(member, share, now_ms, self._ready))
        return {identity: tasks for identity, tasks in given.items() if tasks}

    def _hand_out_alone(self, given: dict[bytes, list[Task]], now_ms: int) -> list[Member]:
        """Gives messages that may be given up to members that have nothing; returns those that may have others.

        A member that dies fails with all that it has: if there is a message that kills its members, it takes no other
        one with it. As long as there are other messages to hand out, half of the members are left for them.
        """
        self._alone = {identity: task for identity, task in self._alone.items() if self._has(identity, task)}
        present = [each for each in self.members.values() if not each.is_away and each.prefetch]
        free = [each for each in present if each.identity not in self._alone]
        if self.cursor <= self._known:
            # What members had before a restart is not all known yet.
            return free
        while self._ready_alone and not self._is_ready(self._ready_alone[0]):
            heappop(self._ready_alone)
        places = (max(1, len(present) // 2) if self._ready else len(present)) - (len(present) - len(free))
        for member in [each for each in free if not each.held and not each.overdue]:
            if places < 1 or not self._ready_alone:
                break
            tasks = self._give(member, 1, now_ms, self._ready_alone)
            if tasks:
                given.setdefault(member.identity, []).extend(tasks)
                self._alone[member.identity] = tasks[0]
                places -= 1
        free = [each for each in free if each.identity not in self._alone]
        emptied = self._choose_emptied(free, min(places, len(self._ready_alone)), now_ms)
        return [each for each in free if each.identity not in emptied]

    def _is_ready(self, tick: int) -> bool:
        task = self.ledger.tasks.get(tick)
        return task is not None and task.state is State.READY

    def _has(self, identity: bytes, task: Task) -> bool:
        member = self.members.get(identity)
        return member is not None and member.held.get(task.tick) is task

    def _choose_emptied(self, members: Sequence[Member], count: int, now_ms: int) -> dict[bytes, None]:
        """The members that are handed nothing until they have nothing: as many as needed, those with the least.

        One that takes longer than a message may take goes on with other messages, and others have their turn.
        """
        there = {each.identity for each in members}
        tried = {identity: until_ms for identity, until_ms in self._emptied.items() if identity in there}
        if count < 1 or all(tried.get(each, now_ms + 1) <= now_ms for each in there):
            tried = {}
        chosen = [identity for identity, until_ms in tried.items() if now_ms < until_ms]
        others = sorted((each for each in members if each.identity not in tried), key=lambda each: len(each.held))
        for member in others[: max(count - len(chosen), 0)]:
            tried[member.identity] = now_ms + self.hold_ms
            chosen.append(member.identity)
        self._emptied = tried
        return dict.fromkeys(chosen[: max(count, 0)])

    def _give(self, member: Member, count: int, now_ms: int, ready: list[int]) -> list[Task]:
        given: list[Task] = []
        while ready and len(given) < count and _has_room(member):
            task = self.ledger.tasks.get(heappop(ready))
            if task is None or task.state is not State.READY or not task.body:
                continue
            if 0 < task.expires_ms <= now_ms:
                self._expire(task)
                continue
            task.state, task.member = State.HELD, member.identity
            task.attempts += 1
            task.work_until_ms = now_ms + self.hold_ms
            self._set_until(task, task.work_until_ms)
            self._hold(member, task)
            self.ledger.touch(task)
            given.append(task)
        self.counts["handed"] += len(given)
        return given

    def handing(self, member: Member, tasks: Sequence[Task], *, now_ms: int) -> Handing:
        """Makes one message of those that a member is sent now."""
        member.sequence += 1
        made = Handing(member.sequence, list(tasks), [task.attempts for task in tasks], now_ms, _RESEND_MS)
        member.unconfirmed.append(made)
        return made

    def confirm(self, identity: bytes, round_: int, received: int, *, now_ms: int) -> list[Handing]:
        """A member's broker has received everything up to a number; returns what has to be sent again."""
        member = self.members.get(identity)
        if member is None or member.round != round_:
            return []
        unconfirmed = member.unconfirmed
        while unconfirmed and unconfirmed[0].sequence <= received:
            arrived = unconfirmed.popleft()
            for task, attempt in zip(arrived.tasks, arrived.attempts, strict=True):
                if member.overdue.get(task.tick) == attempt:
                    del member.overdue[task.tick]
        again = [each for each in unconfirmed if now_ms >= each.sent_ms + each.wait_ms]
        for each in again:
            each.sent_ms = now_ms
            each.wait_ms = min(2 * each.wait_ms, _RESEND_MS_MAX)
        return again

    # --- verdicts

    def judge(
        self, identity: bytes, tick: int, attempt: int, verdict: Verdict, delay_ms: int, reason: str, *, now_ms: int
    ) -> Outcome:
        """Takes a member's word about a message; it holds when the ledger's changes are durable."""
        task = self.ledger.tasks.get(tick)
        if task is None:
            self.counts["late"] += 1
            return Outcome.UNKNOWN if tick < self.cursor else Outcome.LOST
        if task.member != identity or task.attempts != attempt:
            self.counts["late"] += 1
            return Outcome.LOST
        if task.state is State.DONE:
            return Outcome.KEPT if verdict is Verdict.DONE and not task.number else Outcome.LOST
        if task.state is State.DYING:
            return Outcome.LOST
        if verdict is Verdict.DONE:
            # Also if its time was over: nobody else was handed it since.
            self.counts["done"] += 1
            member = self.members.get(identity)
            if member is not None and task.state is State.HELD:
                member.window = min(member.window + 1, member.prefetch)
            self._finish(task)
        elif task.state is not State.HELD:
            return Outcome.KEPT if verdict is not Verdict.EXTENDED else Outcome.LOST
        elif verdict is Verdict.EXTENDED:
            task.work_until_ms = now_ms + self.hold_ms
            self._set_until(task, task.work_until_ms)
        elif verdict is Verdict.RETURNED:
            self._release(task)
            self._put_back(task, now_ms)
        else:
            self.counts["refused"] += 1
            self._fail(task, f"refused: {reason}" if reason else "refused", delay_ms, now_ms)
        return Outcome.KEPT

    def _finish(self, task: Task) -> None:
        self._release(task)
        self._bytes -= len(task.body)
        self.ledger.done(task)
        if task.key is not _UNKEYED:
            queue = self._keys.get(task.key, deque())
            was_first = bool(queue) and queue[0] is task
            if task in queue:
                queue.remove(task)
            if not queue:
                self._keys.pop(task.key, None)
            elif was_first:
                self._offer(queue[0])

    def _put_back(self, task: Task, now_ms: int, delay_ms: int = 0) -> None:
        self.ledger.touch(task)
        if delay_ms > 0:
            task.state, task.delay_ms = State.DELAYED, min(delay_ms, DELAY_MS_MAX)
            self._set_until(task, now_ms + task.delay_ms)
        else:
            task.state = State.READY
            self._offer(task)

    def _fail(self, task: Task, what: str, delay_ms: int, now_ms: int) -> None:
        """An attempt was in vain: the message comes again, or is given up."""
        member = self.members.get(task.member)
        self._release(task)
        task.failures += 1
        task.note(f"attempt {task.attempts}{f' by {member.client}' if member else ''}: {what}")
        if self.terms.deliveries_max and task.failures >= self.terms.deliveries_max:
            task.state, task.number = State.DYING, self.ledger.next_dead()
            self.dying[task.number] = task
            self.ledger.touch(task)
        else:
            self._put_back(task, now_ms, delay_ms)

    def bury(self, number: int) -> None:
        """A dead letter is durable where dead letters go: the message is done."""
        task = self.dying.pop(number, None)
        if task is not None:
            self.counts["dead"] += 1
            self._finish(task)

    # --- time

    def next_deadline(self) -> int | None:
        """When something changes by itself."""
        # As long as an absent member has something, that has a deadline.
        silent = [
            each.heard_ms + (_FORGET_MS if each.is_away else AWAY_MS)
            for each in self.members.values()
            if not (each.is_away and each.held)
        ]
        due_ms = min(silent, default=None)
        if self._timers and (due_ms is None or self._timers[0][0] < due_ms):
            due_ms = self._timers[0][0]
        return due_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Takes messages back whose time is over, and makes those ready whose delay is."""
        for member in list(self.members.values()):
            if not member.is_away and now_ms >= member.heard_ms + AWAY_MS:
                self._miss(member, now_ms)
            if member.is_away and not member.held and now_ms >= member.heard_ms + _FORGET_MS:
                del self.members[member.identity]
        while self._timers and self._timers[0][0] <= now_ms:
            due_ms, tick = heappop(self._timers)
            task = self.ledger.tasks.get(tick)
            if task is None or task.until_ms != due_ms:
                continue
            if task.state is State.DELAYED:
                task.state = State.READY
                self._offer(task)
            elif task.state is State.READY:
                if 0 < task.expires_ms <= now_ms:
                    self._expire(task)
            elif task.state is State.HELD:
                self.counts["run_out"] += 1
                holder = self.members.get(task.member)
                is_there = holder is not None and not holder.is_away
                if holder is not None and any(task in each.tasks for each in holder.unconfirmed):
                    # If the way is slow, more would only make it slower.
                    holder.overdue[tick] = task.attempts
                    holder.window = max(1, holder.window // 2)
                self._fail(task, "its time was over" if is_there else "its member went away", 0, now_ms)

    def check_invariants(self) -> None:
        """Fails if a message is in two places, or a bound does not hold."""
        self.ledger.check_invariants()
        for member in self.members.values():
            assert member.held_bytes == sum(len(task.body) for task in member.held.values())
            for tick, task in member.held.items():
                assert self.ledger.tasks[tick] is task
                assert task.state is State.HELD
                assert task.member == member.identity
        for tick in filter(self._is_ready, self._ready):
            assert not self._is_last_attempt(self.ledger.tasks[tick])
        for queue in self._keys.values():
            assert queue
            assert [task.tick for task in queue] == sorted(task.tick for task in queue)
            assert all(task.state is State.READY for task in queue if task is not queue[0])
        assert {task.number for task in self.ledger.tasks.values() if task.state is State.DYING} == {*self.dying}


def _has_room(member: Member) -> bool:
    has_place = len(member.held) + len(member.overdue) < min(member.window, member.prefetch)
    return has_place and not member.is_away and member.held_bytes < _MEMBER_BYTES
