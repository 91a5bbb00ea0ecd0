"""Answers requests of hosts to this broker's pubends: to open a subscription, to claim or forget a durable name.

A request that changes the durable register is answered when the change is durable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.broker.access import Claimant
from penstock.broker.claims import claimed_ms
from penstock.broker.commits import Commits
from penstock.broker.durable import SetValue
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Named, Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import Tick, format_tick, tick_at, tick_ms
from penstock.protocol.control import shortened
from penstock.protocol.frames import LATEST, StreamForget, StreamForgotten, StreamOpen, StreamOpened
from penstock.protocol.stream_frames import (
    ENTRIES_MAX,
    SELECTOR_SHOWN_CHARS,
    DurableEntry,
    StreamList,
    StreamListed,
    StreamSettle,
    StreamSettled,
    StreamTaken,
)
from penstock.work.group import Group

__all__ = ["Answer", "PubendDesk"]

_FORGOTTEN_MAX: Final = 1_000
"""How many requests to forget are remembered, to recognise repetitions."""
_AHEAD_MS_MAX: Final = 366 * 24 * 3_600_000
"""How far ahead the clock of a broker may be."""
_STEP_MS_MAX: Final = 3_600_000
_CLOCKS_MS: Final = 24 * 3_600_000
"""More than the clocks of pubends differ: what one has accepted, another does not refuse."""
_AWAY_REPORTS: Final = 25
"""Hosts speak of every name in each tenth report: one that was not heard of in this many is not in use."""
_GONE: Final = LATEST
"""The ownership of a name that was forgotten: higher than all claims."""

_SETTLED_TICKS_MAX: Final = 100_000
"""Ticks in answers that wait for a commit, all together: hosts whose answers would be more have to ask again."""

Answer: TypeAlias = StreamOpened | StreamForgotten | StreamTaken | StreamListed | StreamSettled
"""A word of a pubend to a host, which both are named in it."""


class _Reply(NamedTuple):
    """An answer that waits for a commit."""

    commit: int
    answer: Answer


class PubendDesk:
    """Serves hosts at the pubends of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: Mapping[str, PubendLog],
        registers: Mapping[str, Register],
        commits: Commits,
        work: WorkHome,
    ) -> None:
        self._settings = settings
        self._work = work
        self._logs = logs
        self._commits = commits
        self._registers = registers
        self._replies: deque[_Reply] = deque()
        self._forgotten: deque[tuple[str, str, int]] = deque(maxlen=_FORGOTTEN_MAX)
        self._gone: dict[tuple[str, str], None] = {}
        """The names that were forgotten last, with their pubends."""
        self._settled: list[StreamSettled] = []
        """What was settled in this turn: its answers wait for the turn's commit."""
        self._settled_ticks = 0
        """Ticks in all answers of this kind that wait."""
        self._durable = 0
        """The last commit whose values are durable."""
        names = (
            "opened",
            "durables_claimed",
            "durables_taken",
            "durables_forgotten",
            "durables_denied",
            "settled",
            "settled_told",
        )
        self.counts = dict.fromkeys(names, 0)

    def open(self, frame: StreamOpen, *, now_ms: int) -> tuple[int | None, list[Answer]]:
        """Answers a host that asks where a subscription may begin; also returns the tick, if it may."""
        self.counts["opened"] += 1
        log, register = self._logs[frame.pubend], self._registers[frame.pubend]
        known = register.get(frame.durable) if frame.durable else None
        if known is not None and not self._may_have(known, frame):
            return None, [_answer(frame, 0, problem=_not_theirs(frame), is_denied=True)]
        if frame.durable and _is_ahead(frame, 0 if known is None else known.ownership, now_ms):
            self.counts["durables_denied"] += 1
            return None, _refusal_ahead(frame, now_ms)
        # An equal number is the same claim, whose answer got lost, unless two brokers' numbers collide.
        if known is not None and (known.ownership, known.host != frame.host) > (frame.ownership, False):
            return None, [_answer(frame, 0, held=known.ownership)]
        if known is not None and known.is_damaged:
            tick, problem = _after_damage(log, frame)
        else:
            tick, problem = self._beginning(log, frame, None if known is None else known.tick, now_ms)
        if not problem and frame.durable and known is None:
            problem = self._problem_with_new(register, frame)
        if problem:
            return None, [_answer(frame, 0, problem=problem)]
        if not frame.durable:
            return tick, [_answer(frame, tick)]
        former = known.host if known is not None and frame.ownership > known.ownership else ""
        self.counts["durables_claimed"] += 1
        self._later(frame, register, former, tick, now_ms)
        return tick, []

    def _later(self, frame: StreamOpen, register: Register, former: str, tick: int, now_ms: int) -> None:
        """Claims a name; once that is durable, answers the asker and tells the former owner's host, if there is one."""
        is_first = frame.durable not in register
        owner = (frame.ownership, frame.host)
        commit = self._commits.add(register.claim(frame.durable, *owner, tick, frame.client, frame.selector))
        claimed = register.get(frame.durable)
        assert claimed is not None
        claimed.heard_ms = now_ms
        if is_first:
            claimed.made_by = (frame.host, frame.ticket)
        # Also when it asks again, with the same number or a higher one, because the answer got lost.
        is_new = claimed.made_by == (frame.host, frame.ticket)
        settled = tuple(claimed.settled[bisect_left(claimed.settled, tick) :])
        self.counts["settled_told"] += bool(settled)
        answer = StreamOpened(
            frame.pubend, frame.host, frame.ticket, tick, frame.ownership, is_new=is_new, settled=settled
        )
        self._replies.append(_Reply(commit, answer))
        if former:
            self.counts["durables_taken"] += 1
            taken = StreamTaken(frame.pubend, former, frame.durable, frame.ownership)
            self._replies.append(_Reply(commit, taken))

    def forget(self, frame: StreamForget) -> list[Answer]:
        """A host says that a durable name is not needed any more; answers at once unless something changes."""
        register = self._registers[frame.pubend]
        if not frame.ownership and self._work.client_of(frame.pubend, frame.durable) is not None:
            if (frame.pubend, frame.host, frame.ticket) in self._forgotten:
                # A repetition: the group that there is now was made since.
                return [StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True)]
            return self._forget_group(frame)
        owner = register.get(frame.durable)
        if frame.ownership and owner is not None and (owner.ownership, owner.host) != (frame.ownership, frame.host):
            # The withdrawn claim no longer holds anyway.
            owner = None
        elif owner is not None and not self._may_have(owner, frame):
            problem = _not_theirs(frame)
            return [StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True, problem=problem)]
        change = None if owner is None else register.forget(frame.durable)
        if change is None or owner is None:
            # A repetition because the answer got lost, or an unknown name.
            existed = (frame.pubend, frame.host, frame.ticket) in self._forgotten
            return [StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=existed)]
        self._forgotten.append((frame.pubend, frame.host, frame.ticket))
        self._gone[frame.pubend, frame.durable] = None
        if len(self._gone) > _FORGOTTEN_MAX:
            del self._gone[next(iter(self._gone))]
        self.counts["durables_forgotten"] += 1
        commit = self._commits.add(change)
        answer = StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True)
        self._replies.append(_Reply(commit, answer))
        if not frame.ownership:
            taken = StreamTaken(frame.pubend, owner.host, frame.durable, _GONE)
            self._replies.append(_Reply(commit, taken))
        return []

    def _forget_group(self, frame: StreamForget) -> list[Answer]:
        """The name is that of a group."""
        maker = self._work.client_of(frame.pubend, frame.durable)
        shares = self._settings.access.rule_for(frame.client).shares(frame.durable)
        if maker and not self._settings.access.may_have(Claimant(frame.client, shares), maker):
            self.counts["durables_denied"] += 1
            problem = f"group {frame.durable!r} belongs to another client"
            return [StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True, problem=problem)]
        if problem := self._work.problem_with_forgetting(frame.pubend, frame.durable):
            return [StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True, problem=problem)]
        commit = self._work.forget(frame.pubend, frame.durable)
        self._forgotten.append((frame.pubend, frame.host, frame.ticket))
        self._replies.append(_Reply(commit, StreamForgotten(frame.pubend, frame.host, frame.ticket, existed=True)))
        return []

    def on_list(self, frame: StreamList, *, now_ms: int) -> list[Answer]:
        """Answers a host whose client asks which durable subscriptions there are."""
        register = self._registers[frame.pubend]
        access = self._settings.access
        rule = access.rule_for(frame.client)

        def may_see(name: str, owner: str) -> bool:
            if frame.durable not in {"", name}:
                return False
            return access.is_open or rule.status or owner == frame.client or rule.shares(name)

        named = register.listed(frame.after, ENTRIES_MAX + 1, may_see)
        found = [self._entry(frame.pubend, name, each, now_ms) for name, each in named]
        groups = self._work.listed(frame.pubend, frame.after, ENTRIES_MAX + 1, may_see)
        found += [self._group_entry(frame.pubend, name, group) for name, group in groups]
        found.sort(key=lambda each: each.name)
        entries = tuple(found[:ENTRIES_MAX])
        return [StreamListed(frame.pubend, frame.host, frame.number, entries, len(found) > ENTRIES_MAX)]

    def _group_entry(self, pubend: str, name: str, group: Group) -> DurableEntry:
        log = self._logs[pubend]
        tick = group.position
        messages, is_exact = log.messages_from(tick)
        present_ms = tick_ms(Tick(max(log.promised, tick)))
        return DurableEntry(
            name,
            group.ledger.client,
            "",
            tick,
            0,
            not group.members,
            present_ms - tick_ms(Tick(tick)),
            messages,
            is_exact,
            log.bytes_from(tick),
            group.terms.selector[:SELECTOR_SHOWN_CHARS],
            len(group.members),
        )

    def _entry(self, pubend: str, name: str, named: Named, now_ms: int) -> DurableEntry:
        log = self._logs[pubend]
        messages, is_exact = log.messages_from(named.tick)
        # The clock may have been set back since.
        silent_ms = -1 if named.heard_ms < 0 else max(0, now_ms - named.heard_ms)
        present_ms = tick_ms(Tick(max(log.promised, named.tick)))
        return DurableEntry(
            name,
            named.client,
            named.host,
            named.tick,
            silent_ms,
            silent_ms < 0 or silent_ms > _AWAY_REPORTS * self._settings.report_ms,
            present_ms - tick_ms(Tick(named.tick)),
            messages,
            is_exact,
            log.bytes_from(named.tick),
            named.selector,
            settled=len(named.settled),
        )

    def move(self, pubend: str, name: str, ownership: int, tick: int, host: str, *, now_ms: int) -> list[Answer]:
        """Takes the position of a durable subscription from its host; tells the host if it has lost the name."""
        register = self._registers[pubend]
        known = register.get(name)
        if register.move(name, ownership, host, min(tick, self._logs[pubend].last_tick + 1)):
            assert known is not None
            known.heard_ms = now_ms
            return []
        return [StreamTaken(pubend, host, name, self._holder(pubend, name, known))]

    def _holder(self, pubend: str, name: str, known: Named | None) -> int:
        """The ownership of a name's holder, for a host that thinks that it holds it."""
        if known is not None:
            return known.ownership
        if self._logs[pubend].has_lost and (pubend, name) not in self._gone:
            # The claim was lost with the rest: its host claims the name again.
            return 0
        return _GONE

    def settle(self, frame: StreamSettle, *, now_ms: int) -> list[Answer]:
        """Takes what was acknowledged under a name; the answer comes when that is durable, see ``finish``."""
        log, register = self._logs[frame.pubend], self._registers[frame.pubend]
        owner = (frame.durable, frame.ownership)
        lost = self.move(frame.pubend, *owner, frame.below, frame.host, now_ms=now_ms)
        if lost:
            return lost
        # A message that is not durable yet has come to nobody.
        ticks = register.settle(frame.durable, [tick for tick in frame.ticks if tick <= log.promised])
        known = register.get(frame.durable)
        assert known is not None
        if self._settled_ticks + len(ticks) < _SETTLED_TICKS_MAX:
            self._settled_ticks += 1 + len(ticks)
            self._settled.append(StreamSettled(frame.pubend, frame.host, frame.ticket, *owner, known.tick, ticks))
        self.counts["settled"] += 1
        return []

    @property
    def is_settling(self) -> bool:
        """Whether something was settled in this turn."""
        return bool(self._settled)

    def finish(self) -> list[Answer]:
        """Makes what was settled in this turn durable, in one commit; returns the answers that need not wait."""
        if not self._settled:
            return []
        for change in self.changes():
            self._commits.add(change)
        # If it is a repetition, the change may be in any commit before this one.
        self._replies += [_Reply(self._commits.last, answer) for answer in self._settled]
        self._settled = []
        return self.on_committed(self._durable)

    def on_committed(self, number: int) -> list[Answer]:
        """Commits up to this number are durable: returns the answers that waited for them."""
        self._durable = number
        answers: list[Answer] = []
        while self._replies and self._replies[0].commit <= number:
            answer = self._replies.popleft().answer
            if isinstance(answer, StreamSettled):
                self._settled_ticks -= 1 + len(answer.ticks)
            answers.append(answer)
        return answers

    def changes(self) -> list[SetValue]:
        """Returns the positions that have moved, to be made durable."""
        return [change for register in self._registers.values() for change in register.take_changes()]

    def _beginning(self, log: PubendLog, frame: StreamOpen, known: int | None, now_ms: int) -> tuple[int, str]:
        """Returns the tick where a subscription begins, or why it cannot."""
        following = log.promised + 1
        stated = following if frame.tick == LATEST else frame.tick
        tick = stated
        if known is not None:
            tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known
        elif tick > max(following, tick_at(log.stream_ms(now_ms) + self._settings.lease_ms)):
            return 0, f"position {tick} ({format_tick(Tick(tick))}) of pubend {log.name} is in the future"
        if tick >= log.trimmed_below:
            return tick, ""
        is_going_on = frame.resumes or (known is not None and frame.missing != "fail")
        if is_going_on:
            # Not at the oldest kept tick: asking for the ticks that are gone gives the subscriber its Lost notice.
            return tick, ""
        if frame.missing == "earliest" or (known is None and not frame.tick):
            return log.trimmed_below, ""
        if frame.missing == "latest":
            return following, ""
        oldest = format_tick(Tick(log.trimmed_below))
        where = f"position {tick} ({format_tick(Tick(tick))}) of pubend {log.name}"
        return 0, f"{where} is not kept any more; the oldest available is {log.trimmed_below} ({oldest})"

    def _problem_with_new(self, register: Register, frame: StreamOpen) -> str:
        """Says why a pubend cannot keep another name; empty if it can."""
        if self._work.client_of(frame.pubend, frame.durable) is not None:
            return f"{frame.durable!r} is the name of a group at pubend {frame.pubend}"
        limit, own_limit = self._settings.durables_max, self._settings.client_durables_max
        if len(register) >= limit:
            return f"pubend {frame.pubend} keeps {limit:,} durable subscriptions, which is its limit (durables_max)"
        if frame.client and register.names_of(frame.client) >= own_limit:
            owned = f"client {frame.client} has {own_limit:,} durable subscriptions at pubend {frame.pubend}"
            return f"{owned}, which is the limit (client_durables_max)"
        return ""

    def _may_have(self, known: Named, frame: StreamOpen | StreamForget) -> bool:
        access = self._settings.access
        # By the rules here: the host is trusted only on who the client is.
        shares = access.rule_for(frame.client).shares(frame.durable)
        may_have = access.may_have(Claimant(frame.client, shares), known.client)
        self.counts["durables_denied"] += not may_have
        return may_have


def _is_ahead(frame: StreamOpen, held: int, now_ms: int) -> bool:
    """Whether a claim's number lies too far in the future, so that later claims at the right time would be lower.

    A claim one step above the present holder's is accepted, whatever its clock says.
    """
    claim_ms = claimed_ms(frame.ownership)
    return claim_ms > now_ms + _AHEAD_MS_MAX and claim_ms > claimed_ms(held) + _STEP_MS_MAX


def _refusal_ahead(frame: StreamOpen, now_ms: int) -> list[Answer]:
    """Refuses a claim whose number lies too far in the future, unless its host should ask again."""
    ahead_ms = claimed_ms(frame.ownership) - now_ms
    if ahead_ms <= _AHEAD_MS_MAX + _CLOCKS_MS:
        # Other pubends may have accepted this number: the host retries, and it will be accepted here in a while.
        return []
    problem = f"broker {frame.host} claims {frame.durable!r} with a clock that is {ahead_ms:,} ms ahead"
    return [_answer(frame, 0, problem=problem)]


def _answer(frame: StreamOpen, tick: int, *, held: int = 0, problem: str = "", is_denied: bool = False) -> StreamOpened:
    return StreamOpened(
        frame.pubend,
        frame.host,
        frame.ticket,
        tick,
        frame.ownership,
        held,
        shortened(problem),
        is_denied=is_denied,
    )


def _after_damage(log: PubendLog, frame: StreamOpen) -> tuple[int, str]:
    """Returns where a subscription begins whose stored position is damaged, or why it cannot.

    A client that still knows its own position resumes there. Others choose: to begin at the oldest kept tick, where
    messages that they have acknowledged may come again, is better than a gap that nobody hears of.
    """
    if frame.resumes and frame.tick != LATEST:
        return frame.tick, ""
    if frame.missing != "fail":
        return log.trimmed_below, ""
    where = f"the position of durable subscription {frame.durable!r} at pubend {log.name} is damaged on its disk"
    return 0, f"{where}: forget the name, or use missing='earliest' to begin at the oldest kept message"


def _not_theirs(frame: StreamOpen | StreamForget) -> str:
    return f"durable subscription {frame.durable!r} belongs to another client"
