"""Report cards: why a subscription was chosen to move ([PADRES] section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReportCard"]


@dataclass(slots=True, frozen=True)
class ReportCard:
    """The effect of moving one unique subscription."""

    interest: str
    """The subscription."""
    subscribers: int
    """How many of its subscribers move."""
    difference: float
    """The difference left in the metric being balanced; negative if this broker will be the less busy one."""
    is_covered: bool
    """Whether the partner's covering set covers it."""
    rate_reduced_msg_s: float
    """How much this broker's input falls."""
    output_bytes_s: float
    """Output bandwidth each of its subscribers uses."""

    def fields(self) -> dict[str, str | int]:
        """The card for the log, in words and whole numbers."""
        return {
            "interest": self.interest,
            "subscribers": self.subscribers,
            "difference": f"{self.difference:+.4f}",
            "covered": "yes" if self.is_covered else "no",
            "reduces_msg_s": f"{self.rate_reduced_msg_s:.3f}",
            "output_bytes_s": round(self.output_bytes_s),
        }
