"""The states of a broker or a cluster in balancing, as one table ([PADRES] section 3.2, figure 4).

Figure 4 is a picture, missing from the text; the table is the specification's. A transition not listed cannot happen.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["TRANSITIONS", "State", "Stimulus", "after"]


class State(Enum):
    """Whether a broker or cluster is available for balancing."""

    OK = "OK"
    BUSY = "BUSY"
    NOT_AVAILABLE = "N/A"
    STABILIZING = "STABILIZING"


class Stimulus(Enum):
    """Events that may change a state."""

    OFFLOADS = "a session starts in which it offloads"
    OFFLOADS_OVERLOADED = "a session starts in which it offloads, as a utilisation is above the higher threshold"
    ACCEPTS = "a session starts in which it accepts load"
    ENDS = "its session ends, or times out"
    LOADED = "a utilisation is above the lower overload threshold"
    RELIEVED = "no utilisation is above the lower overload threshold"
    STEADY = "the time to stabilize has passed, and no metric moves"


TRANSITIONS: Final = {
    (State.OK, Stimulus.OFFLOADS): State.BUSY,
    (State.OK, Stimulus.OFFLOADS_OVERLOADED): State.BUSY,
    (State.OK, Stimulus.ACCEPTS): State.BUSY,
    (State.OK, Stimulus.LOADED): State.NOT_AVAILABLE,
    (State.NOT_AVAILABLE, Stimulus.RELIEVED): State.OK,
    (State.NOT_AVAILABLE, Stimulus.OFFLOADS_OVERLOADED): State.BUSY,
    (State.BUSY, Stimulus.ENDS): State.STABILIZING,
    (State.STABILIZING, Stimulus.STEADY): State.OK,
    (State.STABILIZING, Stimulus.LOADED): State.NOT_AVAILABLE,
    (State.STABILIZING, Stimulus.OFFLOADS_OVERLOADED): State.BUSY,
}
"""The next state, by state and stimulus."""


def after(state: State, stimulus: Stimulus) -> State | None:
    """The next state, or None if the stimulus has no effect in this state."""
    return TRANSITIONS.get((state, stimulus))
