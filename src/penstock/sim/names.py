"""Judges whether each life of a durable name began where it should, by what clients stated, got and acknowledged.

A name has lives: each is a subscription of some client, on one connection after the other, and ends when its process
dies or gives it up, or when somebody else takes the name over. For each pubend, the ticks at which lives were told to
begin obey these laws:

- **nothing skipped**: no life begins above what was acknowledged under the name before, or what it has itself, even
  where logs may lapse: there the client is told what is gone;
- **acknowledged by its owner**: what a life acknowledged after another had taken the name over does not count;
- **nothing again**: no life begins below where an earlier one was told to begin, or below what had been acknowledged
  when the world was last at rest;
- **the last to come has it**: nobody is refused a name unless somebody else claimed it at about the same time; a client
  is refused for a position that is no longer kept only if it asked for that, and only if that is true;
- **complete**: every message between the beginning and the end of a connection came on it, except those that were
  acknowledged one by one under the name before, by its owner; and every message between the first beginning of the name
  and the position of its last owner came to some life;
- **kept**: a message of which somebody was told that its acknowledgement is kept comes to no life that claims the name
  later;
- **only what is done**: no position passes a message that the application got and has not acknowledged, and no single
  message is named to a broker that it has not, if it acknowledges by hand.

Where a broker came back with an older copy of its disk, all it kept of a name is as of then: what was acknowledged
since comes again, names that were made since are gone, and messages that were lost may be missing if the client was
told.

So messages that were not acknowledged come again, in order, and acknowledged ones do not. Each broken law is reported
as a breach.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.model.tick import Tick, format_tick
from penstock.sim.older_copies import Loss
from penstock.sim.records import LostTicks, Start, SubscriptionRecord, Visit

__all__ = ["Breach", "Life", "breaches"]

_NEVER_US: Final = 2**63
_RIVAL_US: Final = 10_000_000
"""Claims less than this apart may be under way at the same time."""


class Life(NamedTuple):
    """One subscription under a durable name."""

    client: str
    record: SubscriptionRecord
    got: set[tuple[str, int]]
    """Pubend and tick of every message that came to it."""
    lost: Sequence[LostTicks] = ()
    """The ticks that its client was told are lost."""
    came: Mapping[tuple[str, int], int] = MappingProxyType({})
    """When each message came."""

    @property
    def is_last(self) -> bool:
        """Whether it has the name, as far as it knows."""
        return self.record.ended_us is None and not self.record.refused


class Breach(NamedTuple):
    """A law that was broken."""

    is_loss: bool
    """Whether something is missing; otherwise something came again."""
    what: str


class _Begun(NamedTuple):
    """A life that was told where it begins at a pubend."""

    life: Life
    visit: Visit
    start: Start


def breaches(
    lives: Sequence[Life],
    owed: Mapping[str, Sequence[int]],
    *,
    may_lapse: bool = False,
    losses: Sequence[Loss] = (),
) -> Iterator[Breach]:
    """The laws broken in the lives of one name; ``owed`` has all ticks it selects, by pubend, ascending."""
    yield from _refused(lives)
    for pubend in sorted({pubend for life in lives for visit in life.record.visits for pubend in visit.starts}):
        begun = [
            _Begun(life, visit, visit.starts[pubend])
            for life in lives
            for visit in life.record.visits
            if pubend in visit.starts
        ]
        begun.sort(key=lambda each: each.start.confirmed_us)
        undone = [loss for loss in losses if loss.pubend == pubend]
        gone = frozenset(tick for loss in undone for tick in loss.ticks)
        named = _named(pubend, begun, lives)
        for each in begun:
            yield from _incomplete(pubend, each, owed.get(pubend, ()), named, may_lapse, gone)
        yield from _passed(pubend, lives)
        if undone:
            continue
        yield from _skipped(pubend, begun, lives)
        yield from _again(pubend, begun, lives)
        yield from _kept_again(pubend, lives)
        yield from _got_by_nobody(pubend, begun, lives, owed.get(pubend, ()), may_lapse)


def _refused(lives: Sequence[Life]) -> Iterator[Breach]:
    for life in lives:
        who, refused = f"{life.client}: was refused {life.record.durable}", life.record.refused
        if "could not be taken over" in refused and not _has_rival(life, lives):
            yield Breach(is_loss=True, what=f"{who} although nobody else came")
        if "not kept any more" in refused:
            if life.record.missing != "fail":
                yield Breach(is_loss=True, what=f"{who} although it asked to resume and be told what is lost")
            elif not any(_surely(pubend, life, lives) < below for pubend, below in life.record.given_up.items()):
                yield Breach(is_loss=True, what=f"{who} although its position is kept")


def _surely(pubend: str, refused: Life, lives: Sequence[Life]) -> int:
    """The least position of a name when a life was refused it: where one had begun, or what was settled."""
    asked_us = refused.record.visits[-1].asked_us
    starts = [
        visit.starts[pubend]
        for life in lives
        for visit in life.record.visits
        # A life that resumes is ahead of what it has acknowledged.
        if pubend in visit.starts and pubend not in visit.stated
    ]
    settled = [life.record.settled[pubend] for life in lives if pubend in life.record.settled]
    known = [start.tick for start in starts if start.confirmed_us < asked_us]
    known += [each.tick for each in settled if each.sent_us < asked_us]
    return max(known, default=0)


def _has_rival(life: Life, lives: Sequence[Life]) -> bool:
    """Whether somebody else claimed the name so late that the two may have outbid each other in turn."""
    last = life.record.visits[-1]
    return any(
        other is not life and last.asked_us - _RIVAL_US <= visit.asked_us <= (last.ended_us or _NEVER_US)
        for other in lives
        for visit in other.record.visits
    )


def _skipped(pubend: str, begun: Sequence[_Begun], lives: Sequence[Life]) -> Iterator[Breach]:
    first = begun[0].start.tick
    for each in begun:
        acknowledged = _acknowledged(pubend, begun, lives, each.start.confirmed_us)
        bound = max(first, acknowledged, each.visit.stated.get(pubend, 0))
        if each.start.tick > bound:
            yield Breach(
                is_loss=True,
                what=f"{_told(each)} begins at {pubend} {_tick(each.start.tick)}, above {_tick(bound)}, the highest "
                "that was acknowledged or had come",
            )


def _acknowledged(pubend: str, begun: Sequence[_Begun], lives: Sequence[Life], before_us: int) -> int:
    """The highest position that was acknowledged under the name before a time, by its owner at that moment.

    What a life acknowledges at the moment when it is told where it begins follows from that, and says nothing about it.
    This includes lives that were never told where they begin: one that moves learns that from its new broker, and may
    lose the name to its old one before it has settled there.
    """
    return max(
        (
            ack.tick
            for life in lives
            for ack in life.record.acknowledged
            if ack.pubend == pubend and ack.sent_us < before_us and not _is_overtaken(life, ack.sent_us, begun)
        ),
        default=0,
    )


def _is_overtaken(life: Life, time_us: int, begun: Sequence[_Begun]) -> bool:
    """Whether another life had certainly taken the name over by then.

    One that was later told that it lost the name does not count: as names are claimed at several pubends at once, this
    life may have had the higher number all the time. Neither does one that had ended by then, if this life was never
    told of it: when the pubend comes into reach again, its broker claims the name anew.
    """
    own = [each for each in begun if each.life is life and each.visit.asked_us <= time_us]
    if not own or own[-1].start.confirmed_us > time_us or (own[-1].visit.ended_us or _NEVER_US) < time_us:
        return False
    since_us = own[-1].start.confirmed_us
    return any(
        each.life is not life
        and not each.life.record.refused
        and since_us < each.visit.asked_us
        and each.start.confirmed_us <= time_us
        and (_was_told_of(each, life, begun) or (each.visit.ended_us or _NEVER_US) >= time_us)
        for each in begun
    )


def _was_told_of(rival: _Begun, life: Life, begun: Sequence[_Begun]) -> bool:
    """Whether a life was told that it lost the name to this one, and not to somebody who claimed it later."""
    if not life.record.refused:
        return False
    ended_us = rival.visit.ended_us or _NEVER_US
    told_us = life.record.visits[-1].ended_us or _NEVER_US
    return not any(each.life is not life and ended_us < each.visit.asked_us <= told_us for each in begun)


def _again(pubend: str, begun: Sequence[_Begun], lives: Sequence[Life]) -> Iterator[Breach]:
    # A life that resumes is ahead of what it has acknowledged, so where it begins binds nobody else.
    bounds = [
        (each.start.confirmed_us, each.start.tick, _told(each)) for each in begun if pubend not in each.visit.stated
    ]
    for life in lives:
        settled = life.record.settled.get(pubend)
        if settled is not None:
            bounds.append((settled.sent_us, settled.tick, f"what {life.client} acknowledged"))
    for each in begun:
        for known_us, tick, whose in bounds:
            if known_us < each.visit.asked_us and each.start.tick < tick:
                yield Breach(
                    is_loss=False,
                    what=f"{_told(each)} begins at {pubend} {_tick(each.start.tick)}, below {_tick(tick)}, "
                    f"the beginning of {whose}",
                )
                break


def _named(pubend: str, begun: Sequence[_Begun], lives: Sequence[Life]) -> dict[int, int]:
    """The single messages that were named by the owner of the name, each with the time of the first time."""
    named: dict[int, int] = {}
    for life in lives:
        for each in life.record.named:
            is_first = each.pubend == pubend and each.sent_us < named.get(each.tick, _NEVER_US)
            if is_first and not _is_overtaken(life, each.sent_us, begun):
                named[each.tick] = each.sent_us
    return named


def _kept_again(pubend: str, lives: Sequence[Life]) -> Iterator[Breach]:
    """The messages that came to a life which claimed the name when somebody knew that they do not come again."""
    kept: dict[int, int] = {}
    for life in lives:
        for each in life.record.kept:
            if each.pubend == pubend:
                kept[each.tick] = min(each.sent_us, kept.get(each.tick, _NEVER_US))
    for life in lives:
        for (where, tick), came_us in life.came.items():
            if where != pubend or tick not in kept:
                continue
            # While a client moves, it may come by the line that knew nothing of it yet.
            asked_us = [each.asked_us for each in life.record.visits if (each.ended_us or _NEVER_US) >= came_us]
            if asked_us and kept[tick] < min(asked_us) <= came_us:
                yield Breach(
                    is_loss=False,
                    what=f"{life.client}: subscription {life.record.number} ({life.record.durable}) got {pubend} "
                    f"{_tick(tick)}, of which the acknowledgement was kept before",
                )


def _passed(pubend: str, lives: Sequence[Life]) -> Iterator[Breach]:
    """The messages that a broker was told are done while the application was not done with them."""
    for life in lives:
        record = life.record
        if not record.is_manual:
            continue
        who = f"{life.client}: subscription {record.number} ({record.durable})"
        # The first time at which each message was said to be done: by a position, or by itself.
        rises: list[tuple[int, int]] = []
        for ack in record.acknowledged:
            if ack.pubend == pubend and (not rises or ack.tick > rises[-1][0]):
                rises.append((ack.tick, ack.sent_us))
        for where, tick in life.came:
            place = bisect_right(rises, (tick, _NEVER_US))
            done_us = record.done.get((pubend, tick), _NEVER_US)
            if where == pubend and place < len(rises) and rises[place][1] < done_us:
                yield Breach(is_loss=True, what=f"{who} acknowledged a position above {pubend} {_tick(tick)}, not done")
        for each in record.named:
            if each.pubend == pubend and each.sent_us < record.done.get((pubend, each.tick), _NEVER_US):
                yield Breach(is_loss=True, what=f"{who} acknowledged {pubend} {_tick(each.tick)}, which is not done")


def _incomplete(
    pubend: str, begun: _Begun, owed: Sequence[int], named: Mapping[int, int], may_lapse: bool, gone: Collection[int]
) -> Iterator[Breach]:
    reached = begun.life.record.reached_in(begun.visit)
    for tick in _between(owed, begun.start.tick, reached.get(pubend, 0)):
        if named.get(tick, _NEVER_US) <= begun.start.confirmed_us:
            continue
        is_excused = (may_lapse or tick in gone) and _was_told(begun.life, pubend, tick)
        if (pubend, tick) not in begun.life.got and not is_excused:
            yield Breach(
                is_loss=True, what=f"{_told(begun)} misses {pubend} {_tick(tick)}, though it went on behind it"
            )


def _got_by_nobody(
    pubend: str, begun: Sequence[_Begun], lives: Sequence[Life], owed: Sequence[int], may_lapse: bool
) -> Iterator[Breach]:
    reached = max((life.record.positions.get(pubend, 0) for life in lives if life.is_last), default=0)
    for tick in _between(owed, begun[0].start.tick, reached):
        is_excused = may_lapse and any(_was_told(life, pubend, tick) for life in lives)
        if not is_excused and not any((pubend, tick) in life.got for life in lives):
            yield Breach(
                is_loss=True,
                what=f"{pubend} {_tick(tick)} came to no life of durable subscription {begun[0].life.record.durable}",
            )


def _was_told(life: Life, pubend: str, tick: int) -> bool:
    return any(
        lost.pubend == pubend and lost.first <= tick <= lost.last and life.record.number in lost.numbers
        for lost in life.lost
    )


def _between(ticks: Sequence[int], first: int, end: int) -> Sequence[int]:
    return ticks[bisect_left(ticks, first) : bisect_left(ticks, end)]


def _told(begun: _Begun) -> str:
    return f"{begun.life.client}: subscription {begun.life.record.number} ({begun.life.record.durable})"


def _tick(tick: int) -> str:
    return format_tick(Tick(tick))
