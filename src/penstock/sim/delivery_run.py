"""The outcome of one seed of the campaign against guaranteed delivery: figures, the kind of failure, and its story.

There are three kinds of failure: a *crash* (an exception in a broker, or a client's protest at what it was sent), a
*broken law* (lost, duplicated, out of order, not as selected, more memory than allowed) and a *lack of progress*.
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
    """The outcome of one seed."""

    seed: str
    plan: list[str] = field(default_factory=list)
    """The overlay and its limits, readable."""
    simulated_ms: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    faults: Counter[str] = field(default_factory=Counter)
    timeline: list[Blow] = field(default_factory=list)
    """Blows and repairs, with their times."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often each path was taken, over all lives of all brokers."""
    crash: str = ""
    """The exception and where it came from, if there was one."""
    exceeded: list[str] = field(default_factory=list)
    """Memory limits that were exceeded."""
    unconverged: str = ""
    """What did not come to rest; empty if everything did."""
    digest: str = ""
    lines: list[str] = field(default_factory=list)
    """The end of the trace; only for a run that failed."""

    @property
    def failure(self) -> Failure | None:
        """The worst way in which the run failed, if it did."""
        if self.crash:
            return Failure.CRASH
        verdict = self.verdict
        # A message that has not come counts as lost only if everything has come to rest.
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
        """What was wrong, in one line; empty if nothing was."""
        if self.crash:
            return self.crash.splitlines()[-1]
        if self.failure is Failure.NO_PROGRESS:
            return self.unconverged
        return next(iter([*self.exceeded, *self.verdict.problems]), "")

    def story(self) -> str:
        """The run told for people: the overlay, what happened to it, and how it ended."""
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
        """The last lines of the trace about brokers and clients the complaint names; about all, if it names none."""
        named = set(re.findall(r"\b(?:pub-\d+|sub-\d+|dur-\d+|work-\d+|b\d+)\b", self.complaint))
        about = [line for line in self.lines if named & set(line.split()[1:2])]
        return (about or self.lines)[-_LINES_TOLD:]


def _headed(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"  {heading}:", *(f"    {line}" for line in lines)] if lines else []
