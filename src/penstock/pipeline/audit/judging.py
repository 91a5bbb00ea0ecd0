"""Judges one message: who should have received it, who did, and who acknowledged it.

Only an acknowledged message can be lost: any other may still be on its way. A missing delivery counts as lost if the
records of its brokers have no gap there; otherwise nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.pipeline.audit.subscribers import Audited, Subscribers

__all__ = ["Finding", "Judgement", "Seen", "judge"]


class Judgement(StrEnum):
    """The state of one message for one subscriber."""

    DELIVERED = "delivered"
    """Expected, acknowledged, and on record."""
    OUTSTANDING = "outstanding"
    """Expected, but not acknowledged yet."""
    IN_GAP = "in-gap"
    """Acknowledged, but records that might show the delivery are missing, and declared so."""
    EXPIRED = "expired"
    """Acknowledged and not on record, but the message had a lifetime, which may have been over."""
    LOST = "lost"
    """Acknowledged, but complete records do not show the delivery."""
    DUPLICATED = "duplicated"
    """Received more often than the subscriber's attachments allow."""
    UNEXPECTED = "unexpected"
    """Received, though the subscriber never asked for anything like it."""
    UNEXPLAINED = "unexplained"
    """Acknowledged, but there is no history at all of the subscriber's deliveries at that time."""


@dataclass(slots=True, frozen=True)
class Seen:
    """Everything known about one message."""

    tick: int
    pubend: str
    matching: frozenset[int]
    """Indexes of the selectors that match it."""
    receivers: Sequence[tuple[str, str]]
    """Pairs of broker and subscriber it was delivered to, according to the records."""
    doubtful: frozenset[str]
    """Brokers whose records may be incomplete."""
    published_ms: int = 0
    """The time in the message's identifier."""
    expires: bool = False
    """Whether the message has a lifetime."""


@dataclass(slots=True, frozen=True)
class Finding:
    """A judgement about one subscriber."""

    judgement: Judgement
    subscriber: str
    brokers: tuple[str, ...] = ()


def judge(seen: Seen, subscribers: Subscribers) -> Iterable[Finding]:
    """Judge the message for every subscriber it concerns."""
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
    if seen.expires:
        return Finding(Judgement.EXPIRED, each.name, tuple(sorted(hosts)))
    judgement = Judgement.IN_GAP if hosts & seen.doubtful else Judgement.LOST
    return Finding(judgement, each.name, tuple(sorted(hosts)))
