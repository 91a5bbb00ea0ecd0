"""The answers of brokers about a message, and the trace that they add up to ([Tracking] section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from penstock.model.message_id import MessageId
from penstock.tracking.spans import Span

__all__ = ["Ask", "BrokerAnswer", "Evidence", "GapSeen", "Hop", "Trace", "combined", "trace_json"]


class Evidence(StrEnum):
    """What histories say about a message."""

    YES = "yes"
    """A filter claims it; wrong with a known, small probability."""
    NO = "no"
    """No filter claims it, and nothing is missing: it is certain."""
    GAP = "gap"
    """No filter claims it, but one that might have was lost."""
    UNKNOWN = "unknown"
    """No history of that time: nothing was recorded here, or it was not kept that long."""


def combined(found: list[Evidence]) -> Evidence:
    """The joint evidence of several histories: one claim is enough, but for a "no" all must be certain."""
    for evidence in (Evidence.YES, Evidence.GAP, Evidence.UNKNOWN):
        if evidence in found:
            return evidence
    return Evidence.NO


@dataclass(slots=True, frozen=True)
class GapSeen:
    """A gap in the histories that were asked."""

    broker: str
    history: str
    """The key of the history, or ``attachments``."""
    reason: str
    span: Span | None = None
    """The timestamps concerned, around that of the message."""


@dataclass(slots=True, frozen=True)
class Ask:
    """A question to one broker about the message being traced."""

    broker: str
    origins: tuple[int, ...]
    """Numbers of the brokers it may have been published at: from its id and its alias."""


@dataclass(slots=True, frozen=True)
class BrokerAnswer:
    """What one broker knows about a message."""

    broker: str
    routed: Evidence
    """The evidence of the routing histories."""
    published: Evidence = Evidence.NO
    """The evidence of the publisher history, at brokers that may be its origin."""
    delivered: Evidence = Evidence.NO
    """The evidence of the subscriber histories, which are asked unless the message certainly never came by."""
    receivers: tuple[str, ...] = ()
    """Subscribers it was delivered to."""
    receivers_checked: int = 0
    """Subscribers that may have received it, by their attachments."""
    expired: bool = False
    """Whether it expired here, before some subscriber had received it."""
    neighbours: tuple[str, ...] = ()
    """Brokers it had a link with at any time since the message was published."""
    upstream: tuple[str, ...] = ()
    """Neighbours that messages of the origin came through since then; empty if it does not know."""
    alias: tuple[str, int] | None = None
    """The broker that published it instead of the one its id names, by name and number."""
    path_fpp: float = 0.0
    """The probability that it claims by chance to have published or routed the message."""
    delivery_fpp: float = 0.0
    """The probability that it claims by chance any of the subscribers it checked."""
    evidence: tuple[str, ...] = ()
    """The filters that claim it."""
    gaps: tuple[GapSeen, ...] = ()

    @property
    def claim(self) -> Evidence:
        """Whether the message was here at all."""
        # Read many times in a search; most brokers cannot have published it.
        return self.routed if self.published is Evidence.NO else combined([self.published, self.routed])


@dataclass(slots=True, frozen=True)
class Hop:
    """One broker on the path of a message."""

    broker: str
    parent: str | None
    """The broker it came from, as far as can be told."""
    claim: Evidence
    is_counted: bool
    """Whether the claim counts: not if it is a probable false positive."""
    answer: BrokerAnswer | None
    """The broker's answer; None if it could not be asked."""


@dataclass(slots=True, frozen=True)
class Trace:
    """The path of one message."""

    message_id: MessageId
    origin: str
    """The broker that its id names."""
    published_at: str | None
    """The broker that claims to have published it; None if none does."""
    published: Evidence
    hops: tuple[Hop, ...]
    """All brokers asked that may have had it, breadth first."""
    routed_by: tuple[str, ...]
    """Kr: brokers that routed it, the publishing one included."""
    delivered_by: tuple[str, ...]
    """Ks: brokers that delivered it."""
    receivers: tuple[tuple[str, str], ...]
    """Sr: broker and subscriber."""
    probable_false_positives: tuple[str, ...]
    """Brokers that claim it, though it cannot have reached them: not counted."""
    unreachable: tuple[str, ...]
    """Brokers that could not be asked."""
    unknown: tuple[str, ...]
    """Brokers without histories of that time."""
    gaps: tuple[GapSeen, ...]
    asked: int
    """Brokers that answered."""
    error_probability: float
    """The highest probability that anything claimed here is false."""
    is_truncated: bool
    """Whether there were more brokers than may be asked."""

    @property
    def expired_at(self) -> tuple[str, ...]:
        """Brokers where it expired before some subscriber had received it."""
        return tuple(
            hop.broker for hop in self.hops if hop.is_counted and hop.answer is not None and hop.answer.expired
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be missing."""
        return not (self.unreachable or self.unknown or self.gaps or self.is_truncated)


def trace_json(trace: Trace) -> bytes:
    """Encodes a trace as JSON, for clients."""
    return msgspec.json.encode(
        {
            "message_id": str(trace.message_id),
            "published_ms": trace.message_id.timestamp_ms,
            "origin": trace.origin,
            "published_at": trace.published_at,
            "published": trace.published,
            "routed_by": trace.routed_by,
            "delivered_by": trace.delivered_by,
            "receivers": trace.receivers,
            "expired_at": trace.expired_at,
            "hops": trace.hops,
            "probable_false_positives": trace.probable_false_positives,
            "unreachable": trace.unreachable,
            "unknown": trace.unknown,
            "gaps": trace.gaps,
            "asked": trace.asked,
            "error_probability": trace.error_probability,
            "is_truncated": trace.is_truncated,
            "is_complete": trace.is_complete,
        }
    )
