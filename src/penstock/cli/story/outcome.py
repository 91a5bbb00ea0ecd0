"""Holds the outcome of the story: what each chapter reports, what subscribers received, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cli.demo_verdict import DemoVerdict, Latency
from penstock.cli.story.sampling import Sample
from penstock.cli.story.settings import StorySettings

__all__ = ["Judged", "Outcome", "Told"]


@dataclass(slots=True)
class Told:
    """The report of one chapter."""

    key: str
    title: str
    about: str
    """An introduction, for newcomers."""
    begun_s: float = 0.0
    ended_s: float = 0.0
    lines: list[str] = field(default_factory=list)
    """What happened, line by line."""
    as_expected: bool | None = None
    """Whether the chapter showed what it should; None if it was left out."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What happened, as figures."""
    drawing: str = ""
    """Preformatted text, such as a tree."""

    @property
    def word(self) -> str:
        """The result of the chapter in a word or two."""
        return {True: "as expected", False: "not as expected", None: "left out"}[self.as_expected]


@dataclass(slots=True, frozen=True)
class Judged:
    """The verdict on one subscriber."""

    name: str
    broker: str
    """Where the subscriber was in the end."""
    selector: str
    moves: int
    verdict: DemoVerdict


@dataclass(slots=True, frozen=True)
class Outcome:
    """The outcome of the whole story."""

    settings: StorySettings
    chapters: Sequence[Told]
    samples: Sequence[Sample]
    judged: Sequence[Judged]
    published: int
    latency: Latency | None
    is_audit_clean: bool | None = None
    """Whether Spark's audit found no fault; None if there was no audit."""

    @property
    def matched(self) -> int:
        """Expected deliveries."""
        return sum(each.verdict.matched for each in self.judged)

    @property
    def delivered(self) -> int:
        """Actual deliveries."""
        return sum(each.verdict.delivered for each in self.judged)

    @property
    def lost(self) -> int:
        """Missing deliveries."""
        return sum(each.verdict.missing for each in self.judged)

    @property
    def duplicated(self) -> int:
        """Surplus deliveries."""
        return sum(each.verdict.surplus for each in self.judged)

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, repeated, damaged or out of order, and the audit agrees; decides the exit code."""
        return all(each.verdict.is_right for each in self.judged) and self.is_audit_clean is not False

    def verdict_line(self) -> str:
        """The verdict in one line."""
        out_of_order = sum(not each.verdict.in_order for each in self.judged)
        damaged = sum(each.verdict.damaged for each in self.judged)
        more = [f"damaged {damaged:,}"] if damaged else []
        more += [f"subscribers with messages out of order {out_of_order:,}"] if out_of_order else []
        counts = [f"published {self.published:,}", f"delivered {self.delivered:,}"]
        return ", ".join([*counts, f"lost {self.lost:,}", f"duplicated {self.duplicated:,}", *more])

    def as_builtins(self) -> Mapping[str, Any]:
        """The outcome for programs."""
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
