"""The recording strategies: keep all histories of one broker, and hand out what to store ([Tracking] section 3.2).

Everything recorded is handed out within the persistence interval Tp, together with a mark. After a crash, the next run
of the broker declares a gap by it: from the mark on, and as far back as there were late messages since. The mark is
renewed now and then even while nothing happens, so that the gap of a quiet broker is short.

For messages in a gap, a "no" means nothing. Adjacent gaps of one kind merge, and the closest ones are joined when there
are too many: a list of gaps can become coarse, but it never forgets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from penstock.protocol.status import TrackingStatus
from penstock.tracking.catalogue import Catalogue
from penstock.tracking.history import History
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.records import (
    DamagedRecordError,
    GapRecord,
    Keep,
    MarkRecord,
    SinceRecord,
    decode_record,
    encode_record,
)
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.spans import TimeIndex, united_spans
from penstock.tracking.stored import FilterHeader, StoredFilter, decode_filter, decode_header
from penstock.tracking.strategy import MARK, Matching, NullTracking, Tracking, delivery_key, filter_name

__all__ = ["Gaps", "Recorder", "make_tracking"]

_IDLE_MARKS: Final = 10
"""Persistence intervals after which a quiet broker renews its mark."""
_TOGETHER_BYTES: Final = 256 * 1024
"""Once this much is waiting, full filters do not wait for the next mark."""
_SINCE: Final = "since/filter"
_ID_BYTES: Final = 16
_SPANS_MAX: Final = 256
"""The most spans of one gap record: a kilobyte or so."""


class Recorder:
    """Tracking by Bloom filters or exact records."""

    def __init__(self, broker: int, settings: TrackingSettings, *, now_ms: int) -> None:
        """For the broker with this number, which starts now."""
        assert settings.strategy != "null"
        self.kind = settings.strategy
        self._settings = settings
        self._published = HistoryKey(Phase.PUBLISH, broker)
        self._options = {phase: settings.options(phase) for phase in Phase}
        self._histories: dict[HistoryKey, History] = {}
        self._routing: dict[int, History] = {}
        self._delivering: dict[int, History] = {}
        self.catalogue = Catalogue(settings.filters_kept_max)
        self.gaps = Gaps()
        self._outgoing: dict[str, Keep] = {}
        self._on_their_way: dict[str, list[Keep]] = {}
        self._waiting_bytes = 0
        self._together_bytes = min(_TOGETHER_BYTES, settings.waiting_bytes_max // 4)
        self.is_due = False
        """Whether there is more to take than filters that can wait for the next mark."""
        self._dirty_ms: int | None = None
        self._mark = MarkRecord(now_ms, now_ms)
        self._stopped = False
        self._recorded = dict.fromkeys(Phase, 0)
        self._written = {"values": 0, "bytes": 0, "filters_dropped": 0}
        self._mark_due_ms = self._floor_ms = now_ms
        self._renew_mark(now_ms)

    # --- recording

    def is_old(self, message_id: bytes) -> bool:
        """Whether a message is too old for the gap that would be declared after a crash, by the mark on disk."""
        return int.from_bytes(message_id[8:14], "big") < self._floor_ms

    def expect(self, *, now_ms: int) -> None:
        """Start the persistence interval now, for an event that will be recorded in a moment."""
        if self._dirty_ms is None:
            self._dirty_ms = now_ms

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Record messages that local publishers published, 16 bytes each."""
        history = self._histories.get(self._published) or self._new_history(self._published, now_ms)
        self._record(history, ids, None, now_ms)

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Record messages from an origin that passed through this broker."""
        history = self._routing.get(origin) or self._new_history(HistoryKey(Phase.ROUTE, origin), now_ms)
        self._record(history, ids, None, now_ms)

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Record deliveries: one subscriber's key for each id."""
        if self._settings.per_subscriber:
            self._record_by_subscriber(origin, ids, subscribers, now_ms)
        else:
            history = self._delivering.get(origin) or self._new_history(HistoryKey(Phase.DELIVER, origin), now_ms)
            self._record(history, ids, subscribers, now_ms)

    def _record_by_subscriber(self, origin: int, ids: bytes, subscribers: Sequence[int], now_ms: int) -> None:
        by_subscriber: dict[int, bytearray] = {}
        for place, subscriber in enumerate(subscribers):
            by_subscriber.setdefault(subscriber, bytearray()).extend(ids[place * _ID_BYTES : (place + 1) * _ID_BYTES])
        for subscriber, own in by_subscriber.items():
            key = delivery_key(origin, subscriber)
            history = self._histories.get(key) or self._new_history(key, now_ms)
            self._record(history, bytes(own), [subscriber] * (len(own) // _ID_BYTES), now_ms)

    def _record(self, history: History, ids: bytes, subscribers: Sequence[int] | None, now_ms: int) -> None:
        assert not self._stopped, "a message was recorded after tracking stopped"
        if not ids:
            return
        history.record(ids, subscribers, now_ms=now_ms)
        self._recorded[history.key.phase] += len(ids) // _ID_BYTES
        if self._dirty_ms is None:
            self._dirty_ms = now_ms
        oldest_ms = _oldest_ms(ids)
        if oldest_ms < self._floor_ms:
            self._lower_mark(oldest_ms)
        if history.has_news:
            self._hand_out(history)

    def _new_history(self, key: HistoryKey, now_ms: int) -> History:
        if len(self._histories) >= self._settings.histories_max:
            quietest = min(self._histories.values(), key=lambda each: each.added_ms)
            quietest.seal(now_ms=now_ms)
            self._hand_out(quietest)
            del self._histories[quietest.key]
            self._of_phase(quietest.key).pop(quietest.key.origin, None)
        first_id = max(self.catalogue.last_id(key), self.catalogue.last_id(key.late)) + 1
        history = self._histories[key] = History(key, self._options[key.phase], first_id=first_id)
        self._of_phase(key)[key.origin] = history
        return history

    def _of_phase(self, key: HistoryKey) -> dict[int, History]:
        """The index of histories that are found by origin alone."""
        if key.phase is Phase.ROUTE:
            return self._routing
        return self._delivering if key.phase is Phase.DELIVER and not key.part else {}

    # --- storing

    def next_deadline(self) -> int | None:
        """When what was recorded must be stored, or the mark renewed."""
        if self._stopped:
            return None
        return self._mark_due_ms if self._dirty_ms is None else self._dirty_ms + self._settings.persist_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Hands out everything, if there is room for it."""
        due_ms = self.next_deadline()
        if due_ms is not None and now_ms >= due_ms:
            self.persist(now_ms=now_ms)

    def persist(self, *, now_ms: int) -> None:
        """Hands out everything recorded, as far as there is room for it."""
        is_all = True
        for history in self._histories.values():
            if not history.is_waiting:
                continue
            if self._waiting_bytes + history.size_bytes <= self._settings.waiting_bytes_max:
                history.persist(now_ms=now_ms)
                self._hand_out(history)
            else:
                is_all = False
        self._dirty_ms = None if is_all else now_ms
        if is_all:
            self._renew_mark(now_ms)

    def stop(self, *, now_ms: int) -> None:
        """Hands out everything for a clean shutdown, however much is waiting already."""
        for history in self._histories.values():
            history.persist(now_ms=now_ms)
            for stored in history.take():
                self._store(stored)
        self._mark = MarkRecord(now_ms, now_ms, is_stopped=True)
        self._send(Keep(MARK, encode_record(self._mark)))
        self._dirty_ms, self._stopped = None, True

    def take(self) -> list[Keep]:
        """The values to make durable now, in this order; the mark comes after everything it covers."""
        taken = list(self._outgoing.values())
        self._outgoing, self.is_due = {}, False
        for keep in taken:
            if keep.name != MARK:
                self._on_their_way.setdefault(keep.name, []).append(keep)
        self._written["values"] += len(taken)
        self._written["bytes"] += sum(keep.size_bytes for keep in taken)
        return taken

    def on_kept(self, values: Sequence[Keep]) -> None:
        """Confirms that these values, as they were taken, are durable."""
        for keep in values:
            self._waiting_bytes -= keep.size_bytes
            waiting = self._on_their_way.get(keep.name)
            if waiting is not None:
                waiting.remove(keep)
                if not waiting:
                    del self._on_their_way[keep.name]
        assert self._waiting_bytes >= 0

    def _hand_out(self, history: History) -> None:
        for stored in history.take():
            size_bytes = len(stored.body)
            if self._waiting_bytes + size_bytes <= self._settings.waiting_bytes_max:
                self._store(stored)
            else:
                self._drop(stored)

    def _store(self, stored: StoredFilter) -> None:
        header = stored.header
        self._send(Keep(filter_name(header), stored.encode()), can_wait=True)
        self._catalogue(header)

    def retire(self, names: Container[str]) -> None:
        """Give up filters that are now kept elsewhere, oldest first, up to the first that is open or not named."""
        self._give_up(self.catalogue.retire(lambda header: not header.is_open and filter_name(header) in names))

    def _catalogue(self, header: FilterHeader) -> None:
        self._give_up(self.catalogue.add(header))

    def _give_up(self, given_up: Sequence[FilterHeader]) -> None:
        if given_up:
            self._send_since()
        for gone in given_up:
            self._send(Keep(filter_name(gone), None))
            ahead = [span for span in gone.index.singletons if span[1] > gone.added_ms]
            if ahead:
                # The catalogue's lower bound does not cover these: their timestamps are in the future.
                self._send(self.gaps.add(GapRecord(tuple(ahead), "retention", _history_of(filter_name(gone)))))

    def _drop(self, stored: StoredFilter) -> None:
        """Drop a filter when the store cannot keep up: better a known gap than a broker that waits."""
        self._written["filters_dropped"] += 1
        index = stored.header.index
        spans = index.singletons if index.range is None else (index.range, *index.singletons)
        key = stored.header.key
        self._send(self.gaps.add(GapRecord(spans, "overload", str(HistoryKey(key.phase, key.origin, key.part)))))

    def _send(self, keep: Keep, *, can_wait: bool = False) -> None:
        # A newer generation or mark goes to the end, behind what it must not overtake.
        before = self._outgoing.pop(keep.name, None)
        self._waiting_bytes += keep.size_bytes - (before.size_bytes if before else 0)
        self._outgoing[keep.name] = keep
        self.is_due |= not can_wait or self._waiting_bytes >= self._together_bytes

    def _send_since(self) -> None:
        self._send(Keep(_SINCE, encode_record(SinceRecord(self.catalogue.known_since_ms))))

    def _renew_mark(self, now_ms: int) -> None:
        self._mark = MarkRecord(now_ms, now_ms)
        self._floor_ms = now_ms - self._settings.late_ms
        self._mark_due_ms = now_ms + _IDLE_MARKS * self._settings.persist_ms
        self._send(Keep(MARK, encode_record(self._mark)))

    def _lower_mark(self, oldest_ms: int) -> None:
        """Lower the mark for messages older than expected: a crash would lose them."""
        self._mark = MarkRecord(self._mark.stored_ms, oldest_ms)
        self._floor_ms = oldest_ms
        self._send(Keep(MARK, encode_record(self._mark)))

    # --- an earlier run

    def load(self, values: Mapping[str, bytes], *, floor_ms: int | None = None, now_ms: int) -> list[str]:
        """Restores what an earlier run left, once, before anything is recorded; returns the names of damaged values.

        For closed filters the first bytes are enough (`stored.HEADER_BYTES_MAX`); open ones are needed whole.
        ``floor_ms`` is how far back subscribers that came after the mark began. A broker with nothing from an earlier
        run passes no values: then it knows nothing about earlier messages.
        """
        if MARK not in values:
            # The last run recorded nothing, whatever earlier runs may have left.
            self.catalogue.known_since_ms = now_ms
            self._send_since()
        damaged = [name for name, value in values.items() if not self._load(name, value)]
        for name in damaged:
            # Its timestamps are unknown, so nothing before now is certain.
            span = 0, now_ms + self._settings.late_ms
            self._send(self.gaps.add(GapRecord((span,), "damaged", _history_of(name))))
        if MARK in values and MARK not in damaged:
            mark = decode_record(values[MARK], MarkRecord)
            if not mark.is_stopped:
                floors = [each for each in (mark.floor_ms, mark.stored_ms, floor_ms) if each is not None]
                late_ms = self._settings.late_ms
                span = min(floors) - late_ms, max(now_ms, mark.stored_ms) + late_ms
                self._send(self.gaps.add(GapRecord((span,), "crash")))
        self._renew_mark(now_ms)
        return damaged

    def _load(self, name: str, value: bytes) -> bool:
        kind = name.partition("/")[0]
        try:
            if kind == "filter":
                self._load_filter(value)
            elif kind == "gap":
                self.gaps.load(decode_record(value, GapRecord))
            elif kind == MARK:
                decode_record(value, MarkRecord)
            elif name == _SINCE:
                since_ms = decode_record(value, SinceRecord).known_since_ms
                self.catalogue.known_since_ms = max(self.catalogue.known_since_ms, since_ms)
        except DamagedRecordError:
            return False
        return True

    def _load_filter(self, value: bytes) -> None:
        header = decode_header(value)
        if header.is_open and len(value) > header.shape.size_bytes:
            key = HistoryKey(header.key.phase, header.key.origin, header.key.part)
            stored = decode_filter(value)
            (self._histories.get(key) or self._new_history(key, header.added_ms)).resume(stored)
        self._catalogue(header)

    # --- asking

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:
        """Where to look for a message of this time in one history, and in its late history."""
        history = self._histories.get(key)
        found = Matching(gaps=self.gaps.concerning(str(key), timestamp_ms))
        found.is_known = timestamp_ms >= self.catalogue.known_since_ms
        current = [] if history is None else history.current(now_ms=now_ms)
        if history is not None and history.has_news:
            self._hand_out(history)
        found.memory = [each for each in current if timestamp_ms in each[0].index]
        names = {header.name for header, _ in current}
        for header in (
            *self.catalogue.matching(key, timestamp_ms),
            *self.catalogue.matching(key.late, timestamp_ms),
        ):
            if header.name not in names:
                found.stored.append(header)
        return found

    def waiting_value(self, name: str) -> bytes | None:
        """A value handed out but not confirmed as durable: the store may not have it yet."""
        waiting = self._outgoing.get(name) or next(iter(reversed(self._on_their_way.get(name, []))), None)
        return None if waiting is None else waiting.value

    def status(self) -> TrackingStatus:
        """Figures for the operator."""
        return TrackingStatus(
            strategy=self.kind,
            recorded={str(phase): count for phase, count in self._recorded.items()},
            histories=len(self._histories),
            memory_bytes=sum(each.size_bytes for each in self._histories.values()),
            filters_kept=len(self.catalogue),
            waiting_bytes=self._waiting_bytes,
            values=self._written["values"],
            bytes=self._written["bytes"],
            filters_dropped=self._written["filters_dropped"],
        )

    def check_invariants(self) -> None:
        """Fails if a bound is exceeded or a count is wrong."""
        waiting = [*self._outgoing.values(), *_flat(self._on_their_way.values())]
        assert sum(keep.size_bytes for keep in waiting) <= self._waiting_bytes
        assert len(self._histories) <= self._settings.histories_max
        for history in self._histories.values():
            history.check_invariants()


def make_tracking(broker: int, settings: TrackingSettings, *, now_ms: int) -> Tracking:
    """The strategy that the settings ask for."""
    return NullTracking() if settings.strategy == "null" else Recorder(broker, settings, now_ms=now_ms)


class Gaps:
    """The known gaps: one record for each reason and history."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], GapRecord] = {}

    def __iter__(self) -> Iterator[GapRecord]:
        return iter(self._records.values())

    def load(self, record: GapRecord) -> None:
        """Add a record of an earlier run."""
        self._records[record.reason, record.key] = record

    def add(self, record: GapRecord) -> Keep:
        """Add a gap; returns the value to store."""
        key = record.reason, record.key
        before = self._records.get(key)
        index = TimeIndex(None, united_spans((*record.spans, *(before.spans if before else ()))))
        index.join_singletons((), _SPANS_MAX)
        self._records[key] = joined = GapRecord(index.singletons, record.reason, record.key)
        return Keep(f"gap/{record.reason}/{record.key}", encode_record(joined))

    def concerning(self, key: str, timestamp_ms: int) -> list[GapRecord]:
        """The gaps that make a "no" from this history meaningless for this timestamp."""
        return [each for each in self._records.values() if each.concerns(key, timestamp_ms)]


def _oldest_ms(ids: bytes) -> int:
    """The oldest timestamp of a batch."""
    if len(ids) == _ID_BYTES:
        return int.from_bytes(ids[8:14], "big")
    return int(np.frombuffer(ids, dtype=">u8")[1::2].min()) >> 16


def _history_of(name: str) -> str:
    """The history a filter belonged to, as far as its name tells; empty if it may be any."""
    kind, _, rest = name.partition("/")
    text, hash_sign, _ = rest.rpartition("#")
    return text.replace("~late", "", 1) if kind == "filter" and hash_sign else ""


def _flat(lists: Iterable[list[Keep]]) -> list[Keep]:
    return [keep for each in lists for keep in each]
