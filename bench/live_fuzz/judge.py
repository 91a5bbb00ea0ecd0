"""Judges the live fuzz: reads the journals of a round, and nothing else, and reports which laws were broken.

The laws:

- *nothing lost*: a message whose tick lies between the start and the position of a chain, and that its selector
  matches, has reached the chain. So has an acknowledged message that was sent after the chain was confirmed. Both hold
  unless a notice names the tick;
- *notices are excused*: by the policy ``lapse``, or, without a durable name, by an absence of ``grace_ms``, or by an
  orderly end of the previous life;
- *nothing twice*: within a life, and over all lives where positions are stored; no message has two ticks, and no tick
  has two messages; a message that a client refused to accept never arrives;
- *in order*: ticks ascend per pubend within a life, and so do the numbers of each publisher within a pubend;
- *as selected*: judged by a Python function beside each selector;
- *as sent*: attributes and payload are those of the publisher.

Messages that were never acknowledged may arrive, once. One that reached anybody counts for everybody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.live_fuzz.journal import read_journal
from bench.live_fuzz.plan import Limits, RoundPlan
from bench.live_fuzz.quotes import SELECTORS
from bench.live_fuzz.testimony import Chain, Life, MessageKey, Sent, chains_of, sent_by

__all__ = ["FuzzVerdict", "judge", "judge_round"]

_SLACK_MS: Final = 3_000
"""Positions are sent about once a second at each of two hops, so a pubend learns of a move only somewhat later."""
_RETAINED: Final = Limits()
"""Limits that keep any log from being trimmed within a round."""


@dataclass(slots=True)
class FuzzVerdict:
    """The verdict on a round."""

    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge_round(plan: RoundPlan, folder: Path) -> FuzzVerdict:
    """Judge the journals in the folder of a round."""
    counts: Counter[str] = Counter()
    sent: dict[MessageKey, Sent] = {}
    crashes: list[str] = []
    for publisher in plan.publishers:
        lines = read_journal(folder / f"{publisher.name}.jsonl")
        sent |= sent_by(lines, counts)
        crashes += [f"{publisher.name} crashed: {line[2]}" for line in lines if line[0] == "crash"]
    chains: list[Chain] = []
    for subscriber in plan.subscribers:
        lines = read_journal(folder / f"{subscriber.name}.jsonl")
        chains += chains_of(subscriber, lines, counts)
        crashes += [f"{subscriber.name} crashed: {line[2]}" for line in lines if line[0] == "crash"]
    verdict = judge(plan, sent, chains)
    verdict.faults += crashes
    verdict.counts += counts
    return verdict


def judge(plan: RoundPlan, sent: Mapping[MessageKey, Sent], chains: Sequence[Chain]) -> FuzzVerdict:
    """Judge what was sent and what was read."""
    return _Judge(plan, sent, chains).verdict()


class _Judge:
    def __init__(self, plan: RoundPlan, sent: Mapping[MessageKey, Sent], chains: Sequence[Chain]) -> None:
        self._plan, self._sent, self._chains = plan, sent, chains
        self._faults: list[str] = []
        self._counts: Counter[str] = Counter()
        self._places: dict[MessageKey, tuple[str, int]] = {}
        """Pubend and tick of every message that reached anybody."""
        self._hosts = {pubend: name for name, pubends in plan.pubends.items() for pubend in pubends}

    def verdict(self) -> FuzzVerdict:
        self._place_messages()
        streams = self._streams()
        self._check_publisher_order(streams)
        for chain in self._chains:
            for life in chain.lives:
                self._check_life(chain, life)
            self._check_twice(chain)
            self._check_notices(chain)
            self._check_coverage(chain, streams)
            self._check_confirmed(chain)
        self._counts["sent"] = len(self._sent)
        self._counts["acknowledged"] = sum(message.fate == "acked" for message in self._sent.values())
        return FuzzVerdict(self._faults, self._counts)

    def _blame(self, chain: Chain, what: str) -> None:
        self._faults.append(f"{chain.name} ({chain.plan.keeping}, {SELECTORS[chain.plan.selector].text}): {what}")

    # What holds for all subscribers together.

    def _place_messages(self) -> None:
        """Find the tick of each message; nobody may have seen it at another tick."""
        at_place: dict[tuple[str, int], MessageKey] = {}
        for chain in self._chains:
            for life in chain.lives:
                for pubend, tick, publisher, n in life.got:
                    key, place = (publisher, n), (pubend, tick)
                    if self._places.setdefault(key, place) != place:
                        self._blame(chain, f"message {key} is at {place}, and at {self._places[key]} elsewhere")
                    if at_place.setdefault(place, key) != key:
                        self._blame(chain, f"{place} is message {key}, and {at_place[place]} elsewhere")

    def _streams(self) -> dict[str, list[tuple[int, MessageKey]]]:
        """The messages of each pubend, in the order of their ticks."""
        streams: dict[str, list[tuple[int, MessageKey]]] = {pubend: [] for pubend in self._hosts}
        for key, (pubend, tick) in self._places.items():
            streams.setdefault(pubend, []).append((tick, key))
        for stream in streams.values():
            stream.sort()
        return streams

    def _check_publisher_order(self, streams: Mapping[str, list[tuple[int, MessageKey]]]) -> None:
        for pubend, stream in streams.items():
            highest: dict[str, int] = {}
            for tick, (publisher, n) in stream:
                before = highest.get(publisher, 0)
                if n < before:
                    self._faults.append(f"{pubend}: {publisher}/{n} at tick {tick} comes after {publisher}/{before}")
                highest[publisher] = max(n, before)

    # What holds for each life.

    def _check_life(self, chain: Chain, life: Life) -> None:
        self._counts["delivered"] += len(life.got)
        self._counts["lives"] += 1
        for what in life.strange:
            self._blame(chain, f"nobody published {what}")
        fits = SELECTORS[chain.plan.selector].fits
        ticks: dict[str, int] = {}
        for pubend, tick, publisher, n in life.got:
            message = self._sent.get((publisher, n))
            if message is None:
                self._blame(chain, f"nobody published {publisher}/{n}")
                continue
            if message.fate == "blocked":
                self._blame(chain, f"{publisher}/{n} came although its client had refused to take it")
            if not fits(message.quote):
                self._blame(chain, f"{publisher}/{n} does not fit: {message.quote}")
            if message.pubend not in {"", pubend}:
                self._blame(chain, f"{publisher}/{n} came from {pubend}, and was published to {message.pubend}")
            if tick <= ticks.get(pubend, -1):
                self._blame(chain, f"{publisher}/{n}: tick {tick} of {pubend} comes after {ticks[pubend]}")
            if tick < life.starts.get(pubend, 0):
                self._blame(chain, f"{publisher}/{n}: tick {tick} of {pubend} is below the start {life.starts[pubend]}")
            ticks[pubend] = tick

    # What holds for each chain.

    def _check_twice(self, chain: Chain) -> None:
        lives = [[row for life in chain.lives for row in life.got]] if chain.is_exact else [x.got for x in chain.lives]
        for rows in lives:
            repeated = [key for key, count in Counter(row[2:] for row in rows).items() if count > 1]
            if repeated:
                self._blame(chain, f"{len(repeated)} messages came twice, the first is {repeated[0]}")

    def _check_notices(self, chain: Chain) -> None:
        for number, life in enumerate(chain.lives):
            for lost in life.lost:
                if self._is_excused(chain, number, lost.pubend, lost.at_ms):
                    self._counts["excused notices"] += 1
                else:
                    absence_ms = chain.absence_ms(lost.pubend, lost.at_ms)
                    self._blame(chain, f"{lost} is not excused: its position stood still for {absence_ms} ms")
            if life.refused and not self._is_refusal_excused(chain, number):
                self._blame(chain, f"life {number} was refused: {life.refused}")

    def _is_refusal_excused(self, chain: Chain, number: int) -> bool:
        life = chain.lives[number]
        if life.refused.startswith("TakenOverError"):
            return False
        return any(self._is_excused(chain, number, pubend, life.refused_ms) for pubend in self._hosts)

    def _is_excused(self, chain: Chain, number: int, pubend: str, at_ms: int) -> bool:
        """Whether a subscription had to expect that messages it has not read are trimmed."""
        limits = self._plan.limits
        if limits.retain_policy == "lapse":
            return True
        is_kept = limits.retain_ms == _RETAINED.retain_ms and limits.retain_bytes_max == _RETAINED.retain_bytes_max
        if chain.is_durable or is_kept:
            return False
        grace_ms = limits.grace_ms // 2 if "restart-grace" in self._plan.off else limits.grace_ms
        has_left = number > 0 and chain.lives[number - 1].left
        return has_left or chain.absence_ms(pubend, at_ms) >= grace_ms - _SLACK_MS

    def _check_coverage(self, chain: Chain, streams: Mapping[str, list[tuple[int, MessageKey]]]) -> None:
        """Check that everything between start and position has arrived, or is named as lost."""
        got = {row[2:] for life in chain.lives for row in life.got}
        fits = SELECTORS[chain.plan.selector].fits
        for pubend, stream in streams.items():
            begin, end = chain.begin(pubend), chain.end(pubend)
            if begin is None:
                continue
            told = [*self._told(chain, pubend), *self._skipped(chain, pubend)]
            first, last = bisect_left(stream, (begin, ("", 0))), bisect_left(stream, (end, ("", 0)))
            missing = [
                (tick, key)
                for tick, key in stream[first:last]
                if key not in got and key in self._sent and fits(self._sent[key].quote)
            ]
            silent = [(tick, key) for tick, key in missing if not _is_in(tick, told)]
            self._counts["told lost"] += len(missing) - len(silent)
            if silent:
                tick, key = silent[0]
                self._blame(
                    chain,
                    f"{len(silent)} messages of {pubend} between {begin} and {end} are missing without a notice, "
                    f"the first is {key} ({self._sent[key].fate}) at tick {tick}",
                )

    def _told(self, chain: Chain, pubend: str) -> list[tuple[int, int]]:
        return [(lost.first, lost.last) for life in chain.lives for lost in life.lost if lost.pubend == pubend]

    def _skipped(self, chain: Chain, pubend: str) -> list[tuple[int, int]]:
        """Gaps between lives that only ``starts`` reveals: the log no longer keeps the stored positions."""
        if chain.is_durable:
            is_lenient = "lapsed-resume" in self._plan.off and self._plan.limits.retain_policy == "lapse"
            return [(0, chain.end(pubend))] if is_lenient else []
        gaps: list[tuple[int, int]] = []
        for number, life in enumerate(chain.lives):
            if number > 0 and pubend in life.starts and life.missing != "fail" and isinstance(life.start, dict):
                confirmed_ms = life.confirmed_ms[pubend]
                asked = life.start.get(pubend, 0)
                if asked < life.starts[pubend] and self._is_excused(chain, number, pubend, confirmed_ms):
                    gaps.append((asked, life.starts[pubend] - 1))
        return gaps

    def _check_confirmed(self, chain: Chain) -> None:
        """Check that a chain that read to the end has every acknowledged message sent after it was confirmed."""
        if not chain.lives[-1].ended:
            return
        got = {row[2:] for life in chain.lives for row in life.got}
        fits = SELECTORS[chain.plan.selector].fits
        confirmed_ms = self._confirmed_ms(chain)
        missing: list[MessageKey] = []
        for key, message in self._sent.items():
            # Coverage has judged messages whose ticks are known.
            if message.fate != "acked" or key in got or key in self._places or not fits(message.quote):
                continue
            pubends = [message.pubend] if message.pubend else self._pubends_of(key)
            if not all(confirmed_ms.get(pubend, message.at_ms + 1) < message.at_ms for pubend in pubends):
                continue
            # Its tick is unknown; where ticks are lost, it may be among them.
            if not any(self._told(chain, pubend) or self._skipped(chain, pubend) for pubend in pubends):
                missing.append(key)
        if missing:
            self._blame(
                chain, f"{len(missing)} messages were acknowledged and came to nobody, the first is {missing[0]}"
            )

    def _confirmed_ms(self, chain: Chain) -> dict[str, int]:
        confirmed: dict[str, int] = {}
        for life in chain.lives:
            for pubend, at_ms in life.confirmed_ms.items():
                confirmed.setdefault(pubend, at_ms)
        return confirmed

    def _pubends_of(self, key: MessageKey) -> Sequence[str]:
        """The pubends from which the client of a message could choose."""
        plans = [plan for plan in self._plan.publishers if key[0].split(".")[0] == plan.name]
        return [pubend for plan in plans for broker in plan.brokers for pubend in self._plan.pubends[broker]]


def _is_in(tick: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= tick <= last for first, last in ranges)
