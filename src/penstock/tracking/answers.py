"""What brokers answer when they are asked about a message, and what the answers come to ([Tracking] section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.model.message_id import MessageId
from penstock.tracking.spans import Span

__all__ = ["Ask", "BrokerAnswer", "GapSeen", "Hop", "Trace", "Verdict", "combined"]


class Verdict(StrEnum):
    """What histories say of a message."""

    YES = "yes"
    """A filter claims it; wrong with a known, small probability."""
    NO = "no"
    """No filter claims it, and nothing is missing: it is certain."""
    GAP = "gap"
    """No filter claims it, but something was lost that might have."""
    UNKNOWN = "unknown"
    """There is no history of that time: nothing is recorded here, or not kept for so long."""


def combined(verdicts: list[Verdict]) -> Verdict:
    """What several histories say together: one that claims it is enough, and for a no all must be certain."""
    for verdict in (Verdict.YES, Verdict.GAP, Verdict.UNKNOWN):
        if verdict in verdicts:
            return verdict
    return Verdict.NO


@dataclass(slots=True, frozen=True)
class GapSeen:
    """Something is missing in the histories that were asked."""

    broker: str
    history: str
    """The key of the history, or ``attachments``."""
    reason: str
    span: Span | None = None
    """The timestamps concerned, around that of the message."""


@dataclass(slots=True, frozen=True)
class Ask:
    """A question to one broker about the message that is traced."""

    broker: str
    origins: tuple[int, ...]
    """Numbers of the brokers it may have been published at: that of its id, and of its alias."""


@dataclass(slots=True, frozen=True)
class BrokerAnswer:
    """What one broker knows of a message."""

    broker: str
    routed: Verdict
    """From the routing histories."""
    published: Verdict = Verdict.NO
    """From the publisher history, at brokers that may be its origin."""
    delivered: Verdict = Verdict.NO
    """From the subscriber histories, which are asked unless it certainly never came by."""
    receivers: tuple[str, ...] = ()
    """Subscribers it was delivered to."""
    receivers_checked: int = 0
    """Subscribers that may have received it, by their attachments."""
    neighbours: tuple[str, ...] = ()
    """Brokers with which it had a link at any time since the message was published."""
    upstream: tuple[str, ...] = ()
    """Those of them through which messages of the origin came since; empty if it does not know."""
    alias: tuple[str, int] | None = None
    """The broker that published it instead of the one its id names, by name and number."""
    path_fpp: float = 0.0
    """The probability that its claim to have published or routed it is false, if it is made by chance."""
    delivery_fpp: float = 0.0
    """The probability that any of the subscribers it checked is claimed by chance."""
    evidence: tuple[str, ...] = ()
    """The filters that claim it."""
    gaps: tuple[GapSeen, ...] = ()

    @property
    def claim(self) -> Verdict:
        """Whether the message was here at all."""
        # Asked for many times in a search; most brokers cannot have published it.
        return self.routed if self.published is Verdict.NO else combined([self.published, self.routed])


@dataclass(slots=True, frozen=True)
class Hop:
    """One broker on the way of a message."""

    broker: str
    parent: str | None
    """The broker it came from, as far as can be told."""
    claim: Verdict
    is_counted: bool
    """Whether the claim stands; not if it is a probable false positive."""
    answer: BrokerAnswer | None
    """Its evidence; None if it could not be asked."""


@dataclass(slots=True, frozen=True)
class Trace:
    """The way of one message."""

    message_id: MessageId
    origin: str
    """The broker that its id names."""
    published_at: str | None
    """The broker that claims to have published it; None if none does."""
    published: Verdict
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
    def is_complete(self) -> bool:
        """Whether nothing can be missing."""
        return not (self.unreachable or self.unknown or self.gaps or self.is_truncated)
