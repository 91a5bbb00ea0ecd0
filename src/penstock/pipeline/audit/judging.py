"""Judges one message: who should have received it, who did, and who says that it has.

Only what a subscription has acknowledged can be lost: the rest may be on its way. A missing delivery counts as lost if
the records of its brokers have no gap there; otherwise nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.pipeline.audit.subscribers import Audited, Subscribers

__all__ = ["Finding", "Judgement", "Seen", "judge"]


class Judgement(StrEnum):
    """What a message is to a subscriber."""

    DELIVERED = "delivered"
    """It should have received it, has acknowledged it, and it is on record."""
    OUTSTANDING = "outstanding"
    """It should receive it, and has not acknowledged it yet."""
    IN_GAP = "in-gap"
    """It has acknowledged it; records that might have it are missing, and say so."""
    LOST = "lost"
    """It has acknowledged it, but complete records do not have it."""
    DUPLICATED = "duplicated"
    """It received it more often than it was attached for."""
    UNEXPECTED = "unexpected"
    """It received it, though it never asked for anything like it."""
    UNEXPLAINED = "unexplained"
    """It has acknowledged it, and there is no history at all of what it received then."""


@dataclass(slots=True, frozen=True)
class Seen:
    """What is known of one message."""

    tick: int
    pubend: str
    matching: frozenset[int]
    """Places of the selectors that match it."""
    receivers: Sequence[tuple[str, str]]
    """Brokers and subscribers that it was delivered to, by the records."""
    doubtful: frozenset[str]
    """Brokers whose records may be incomplete."""
    published_ms: int = 0
    """The time in its identifier."""


@dataclass(slots=True, frozen=True)
class Finding:
    """A judgement about one subscriber."""

    judgement: Judgement
    subscriber: str
    brokers: tuple[str, ...] = ()


def judge(seen: Seen, subscribers: Subscribers) -> Iterable[Finding]:
    """What the message is to all whom it concerns."""
    received: dict[str, list[str]] = {}
    for broker, name in seen.receivers:
        received.setdefault(name, []).append(broker)
    for each in subscribers.durable():
        if _is_expected(each, seen, subscribers.slack_ms):
            yield _expected(each, seen, received.get(each.name, []), subscribers.slack_ms)
    for name, brokers in received.items():
        known = subscribers.by_name.get(name)
        if known is not None and _is_unasked(known, seen):
            yield Finding(Judgement.UNEXPECTED, name, tuple(brokers))


def _is_expected(each: Audited, seen: Seen, slack_ms: int) -> bool:
    asked = [attached.selector for attached in each.attached]
    return all(place in seen.matching for place in asked) and each.is_due(seen.pubend, seen.tick, slack_ms)


def _is_unasked(each: Audited, seen: Seen) -> bool:
    return not any(attached.selector is None or attached.selector in seen.matching for attached in each.attached)


def _expected(each: Audited, seen: Seen, brokers: Sequence[str], slack_ms: int) -> Finding:
    acknowledged = each.acknowledged.get(seen.pubend)
    if len(brokers) > each.deliveries_max(seen.pubend, seen.tick, seen.published_ms, slack_ms):
        return Finding(Judgement.DUPLICATED, each.name, tuple(brokers))
    if acknowledged is None or seen.tick >= acknowledged:
        return Finding(Judgement.OUTSTANDING, each.name)
    if brokers:
        return Finding(Judgement.DELIVERED, each.name, tuple(brokers))
    hosts = each.hosts()
    judgement = Judgement.IN_GAP if hosts & seen.doubtful else Judgement.LOST
    return Finding(judgement, each.name, tuple(sorted(hosts)))
