"""Answers for one broker about a message, from its histories in memory and in the store ([Tracking] section 3.3).

An `Inquiry` names the stored filters it needs, is given them, and then has the answer. This takes two rounds at most:
subscriber histories are asked only where the message may have been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from penstock.model.message_id import MessageId
from penstock.tracking.aliases import AliasBook
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, combined
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords
from penstock.tracking.hashing import EXPIRED_KEY, HASH_VERSION, subscriber_key
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.records import DamagedRecordError, GapRecord
from penstock.tracking.stored import FilterHeader, decode_filter
from penstock.tracking.strategy import Matching, Tracking, delivery_key, filter_name

__all__ = ["Answerer", "Inquiry"]


@dataclass(slots=True)
class _Look:
    """The lookup in one history."""

    key: HistoryKey
    matching: Matching
    filters: list[tuple[FilterHeader, BloomFilter | ExactRecords]] = field(default_factory=list)
    damaged: list[FilterHeader] = field(default_factory=list)
    claims: list[FilterHeader] = field(default_factory=list)

    @property
    def fpp(self) -> float:
        """The probability that any of its filters claims a message it never saw."""
        return 1 - prod(1 - each.fpp for _, each in self.filters)

    @property
    def silence(self) -> Evidence:
        """The evidence if no filter claims the message."""
        if not self.matching.is_known:
            return Evidence.UNKNOWN
        return Evidence.GAP if self.matching.gaps or self.damaged else Evidence.NO

    def ask(self, high: int, low: int) -> bool:
        """Whether any of the filters claims the key."""
        claims = [header for header, each in self.filters if each.contains(high, low)]
        self.claims += [header for header in claims if header not in self.claims]
        return bool(claims)


class Answerer:
    """Answers for one broker."""

    def __init__(
        self,
        name: str,
        number: int,
        tracking: Tracking,
        attachments: AttachmentMap,
        *,
        aliases: AliasBook | None = None,
        slack_ms: int,
        per_subscriber: bool = False,
    ) -> None:
        """``slack_ms`` is how much a message's timestamp and its tick may differ: at least Ts + Tj."""
        self.name, self.number = name, number
        self.tracking, self.attachments = tracking, attachments
        self.aliases = AliasBook() if aliases is None else aliases
        self.slack_ms, self.per_subscriber = slack_ms, per_subscriber

    def inquire(
        self,
        message_id: MessageId,
        origins: Sequence[int] = (),
        *,
        neighbours: Sequence[str] = (),
        upstream: Sequence[str] = (),
        now_ms: int,
    ) -> Inquiry:
        """Start to answer a question; the caller supplies the links there were since the message's time."""
        return Inquiry(self, message_id, origins, (tuple(neighbours), tuple(upstream)), now_ms)


class Inquiry:
    """One question to one broker, until it is answered."""

    def __init__(
        self,
        answerer: Answerer,
        message_id: MessageId,
        origins: Sequence[int],
        links: tuple[tuple[str, ...], tuple[str, ...]],
        now_ms: int,
    ) -> None:
        self._answerer, self._id, self._now_ms = answerer, message_id, now_ms
        self._origins = tuple(dict.fromkeys((message_id.broker, *origins)))
        self._links = links
        self._high, self._low = message_id.halves()
        self._candidates: dict[str, int] = {}
        self._deliveries: list[_Look] = []
        own = [HistoryKey(Phase.PUBLISH, answerer.number)] if answerer.number in self._origins else []
        self._path = [self._look(key) for key in (*own, *(HistoryKey(Phase.ROUTE, each) for each in self._origins))]
        self.answer: BrokerAnswer | None = None
        """The answer, once it is known."""
        self.needs: tuple[str, ...] = ()
        """Names of the stored values to load and hand to `on_loaded`."""
        self._begin(self._path)

    def on_loaded(self, values: Mapping[str, bytes | None]) -> None:
        """Continue with the loaded values; a missing one is None or left out, and counts as a gap."""
        assert self.answer is None, "the question is answered"
        looks = self._deliveries or self._path
        for look in looks:
            for header in look.matching.stored:
                self._load(look, header, values.get(filter_name(header)))
        self._go_on(looks)

    # --- steps

    def _begin(self, looks: list[_Look]) -> None:
        """Load the filters that the store may not have yet; ask for the rest."""
        for look in looks:
            absent = []
            for header in look.matching.stored:
                value = self._answerer.tracking.waiting_value(filter_name(header))
                if value is None:
                    absent.append(header)
                else:
                    self._load(look, header, value)
            look.matching.stored = absent
        self.needs = tuple(filter_name(header) for look in looks for header in look.matching.stored)
        if not self.needs:
            self._go_on(looks)

    def _go_on(self, looks: list[_Look]) -> None:
        self.needs = ()
        if looks is not self._path:
            self._finish()
            return
        for look in self._path:
            look.ask(self._high, self._low)
        if self._claim() is Evidence.NO:
            self._finish()
        else:
            self._look_for_receivers()

    def _look_for_receivers(self) -> None:
        answerer = self._answerer
        claims = [header for look in self._path for header in look.claims]
        # It was here when a filter that claims it was filled, so its tick is no later. Without a claim, it may be any.
        until_ms = max((header.added_ms for header in claims), default=self._now_ms)
        first_ms, last_ms = self._id.timestamp_ms, max(self._id.timestamp_ms, until_ms)
        names = answerer.attachments.covering(first_ms - answerer.slack_ms, last_ms + answerer.slack_ms)
        self._candidates = {name: subscriber_key(name) for name in names}
        if answerer.per_subscriber:
            parts = (*self._candidates.values(), EXPIRED_KEY)
            keys = [delivery_key(origin, each) for origin in self._origins for each in parts]
        else:
            keys = [HistoryKey(Phase.DELIVER, origin) for origin in self._origins]
        self._deliveries = [self._look(key) for key in keys]
        if self._deliveries:
            self._begin(self._deliveries)
        else:
            self._finish()

    def _finish(self) -> None:
        routed = [_evidence(look) for look in self._path if look.key.phase is Phase.ROUTE]
        published = [_evidence(look) for look in self._path if look.key.phase is Phase.PUBLISH]
        receivers = tuple(name for name, key in self._candidates.items() if self._has_received(key))
        expired = self._has_received(EXPIRED_KEY)
        looks = [*self._path, *self._deliveries]
        gaps = [gap for look in looks for gap in self._gaps(look)]
        if self._has_lost_alias():
            published.append(Evidence.GAP)
            gaps.append(GapSeen(self._answerer.name, "aliases", "retention"))
        # Whether something was delivered does not depend on what expired.
        asked = self._asked()
        silence = [look.silence for look in asked]
        if self._candidates or asked:
            if self._id.timestamp_ms < self._answerer.attachments.known_since_ms:
                silence.append(Evidence.GAP)
                gaps.append(GapSeen(self._answerer.name, "attachments", "retention"))
        else:
            silence = [Evidence.NO]
        record = self._answerer.aliases.record_of(self._id)
        self.answer = BrokerAnswer(
            broker=self._answerer.name,
            routed=combined(routed),
            published=combined(published),
            delivered=Evidence.YES if receivers else combined(silence),
            receivers=receivers,
            receivers_checked=len(self._candidates),
            expired=expired,
            neighbours=self._links[0],
            upstream=self._links[1],
            alias=None if record is None else (record.broker, record.number),
            path_fpp=1 - prod(1 - look.fpp for look in self._path),
            delivery_fpp=self._delivery_fpp(),
            evidence=tuple(f"{header.name} generation {header.generation}" for look in looks for header in look.claims),
            gaps=tuple(gaps),
        )

    # --- histories

    def _look(self, key: HistoryKey) -> _Look:
        matching = self._answerer.tracking.matching(key, self._id.timestamp_ms, now_ms=self._now_ms)
        return _Look(key, matching, filters=list(matching.memory))

    def _load(self, look: _Look, header: FilterHeader, value: bytes | None) -> None:
        try:
            if value is None or header.hash_version != HASH_VERSION:
                raise DamagedRecordError(f"filter {header.name} cannot be asked")
            stored = decode_filter(value)
            if stored.header.name != header.name or stored.header.generation < header.generation:
                raise DamagedRecordError(f"filter {stored.header.name} is not {header.name}")
        except DamagedRecordError:
            look.damaged.append(header)
        else:
            look.filters.append((stored.header, stored.container()))

    def _claim(self) -> Evidence:
        return combined([_evidence(look) for look in self._path])

    def _has_lost_alias(self) -> bool:
        """Whether this broker, which the id names, may have forgotten that the message was published elsewhere."""
        return (
            self._id.broker == self._answerer.number
            and self._id.timestamp_ms < self._answerer.aliases.known_since_ms
            and not any(look.claims for look in self._path)
        )

    def _has_received(self, key: int) -> bool:
        own = f"{key:016x}"
        looks = [look for look in self._deliveries if not look.key.part or look.key.part == own]
        # Ask all of them, to collect the evidence.
        claims = [look.ask(self._high ^ key, self._low) for look in looks]
        return any(claims)

    def _asked(self) -> list[_Look]:
        """The histories of subscribers, without that of what expired."""
        return [look for look in self._deliveries if look.key.part != f"{EXPIRED_KEY:016x}"]

    def _delivery_fpp(self) -> float:
        """How probable it is that some claim about a receiver is wrong; that it expired is a claim apart."""
        if self._answerer.per_subscriber:
            return 1 - prod(1 - look.fpp for look in self._asked())
        return 1 - prod(1 - look.fpp for look in self._asked()) ** len(self._candidates)

    def _gaps(self, look: _Look) -> list[GapSeen]:
        broker, key = self._answerer.name, str(look.key)
        seen = [GapSeen(broker, key, gap.reason, _around(gap, self._id.timestamp_ms)) for gap in look.matching.gaps]
        return seen + [GapSeen(broker, key, "damaged", header.index.hull()) for header in look.damaged]


def _evidence(look: _Look) -> Evidence:
    return Evidence.YES if look.claims else look.silence


def _around(gap: GapRecord, timestamp_ms: int) -> tuple[int, int]:
    return next(span for span in gap.spans if span[0] <= timestamp_ms <= span[1])
