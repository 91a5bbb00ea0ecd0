"""What came of one seed of the campaign against guaranteed delivery: figures, the kind of failure, and its story.

A failure is one of three, told apart: a *crash* (an exception in a broker, or a client's protest at what it was sent),
a *broken law* (lost, twice, out of order, not as selected, more memory than allowed) or a *lack of progress*.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.sim.faults import Blow
from penstock.sim.verdict import Verdict

__all__ = ["DeliveryRun", "Failure"]

_BLOWS_TOLD: Final = 60
_LINES_TOLD: Final = 60


class Failure(StrEnum):
    """How a run failed, the worst first."""

    CRASH = "crash"
    BROKEN_LAW = "broken law"
    NO_PROGRESS = "lack of progress"


@dataclass(slots=True)
class DeliveryRun:
    """What came of one seed."""

    seed: str
    plan: list[str] = field(default_factory=list)
    """The overlay and its limits, readable."""
    simulated_ms: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    faults: Counter[str] = field(default_factory=Counter)
    timeline: list[Blow] = field(default_factory=list)
    """What went wrong and was repaired, and when."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often which path was taken, over all lives of all brokers."""
    crash: str = ""
    """The exception and where it came from, if there was one."""
    exceeded: list[str] = field(default_factory=list)
    """Limits of memory that were not kept."""
    unconverged: str = ""
    """What had not come to rest, if something had not."""
    digest: str = ""
    lines: list[str] = field(default_factory=list)
    """The end of the trace; only of a run that failed."""

    @property
    def failure(self) -> Failure | None:
        """How it failed, if it did; the worst of it."""
        if self.crash:
            return Failure.CRASH
        verdict = self.verdict
        # What has not come yet is lost only where everything has come to rest.
        lost = 0 if self.unconverged else verdict.lost
        if self.exceeded or lost or verdict.duplicated or verdict.reordered or verdict.wrongly_filtered:
            return Failure.BROKEN_LAW
        return Failure.NO_PROGRESS if self.unconverged else None

    @property
    def is_sound(self) -> bool:
        """Whether all laws held, and the overlay converged."""
        return self.failure is None

    @property
    def complaint(self) -> str:
        """What was wrong, in a line; empty if nothing was."""
        if self.crash:
            return self.crash.splitlines()[-1]
        if self.failure is Failure.NO_PROGRESS:
            return self.unconverged
        return next(iter([*self.exceeded, *self.verdict.problems]), "")

    def story(self) -> str:
        """What a person needs to understand the run: the overlay, what happened to it, and what came of it."""
        failure = self.failure
        title = (
            f"seed {self.seed}: {failure.value if failure else 'sound'}, {self.simulated_ms / 1_000:.1f} s simulated"
        )
        told = self.timeline[-_BLOWS_TOLD:]
        parts = [
            [title],
            _headed("overlay", self.plan),
            _headed("timeline", [f"{blow.at_ms / 1_000:9.3f} {blow.what}" for blow in told]),
            _headed("crash", self.crash.splitlines()),
            _headed("limits that were not kept", self.exceeded),
            _headed("broken laws", self.verdict.problems),
            _headed("not at rest", [self.unconverged] if self.unconverged else []),
            _headed("the end of the trace, for those concerned", self._relevant_lines() if failure else []),
        ]
        return "\n".join(line for part in parts for line in part)

    def _relevant_lines(self) -> list[str]:
        """The last lines of the trace that are about those whom the complaint names; of all, if it names nobody."""
        named = set(re.findall(r"\b(?:pub-\d+|sub-\d+|dur-\d+|b\d+)\b", self.complaint))
        about = [line for line in self.lines if named & set(line.split()[1:2])]
        return (about or self.lines)[-_LINES_TOLD:]


def _headed(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"  {heading}:", *(f"    {line}" for line in lines)] if lines else []
