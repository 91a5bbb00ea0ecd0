"""The guard: what a step that balances one metric may do to the others (ours, for [PADRES] section 5).

Differences of other metrics are free up to the guard, a share of their triggers. Beyond it a step may drive them apart
only by less than half of what it brings its own metric together, never beyond halfway from the guard to the trigger,
and not at all where they already are beyond that. So the *potential*, the sum of what is beyond the guards, falls with
every step that begins beyond its own guard, and rises with none: the three algorithms cannot undo each other in a
cycle. The sum of what is beyond the triggers, which starts sessions, falls likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.balancing.detection import Triggers
from penstock.balancing.metrics import Metric

__all__ = ["Differences", "Guard"]

Differences = Mapping[Metric, Any]
"""By how much the offloading broker is above the partner; numbers, or arrays for many cases at once."""
_PRICE: Final = 0.5
"""What others may lose of what a step gains."""
_ROUNDING: Final = 1e-12


@dataclass(slots=True, frozen=True)
class Guard:
    """What is free, what has its price, and what is forbidden."""

    share: float
    """Of its trigger, up to which a difference is free."""
    triggers: Triggers

    def free(self, metric: Metric) -> float:
        """The difference up to which a metric costs nothing."""
        return self.share * self.triggers.of(metric)

    def limits(self, metric: Metric, now: Any) -> tuple[Any, Any]:
        """Between what the difference of a metric must stay that is not balanced now."""
        most = (1 + self.share) / 2 * self.triggers.of(metric)
        return np.minimum(now, -most), np.maximum(now, most)

    def potential(self, differences: Differences) -> Any:
        """What is beyond the guards, of all these metrics together."""
        return sum(np.maximum(np.abs(each) - self.free(metric), 0.0) for metric, each in differences.items())

    def allows(self, metric: Metric, before: Differences, after: Differences) -> npt.NDArray[np.bool_]:
        """Where a step that balances the metric leads from one set of differences to another that is allowed."""
        others = [other for other in after if other is not metric]
        gain = self.potential({metric: before[metric]}) - self.potential({metric: after[metric]})
        loss = sum(
            np.maximum(self.potential({other: after[other]}) - self.potential({other: before[other]}), 0.0)
            for other in others
        )
        sound = np.asarray(loss <= _PRICE * np.maximum(gain, 0.0) + _ROUNDING)
        for other in others:
            least, most = self.limits(other, before[other])
            sound &= (after[other] >= least - _ROUNDING) & (after[other] <= most + _ROUNDING)
        return sound
