"""What came of the story: what each chapter has to tell, what subscribers got, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cli.demo_verdict import Latency, Verdict
from penstock.cli.story.sampling import Sample
from penstock.cli.story.settings import StorySettings

__all__ = ["Judged", "Outcome", "Told"]


@dataclass(slots=True)
class Told:
    """What one chapter has to tell."""

    key: str
    title: str
    about: str
    """What it is about, for who has never heard of it."""
    begun_s: float = 0.0
    ended_s: float = 0.0
    lines: list[str] = field(default_factory=list)
    """What happened."""
    as_expected: bool | None = None
    """Whether it was what the chapter is to show; None if it was left out."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The same as figures."""
    drawing: str = ""
    """What is shown as it is, such as a tree."""

    @property
    def word(self) -> str:
        """In one word or two."""
        return {True: "as expected", False: "not as expected", None: "left out"}[self.as_expected]


@dataclass(slots=True, frozen=True)
class Judged:
    """One subscriber, judged."""

    name: str
    broker: str
    """Where it was in the end."""
    selector: str
    moves: int
    verdict: Verdict


@dataclass(slots=True, frozen=True)
class Outcome:
    """The whole story."""

    settings: StorySettings
    chapters: Sequence[Told]
    samples: Sequence[Sample]
    judged: Sequence[Judged]
    published: int
    latency: Latency | None
    is_audit_clean: bool | None = None
    """What Spark's audit said; None if there was none."""

    @property
    def matched(self) -> int:
        """Deliveries that there should have been."""
        return sum(each.verdict.matched for each in self.judged)

    @property
    def delivered(self) -> int:
        """Deliveries that there were."""
        return sum(each.verdict.delivered for each in self.judged)

    @property
    def lost(self) -> int:
        """Deliveries that are missing."""
        return sum(each.verdict.missing for each in self.judged)

    @property
    def duplicated(self) -> int:
        """Deliveries that are too many."""
        return sum(each.verdict.surplus for each in self.judged)

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, repeated, damaged or out of order, and the audit agrees: the exit code."""
        return all(each.verdict.is_right for each in self.judged) and self.is_audit_clean is not False

    def verdict_line(self) -> str:
        """What people want to know first."""
        out_of_order = sum(not each.verdict.in_order for each in self.judged)
        damaged = sum(each.verdict.damaged for each in self.judged)
        more = [f"damaged {damaged:,}"] if damaged else []
        more += [f"subscribers with messages out of order {out_of_order:,}"] if out_of_order else []
        counts = [f"published {self.published:,}", f"delivered {self.delivered:,}"]
        return ", ".join([*counts, f"lost {self.lost:,}", f"duplicated {self.duplicated:,}", *more])

    def as_builtins(self) -> Mapping[str, Any]:
        """For programs."""
        return {
            "good": self.is_good,
            "published": self.published,
            "matched": self.matched,
            "delivered": self.delivered,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "audit_clean": self.is_audit_clean,
            "latency": self.latency,
            "settings": self.settings,
            "chapters": self.chapters,
            "subscribers": self.judged,
        }
