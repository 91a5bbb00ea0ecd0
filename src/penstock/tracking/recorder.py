"""The strategies that record: all histories of one broker, and what of them is to be stored ([Tracking] section 3.2).

Everything recorded is handed out within the persistence interval Tp. A mark goes with it; the next life of the broker
finds it, and declares the gap of a crash by it: from the mark on, and for older messages as far back as there were late
ones since. The mark is renewed now and then also while nothing happens, so that the gap of a quiet broker is short.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from penstock.tracking.catalogue import Catalogue
from penstock.tracking.gaps import Gaps
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
from penstock.tracking.stored import FilterHeader, StoredFilter, decode_filter, decode_header
from penstock.tracking.strategy import MARK, Matching, NullTracking, Tracking, delivery_key, filter_name

__all__ = ["Recorder", "make_tracking"]

_IDLE_MARKS: Final = 10
"""A quiet broker renews its mark every so many persistence intervals."""
_TOGETHER_BYTES: Final = 256 * 1024
"""With so much that waits, full filters do not wait for the next mark."""
_SINCE: Final = "since/filter"
_ID_BYTES: Final = 16


class Recorder:
    """Tracking by Bloom filters or exact records."""

    def __init__(self, broker: int, settings: TrackingSettings, *, now_ms: int) -> None:
        """For the broker of this number, which starts now."""
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
        """Whether more is to be taken than filters that can wait for the next mark."""
        self._dirty_ms: int | None = None
        self._mark = MarkRecord(now_ms, now_ms)
        self._stopped = False
        self._recorded = dict.fromkeys(Phase, 0)
        self._written = {"values": 0, "bytes": 0, "filters_dropped": 0}
        self._mark_due_ms = self._floor_ms = now_ms
        self._renew_mark(now_ms)

    # --- recording

    def is_old(self, message_id: bytes) -> bool:
        """Whether a message that comes by is older than what the mark on disk lets a crash expect."""
        return int.from_bytes(message_id[8:14], "big") < self._floor_ms

    def expect(self, *, now_ms: int) -> None:
        """Something has happened that will be recorded in a moment: it is to be stored as if it had been now."""
        if self._dirty_ms is None:
            self._dirty_ms = now_ms

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Local publishers have published these messages, 16 bytes each."""
        history = self._histories.get(self._published) or self._new_history(self._published, now_ms)
        self._record(history, ids, None, now_ms)

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Messages that were published at a broker have come by."""
        history = self._routing.get(origin) or self._new_history(HistoryKey(Phase.ROUTE, origin), now_ms)
        self._record(history, ids, None, now_ms)

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Messages go to subscribers: one key for each id."""
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
        """Finds the histories that are found by origin alone."""
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
        """Hands out everything that was recorded, as far as there is room for it."""
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
        """The broker stops in order: everything is handed out, whatever waits already."""
        for history in self._histories.values():
            history.persist(now_ms=now_ms)
            for stored in history.take():
                self._store(stored)
        self._mark = MarkRecord(now_ms, now_ms, is_stopped=True)
        self._send(Keep(MARK, encode_record(self._mark)))
        self._dirty_ms, self._stopped = None, True

    def take(self) -> list[Keep]:
        """What is to be made durable now, in this order; the mark after all that it speaks of."""
        taken = list(self._outgoing.values())
        self._outgoing, self.is_due = {}, False
        for keep in taken:
            if keep.name != MARK:
                self._on_their_way.setdefault(keep.name, []).append(keep)
        self._written["values"] += len(taken)
        self._written["bytes"] += sum(keep.size_bytes for keep in taken)
        return taken

    def on_kept(self, values: Sequence[Keep]) -> None:
        """These values, as they were taken, are durable."""
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
        """Filters with these names are kept elsewhere: they are given up as far as they are closed and the oldest."""
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
                # The catalogue only knows since when it knows; these have timestamps from the future.
                self._send(self.gaps.add(GapRecord(tuple(ahead), "retention", _history_of(filter_name(gone)))))

    def _drop(self, stored: StoredFilter) -> None:
        """The store cannot follow: better a gap that is known than a broker that waits."""
        self._written["filters_dropped"] += 1
        index = stored.header.index
        spans = index.singletons if index.range is None else (index.range, *index.singletons)
        key = stored.header.key
        self._send(self.gaps.add(GapRecord(spans, "overload", str(HistoryKey(key.phase, key.origin, key.part)))))

    def _send(self, keep: Keep, *, can_wait: bool = False) -> None:
        # A newer generation, or a newer mark, goes behind what it must not overtake.
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
        """Older messages than one would expect are recorded: a crash would lose these."""
        self._mark = MarkRecord(self._mark.stored_ms, oldest_ms)
        self._floor_ms = oldest_ms
        self._send(Keep(MARK, encode_record(self._mark)))

    # --- an earlier life

    def load(self, values: Mapping[str, bytes], *, floor_ms: int | None = None, now_ms: int) -> list[str]:
        """Takes up what an earlier life left, once, before anything is recorded; answers with what was damaged.

        Of closed filters the beginnings are enough (`stored.HEADER_BYTES_MAX`), of open ones it needs the whole.
        ``floor_ms`` is how far back subscribers began who came after the mark. A broker that has nothing of an earlier
        life gives no values: then it knows nothing of messages from before.
        """
        if MARK not in values:
            # Nothing was recorded before, whatever may be left of lives before that.
            self.catalogue.known_since_ms = now_ms
            self._send_since()
        damaged = [name for name, value in values.items() if not self._load(name, value)]
        for name in damaged:
            # Which timestamps it had cannot be known, so nothing before is certain.
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
        """A value that was handed out and is not known to be durable: the store may not have it yet."""
        waiting = self._outgoing.get(name) or next(iter(reversed(self._on_their_way.get(name, []))), None)
        return None if waiting is None else waiting.value

    def status(self) -> dict[str, object]:
        """Figures for the operator."""
        return {
            "strategy": self.kind,
            "recorded": {str(phase): count for phase, count in self._recorded.items()},
            "histories": len(self._histories),
            "memory_bytes": sum(each.size_bytes for each in self._histories.values()),
            "filters_kept": len(self.catalogue),
            "waiting_bytes": self._waiting_bytes,
            **self._written,
        }

    def check_invariants(self) -> None:
        """Fails if something is over its bound, or miscounted."""
        waiting = [*self._outgoing.values(), *_flat(self._on_their_way.values())]
        assert sum(keep.size_bytes for keep in waiting) <= self._waiting_bytes
        assert len(self._histories) <= self._settings.histories_max
        for history in self._histories.values():
            history.check_invariants()


def make_tracking(broker: int, settings: TrackingSettings, *, now_ms: int) -> Tracking:
    """The strategy that the settings ask for."""
    return NullTracking() if settings.strategy == "null" else Recorder(broker, settings, now_ms=now_ms)


def _oldest_ms(ids: bytes) -> int:
    """The oldest timestamp of a batch."""
    if len(ids) == _ID_BYTES:
        return int.from_bytes(ids[8:14], "big")
    return int(np.frombuffer(ids, dtype=">u8")[1::2].min()) >> 16


def _history_of(name: str) -> str:
    """The history that a filter belonged to, as far as its name says; empty if it may be any."""
    kind, _, rest = name.partition("/")
    text, hash_sign, _ = rest.rpartition("#")
    return text.replace("~late", "", 1) if kind == "filter" and hash_sign else ""


def _flat(lists: Iterable[list[Keep]]) -> list[Keep]:
    return [keep for each in lists for keep in each]
