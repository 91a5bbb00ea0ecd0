"""The state table of balancing: every state with every stimulus."""

from __future__ import annotations

import pytest

from penstock.balancing.states import TRANSITIONS, State, Stimulus, after

OK, BUSY, NA, STABILIZING = State.OK, State.BUSY, State.NOT_AVAILABLE, State.STABILIZING
EXPECTED: dict[tuple[State, Stimulus], State | None] = {
    (OK, Stimulus.OFFLOADS): BUSY,
    (OK, Stimulus.OFFLOADS_OVERLOADED): BUSY,
    (OK, Stimulus.ACCEPTS): BUSY,
    (OK, Stimulus.ENDS): None,
    (OK, Stimulus.LOADED): NA,
    (OK, Stimulus.RELIEVED): None,
    (OK, Stimulus.STEADY): None,
    (BUSY, Stimulus.OFFLOADS): None,
    (BUSY, Stimulus.OFFLOADS_OVERLOADED): None,
    (BUSY, Stimulus.ACCEPTS): None,
    (BUSY, Stimulus.ENDS): STABILIZING,
    (BUSY, Stimulus.LOADED): None,
    (BUSY, Stimulus.RELIEVED): None,
    (BUSY, Stimulus.STEADY): None,
    (NA, Stimulus.OFFLOADS): None,
    (NA, Stimulus.OFFLOADS_OVERLOADED): BUSY,
    (NA, Stimulus.ACCEPTS): None,
    (NA, Stimulus.ENDS): None,
    (NA, Stimulus.LOADED): None,
    (NA, Stimulus.RELIEVED): OK,
    (NA, Stimulus.STEADY): None,
    (STABILIZING, Stimulus.OFFLOADS): None,
    (STABILIZING, Stimulus.OFFLOADS_OVERLOADED): BUSY,
    (STABILIZING, Stimulus.ACCEPTS): None,
    (STABILIZING, Stimulus.ENDS): None,
    (STABILIZING, Stimulus.LOADED): NA,
    (STABILIZING, Stimulus.RELIEVED): None,
    (STABILIZING, Stimulus.STEADY): OK,
}


def test_every_state_and_stimulus_is_listed_here() -> None:
    assert EXPECTED.keys() == {(state, stimulus) for state in State for stimulus in Stimulus}
    assert len(TRANSITIONS) == sum(each is not None for each in EXPECTED.values()) == 10


@pytest.mark.parametrize(("state", "stimulus"), list(EXPECTED))
def test_a_stimulus_leads_where_the_specification_says(state: State, stimulus: Stimulus) -> None:
    assert after(state, stimulus) is EXPECTED[state, stimulus]
