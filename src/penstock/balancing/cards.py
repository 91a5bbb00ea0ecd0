"""Report cards: why a subscription was chosen to move ([PADRES] section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReportCard"]


@dataclass(slots=True, frozen=True)
class ReportCard:
    """What moving one unique subscription means."""

    interest: str
    """The subscription."""
    subscribers: int
    """How many of its subscribers move."""
    difference: float
    """Of the metric that is balanced, afterwards; below zero if this broker will be the less busy one."""
    is_covered: bool
    """Whether the covering set of the partner covers it."""
    rate_reduced_msg_s: float
    """By how much the input of this broker falls."""
    output_bytes_s: float
    """Output bandwidth that each of its subscribers takes."""

    def fields(self) -> dict[str, str | int]:
        """For the log: in words and whole numbers."""
        return {
            "interest": self.interest,
            "subscribers": self.subscribers,
            "difference": f"{self.difference:+.4f}",
            "covered": "yes" if self.is_covered else "no",
            "reduces_msg_s": f"{self.rate_reduced_msg_s:.3f}",
            "output_bytes_s": round(self.output_bytes_s),
        }
