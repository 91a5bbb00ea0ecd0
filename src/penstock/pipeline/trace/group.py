"""Traces the messages of one origin in one stretch of time, block by block ([Tracking] section 3.3).

Per block: all routing histories are asked at once; the claims, with the era, determine the way; subscribers are checked
where the message was, or may have been; and probabilities come from the filters that matched. The result equals that of
the live trace (``stored.trace_one``), which also handles the few messages that have an alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.model.message_id import MessageId
from penstock.pipeline.trace.deliveries import Block, BrokerDeliveries, log_silence
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts
from penstock.pipeline.trace.paths import PathHistories
from penstock.pipeline.trace.stored import LakeFilter, spans_of_index, trace_one
from penstock.pipeline.trace.timeline import TIME_MAX, Timeline
from penstock.pipeline.trace.ways import Era, Way, WayBook, make_era, way_of
from penstock.tracking.answers import Trace
from penstock.tracking.hashing import Column
from penstock.tracking.keys import Phase
from penstock.tracking.spans import Span

__all__ = ["BLOCK", "Aliases", "Group", "Traced"]

BLOCK: Final = 65_536
"""Messages per block."""

Aliases: TypeAlias = Mapping[tuple[int, int], Sequence[tuple[str, str, int]]]
"""By the halves of an identifier: the broker that knows the alias, the publishing broker, and its number."""


@dataclass(slots=True)
class Traced:
    """Traces of some messages, as columns."""

    rows: NDArray[np.intp]
    """Their indexes in the input."""
    ways: list[Way]
    way: NDArray[np.intp]
    """By message, the index of its way."""
    receivers: NDArray[np.int64]
    """Indexes into the lake's list of receivers, message by message, in trace order."""
    counts: NDArray[np.int64]
    """Number of receivers of each message."""
    checked: NDArray[np.int64]
    error: NDArray[np.float64]
    """The probability that anything claimed is false."""
    expected: NDArray[np.float64]
    """The expected number of false receivers."""


class Group:
    """The histories of one origin, with the lake's facts."""

    def __init__(
        self,
        facts: LakeFacts,
        filters: Sequence[LakeFilter],
        origin: int,
        span: Span,
        *,
        book: WayBook | None = None,
    ) -> None:
        """Take the filters that may have seen the origin's messages in this time; with aliases, other origins' too."""
        self.facts, self.filters, self.origin = facts, filters, origin
        self.first_ms, self.last_ms = span
        self.book = WayBook() if book is None else book
        self._names = list(self.facts.brokers)
        self._own = [each for each in self.filters if each.header.key.origin == self.origin]
        spans = [span for each in self._own for span in spans_of_index(each.header.index)]
        self._timeline = Timeline(spans, first_ms=self.first_ms, last_ms=self.last_ms)
        columns = [self._of(name, Phase.ROUTE) for name in self._names]
        origin_name = self.facts.origin_of(self.origin)
        columns.append(self._of(origin_name, Phase.PUBLISH))
        self._path = PathHistories(columns, self._timeline)
        self._path_logs = [self._timeline.sums(log_silence(filters)) for filters in columns]
        self._deliveries = {
            name: BrokerDeliveries(broker, self._of(name, Phase.DELIVER), self._timeline, self.facts.slack_ms)
            for name, broker in self.facts.brokers.items()
        }
        self._eras = Timeline(self._era_spans(), first_ms=self.first_ms, last_ms=self.last_ms)
        self._made: dict[int, tuple[Era, int]] = {}

    def trace(self, high: Column, low: Column, aliases: Aliases | None = None) -> Iterator[Traced]:
        """Trace messages of this origin and time; those with aliases, and in tangled eras, come last."""
        order = np.argsort(low, kind="stable")
        aliased = _aliased(high, low, aliases or {})
        odd = [order[aliased[order]]]
        order = order[~aliased[order]]
        for start in range(0, len(order), BLOCK):
            rows = order[start : start + BLOCK]
            times = (low[rows] >> np.uint64(16)).astype(np.int64)
            eras = self._eras.segments(times)
            tangled = np.isin(eras, [each for each in np.unique(eras).tolist() if self._era(each)[0].is_tangled])
            odd.append(rows[tangled])
            plain = rows[~tangled]
            if len(plain):
                yield self._block(plain, high[plain], low[plain], eras[~tangled])
        left = np.concatenate(odd)
        if len(left):
            yield self._one_by_one(left, high[left], low[left], aliases or {})

    # --- one block

    def _block(self, rows: NDArray[np.intp], high: Column, low: Column, eras: NDArray[np.intp]) -> Traced:
        times = (low >> np.uint64(16)).astype(np.int64)
        block = Block(high, low, times, self._timeline.segments(times))
        claims = self._path.claims(high, low, block.segments)
        ways, way = self._ways(claims, eras)
        made = Traced(
            rows,
            ways,
            way,
            receivers=np.zeros(0, dtype=np.int64),
            counts=np.zeros(len(rows), dtype=np.int64),
            checked=np.zeros(len(rows), dtype=np.int64),
            error=np.zeros(len(rows)),
            expected=np.zeros(len(rows)),
        )
        logs = self._path_log(block, ways, way)
        found: list[tuple[NDArray[np.intp], NDArray[np.int64], str]] = []
        for column, name in enumerate(self._names):
            looked = np.array([name in each.looked for each in ways])[way]
            (here,) = np.nonzero(looked)
            if not len(here) or not self._deliveries[name].names:
                continue
            until_ms = partial(self._until_ms, column, name, here)
            received = self._deliveries[name].received(block.at(here), until_ms)
            logs[here] += received.log_right
            made.checked[here] += received.checked
            listed = np.array([name in each.listed for each in ways])[way[here]]
            made.expected[here] += np.where(listed, received.expected, 0.0)
            each = received.hits.shape[1]
            row, subscriber = np.divmod(np.flatnonzero(received.hits & listed[:, None]), each)
            found.append((here[row], self._numbered(name)[subscriber], name))
        made.error = -np.expm1(logs)
        _put_receivers(made, found)
        return made

    def _until_ms(self, column: int, name: str, here: NDArray[np.intp]) -> NDArray[np.int64]:
        latest = self._path.added_ms(column, here, now_ms=self.facts.now_ms)
        if name == self.facts.origin_of(self.origin):
            latest = np.maximum(latest, self._path.added_ms(len(self._names), here, now_ms=self.facts.now_ms))
        return np.where(latest < 0, self.facts.now_ms, latest)

    def _path_log(self, block: Block, ways: Sequence[Way], way: NDArray[np.intp]) -> NDArray[np.float64]:
        logs = np.zeros(len(block.times))
        for column, name in enumerate(self._names):
            own = self._path_logs[column]
            if name == self.facts.origin_of(self.origin):
                own = own + self._path_logs[-1]
            if own.any():
                asked = np.array([name in each.asked for each in ways], dtype=np.float64)
                logs += asked[way] * own[block.segments]
        return logs

    def _ways(self, claims: NDArray[np.bool_], eras: NDArray[np.intp]) -> tuple[list[Way], NDArray[np.intp]]:
        """The distinct ways of a block, and the index of each message's way."""
        codes = _codes(claims, eras)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        ways = []
        for row in first.tolist():
            era, number = self._era(int(eras[row]))
            ways.append(self.book.way_of_claims(era, number, claims[row]))
        return ways, inverse

    def _numbered(self, broker: str) -> NDArray[np.int64]:
        places = self.facts.places
        return np.array([places[broker, each] for each in self._deliveries[broker].names], dtype=np.int64)

    # --- everything else

    def _one_by_one(self, rows: NDArray[np.intp], high: Column, low: Column, aliases: Aliases) -> Traced:
        traces: list[Trace] = []
        for each in zip(high.tolist(), low.tolist(), strict=True):
            traces.append(trace_one(self.facts, self.filters, MessageId.from_halves(*each), aliases.get(each, ())))
        receivers = [self.facts.places[receiver] for trace in traces for receiver in trace.receivers]
        checked = [sum(hop.answer.receivers_checked for hop in trace.hops if hop.answer) for trace in traces]
        expected = [sum(hop.answer.delivery_fpp for hop in trace.hops if hop.answer) for trace in traces]
        return Traced(
            rows,
            [way_of(trace) for trace in traces],
            np.arange(len(traces)),
            np.array(receivers, dtype=np.int64),
            np.array([len(trace.receivers) for trace in traces], dtype=np.int64),
            np.array(checked, dtype=np.int64),
            np.array([trace.error_probability for trace in traces]),
            np.array(expected, dtype=np.float64),
        )

    def _of(self, broker: str, phase: Phase) -> list[LakeFilter]:
        return [each for each in self._own if each.broker == broker and each.header.key.phase is phase]

    def _era(self, place: int) -> tuple[Era, int]:
        """The era of a segment, with its number in the book."""
        if place not in self._made:
            era = make_era(self.facts, self._own, self.origin, self._eras.starts()[place])
            self._made[place] = era, self.book.era_number(era)
        return self._made[place]

    def _era_spans(self) -> Iterator[Span]:
        """Spans whose ends change what the absence of a claim means."""
        for broker in self.facts.brokers.values():
            yield from _broker_spans(broker, self.facts.slack_ms)
        for each in self._own:
            if each.is_damaged:
                yield from spans_of_index(each.header.index)


def _aliased(high: Column, low: Column, aliases: Aliases) -> NDArray[np.bool_]:
    found = np.isin(low, np.array([each for _, each in aliases], dtype=np.uint64))
    for row in np.nonzero(found)[0].tolist():
        found[row] = (int(high[row]), int(low[row])) in aliases
    return found


def _broker_spans(broker: BrokerFacts, slack_ms: int) -> Iterator[Span]:
    yield 0, (broker.known_since_ms or 0) - 1
    yield 0, broker.attachments_since_ms - 1
    yield 0, broker.aliases_since_ms - 1
    for _, last_ms in broker.links:
        yield 0, min(last_ms + slack_ms, TIME_MAX)
    for gap in broker.gaps:
        yield from gap.spans


def _codes(claims: NDArray[np.bool_], eras: NDArray[np.intp]) -> NDArray[np.int64]:
    """A number for each message, equal for those with the same claims in the same era."""
    codes = eras.astype(np.int64)
    for start in range(0, claims.shape[1], 32):
        some = claims[:, start : start + 32]
        word = some @ (1 << np.arange(some.shape[1], dtype=np.int64))
        # There are few distinct codes, so they can be renumbered before the next columns are added.
        _, codes = np.unique(codes, return_inverse=True)
        codes = codes.astype(np.int64) << 32 | word
    return codes


def _put_receivers(made: Traced, found: Sequence[tuple[NDArray[np.intp], NDArray[np.int64], str]]) -> None:
    """Sort the receivers of all brokers into trace order: by message, then as its way lists the brokers."""
    if not found:
        return
    rows = np.concatenate([each for each, _, _ in found])
    # By way, the rank of each listed broker; unlisted brokers have no receivers.
    ranks = np.array([_ranks(each, [name for _, _, name in found]) for each in made.ways])
    keys = [own * (ranks.max() + 1) + ranks[made.way[own], place] for place, (own, _, _) in enumerate(found)]
    # Each broker's keys are already sorted, and merging a few runs is quick.
    order = np.argsort(np.concatenate(keys), kind="stable")
    made.receivers = np.concatenate([each for _, each, _ in found])[order]
    made.counts = np.bincount(rows, minlength=len(made.counts))


def _ranks(way: Way, brokers: Sequence[str]) -> list[int]:
    places = {broker: place for place, broker in enumerate(way.listed)}
    return [places.get(each, len(places)) for each in brokers]
