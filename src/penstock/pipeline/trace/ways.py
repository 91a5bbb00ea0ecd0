"""Ways of messages: the paths that brokers' claims imply, solved once for all messages with the same claims.

A way is everything in a trace except its receivers. Few combinations of claims lead to different ways, so the search of
live traces (``Reconstruction``) runs once per combination, and every message just refers to its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.model.message_id import MessageId
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts
from penstock.pipeline.trace.stored import LakeFilter
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, Trace, combined
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.reconstruct import Reconstruction

__all__ = ["Era", "Way", "WayBook", "make_era", "way_of"]

_CACHED_MAX: Final = 200_000


@dataclass(slots=True, frozen=True)
class Way:
    """One way, and the role of each broker in it."""

    number: int
    """A signed digest of ``detail``."""
    detail: bytes
    """The whole way, as JSON."""
    asked: tuple[str, ...]
    """Brokers that answered."""
    looked: tuple[str, ...]
    """Brokers whose subscribers were checked."""
    listed: tuple[str, ...]
    """The checked brokers whose receivers count, in the order in which they are listed."""


@dataclass(slots=True, frozen=True)
class _Silence:
    """What it means in one era if a broker does not claim a message."""

    neighbours: tuple[str, ...]
    routed: Evidence
    published: Evidence
    """Evidence of the publisher history, if the id names this broker; otherwise NO."""
    has_lost_alias: bool
    path_gaps: tuple[GapSeen, ...]
    delivery_gaps: tuple[GapSeen, ...]


@dataclass(slots=True, frozen=True)
class Era:
    """A stretch of time in which brokers, links and gaps are the same, for messages of one origin."""

    timestamp_ms: int
    origin: int
    origin_name: str
    silences: tuple[tuple[str, _Silence], ...]
    unshipped: tuple[tuple[str, tuple[str, ...]], ...]
    is_tangled: bool
    """Whether gaps differ between subscribers: such messages are traced one by one."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Eras with the same key have the same ways."""
        return self.origin, self.silences, self.unshipped


def make_era(facts: LakeFacts, filters: Sequence[LakeFilter], origin: int, timestamp_ms: int) -> Era:
    """Build the era of a timestamp from the origin's filters, of which damaged ones are gaps."""
    name = facts.origin_of(origin)
    links = facts.unshipped_links(timestamp_ms)
    if name not in facts.brokers:
        known = sorted({each.broker for each in filters if each.header.key.origin == origin})
        links[name] = tuple(dict.fromkeys((*links.get(name, ()), *known)))
    damaged = [each for each in filters if each.is_damaged and timestamp_ms in each.header.index]
    silences = []
    is_tangled = False
    for broker in facts.brokers.values():
        silence = _silence(
            facts, broker, [each for each in damaged if each.broker == broker.name], origin, timestamp_ms
        )
        silences.append((broker.name, silence))
        if broker.per_subscriber:
            is_tangled |= bool(silence.delivery_gaps) or bool(_part_gaps(broker, origin, timestamp_ms))
            is_tangled |= any(each.broker == broker.name and each.header.key.part for each in damaged)
    return Era(timestamp_ms, origin, name, tuple(silences), tuple(sorted(links.items())), is_tangled)


class WayBook:
    """Solves ways and caches them."""

    def __init__(self) -> None:
        self._eras: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[int, frozenset[str], bool], Way] = {}
        self._by_claims: dict[tuple[int, bytes], Way] = {}
        self._reaches: dict[int, _Reach] = {}

    def era_number(self, era: Era) -> int:
        """A number that is equal for eras with the same ways."""
        return self._eras.setdefault(era.key, len(self._eras))

    def way_of_claims(self, era: Era, number: int, claims: NDArray[np.bool_]) -> Way:
        """The way of messages with these claims: of brokers in the era's order, then of the publisher history."""
        key = number, claims.tobytes()
        way = self._by_claims.get(key)
        if way is None:
            if len(self._by_claims) >= _CACHED_MAX:
                self._by_claims.clear()
            routed = [name for (name, _), is_claimed in zip(era.silences, claims.tolist(), strict=False) if is_claimed]
            way = self._by_claims[key] = self.way(era, number, routed, is_published=bool(claims[-1]))
        return way

    def way(self, era: Era, number: int, routed: Sequence[str], *, is_published: bool) -> Way:
        """The way of messages that these brokers claim to have routed, and that the id's broker may have published."""
        reach = self._reaches.get(number)
        if reach is None:
            reach = self._reaches[number] = _Reach(era)
        asked = reach.within(routed)
        key = number, asked, is_published
        way = self._known.get(key)
        if way is None:
            if len(self._known) >= _CACHED_MAX:
                self._known.clear()
            way = self._known[key] = _solved(era, asked, is_published=is_published)
        return way


class _Reach:
    """Finds which claims a search can encounter: claims of other brokers do not change the way."""

    def __init__(self, era: Era) -> None:
        self._origin = era.origin_name
        self._near = {name: silence.neighbours for name, silence in era.silences}
        for name, links in era.unshipped:
            self._near[name] = (*self._near.get(name, ()), *links)
        silences = dict(era.silences)
        # A search continues past these without a claim; the origin is where it begins.
        self._open = {name for name in self._near if not _is_certain(silences.get(name))} | {era.origin_name}

    def within(self, routed: Sequence[str]) -> frozenset[str]:
        """The brokers that claim a message and may be asked; possibly a superset."""
        passing = self._open.union(routed)
        reached, edge = {self._origin}, [self._origin]
        while edge:
            name = edge.pop()
            if name in passing:
                fresh = [each for each in self._near.get(name, ()) if each not in reached]
                reached.update(fresh)
                edge += fresh
        return frozenset(each for each in routed if each in reached)


def _is_certain(silence: _Silence | None) -> bool:
    """Whether a broker that does not claim a message certainly did not have it."""
    if silence is None or silence.has_lost_alias:
        return False
    return silence.routed is Evidence.NO and silence.published is Evidence.NO


def way_of(trace: Trace) -> Way:
    """The way of a trace that was made individually."""
    answers = {hop.broker: hop.answer for hop in trace.hops}
    standing = [hop.broker for hop in trace.hops if hop.is_counted or hop.claim is not Evidence.YES]
    detail = _detail(trace)
    names = tuple(name for name, answer in answers.items() if answer is not None)
    listed = tuple(name for name in standing if answers[name] is not None)
    return Way(_digest(detail), detail, names, names, listed)


def _solved(era: Era, routed: frozenset[str], *, is_published: bool) -> Way:
    silences = dict(era.silences)
    # Any message of the origin will do: answers and links depend only on the era.
    message_id = MessageId(0, era.origin, max(era.timestamp_ms, 0), 0)
    search = Reconstruction(message_id, era.origin_name, topology=dict(era.unshipped))
    asked: list[str] = []
    looked: list[str] = []
    while not search.is_done:
        for ask in search.asks():
            silence = silences.get(ask.broker)
            if silence is None:
                search.on_unreachable(ask.broker)
                continue
            published = is_published and ask.broker == era.origin_name
            answer, is_looked = _answer(ask.broker, silence, is_routed=ask.broker in routed, is_published=published)
            asked.append(ask.broker)
            looked += [ask.broker] if is_looked else []
            search.on_answer(answer)
    trace = search.result()
    detail = _detail(trace)
    counted = [hop.broker for hop in trace.hops if hop.is_counted or hop.claim is not Evidence.YES]
    return Way(_digest(detail), detail, tuple(asked), tuple(looked), tuple(each for each in counted if each in looked))


def _answer(broker: str, silence: _Silence, *, is_routed: bool, is_published: bool) -> tuple[BrokerAnswer, bool]:
    """A broker's answer, and whether it checks its subscribers."""
    routed = Evidence.YES if is_routed else silence.routed
    published = Evidence.YES if is_published else silence.published
    is_looked = combined([published, routed]) is not Evidence.NO
    gaps = list(silence.path_gaps)
    if is_looked:
        gaps += [gap for gap in silence.delivery_gaps if gap.history != "attachments"]
    if silence.has_lost_alias and not (is_routed or is_published):
        published = combined([published, Evidence.GAP])
        gaps.append(GapSeen(broker, "aliases", "retention"))
    if is_looked:
        gaps += [gap for gap in silence.delivery_gaps if gap.history == "attachments"]
    return BrokerAnswer(broker, routed, published, neighbours=silence.neighbours, gaps=tuple(gaps)), is_looked


def _silence(
    facts: LakeFacts, broker: BrokerFacts, damaged: Sequence[LakeFilter], origin: int, timestamp_ms: int
) -> _Silence:
    is_known = broker.known_since_ms is not None and timestamp_ms >= broker.known_since_ms

    def look(key: HistoryKey) -> tuple[Evidence, list[GapSeen]]:
        name = str(key)
        gaps = [
            GapSeen(broker.name, name, gap.reason, _around(gap.spans, timestamp_ms))
            for gap in broker.gaps
            if gap.concerns(name, timestamp_ms)
        ]
        gaps += [
            GapSeen(broker.name, name, "damaged", each.header.index.hull())
            for each in damaged
            if each.header.key in (key, key.late)
        ]
        return (Evidence.GAP if gaps else Evidence.NO) if is_known else Evidence.UNKNOWN, gaps

    routed, gaps = look(HistoryKey(Phase.ROUTE, origin))
    published, has_lost_alias = Evidence.NO, False
    if broker.number == origin:
        published, more = look(HistoryKey(Phase.PUBLISH, origin))
        gaps = [*more, *gaps]
        has_lost_alias = timestamp_ms < broker.aliases_since_ms
    _, delivery_gaps = look(HistoryKey(Phase.DELIVER, origin))
    if timestamp_ms < broker.attachments_since_ms:
        delivery_gaps.append(GapSeen(broker.name, "attachments", "retention"))
    neighbours = broker.neighbours_since(timestamp_ms, facts.slack_ms)
    return _Silence(neighbours, routed, published, has_lost_alias, tuple(gaps), tuple(delivery_gaps))


def _part_gaps(broker: BrokerFacts, origin: int, timestamp_ms: int) -> list[str]:
    own = f"{Phase.DELIVER}/{origin}/"
    return [gap.key for gap in broker.gaps if gap.key.startswith(own) and gap.concerns(gap.key, timestamp_ms)]


def _around(spans: Sequence[tuple[int, int]], timestamp_ms: int) -> tuple[int, int]:
    return next(span for span in spans if span[0] <= timestamp_ms <= span[1])


def _detail(trace: Trace) -> bytes:
    return msgspec.json.encode(
        {
            "origin": trace.origin,
            "published_at": trace.published_at,
            "published": trace.published,
            "routed_by": trace.routed_by,
            "hops": [
                {"broker": hop.broker, "parent": hop.parent, "claim": hop.claim, "is_counted": hop.is_counted}
                for hop in trace.hops
            ],
            "probable_false_positives": trace.probable_false_positives,
            "unreachable": trace.unreachable,
            "unknown": trace.unknown,
            "gaps": trace.gaps,
            "asked": trace.asked,
            "is_truncated": trace.is_truncated,
            "is_complete": trace.is_complete,
        }
    )


def _digest(detail: bytes) -> int:
    return int.from_bytes(blake2b(detail, digest_size=8, person=b"penstock-way").digest(), "big", signed=True)
