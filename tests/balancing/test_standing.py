"""States in the course of time: overload, relief, and becoming steady."""

from __future__ import annotations

from penstock.balancing.detection import Triggers
from penstock.balancing.metrics import Load
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.standing import Standing
from penstock.balancing.states import State, Stimulus

SETTINGS = BalancingSettings()


def standing() -> Standing:
    return Standing(SETTINGS, Triggers.local(SETTINGS))


def state_of(made: Standing) -> State:
    """Looked up anew each time: it changes under way."""
    return made.state


def stabilizing() -> Standing:
    made = standing()
    assert made.apply(Stimulus.ACCEPTS, now_ms=0)
    assert made.apply(Stimulus.ENDS, now_ms=1_000)
    return made


def test_overload_comes_and_goes() -> None:
    made = standing()
    made.look(Load(0.91), now_ms=0)
    assert state_of(made) is State.NOT_AVAILABLE
    assert made.changed
    made.look(Load(0.90), now_ms=5_000)
    assert state_of(made) is State.OK
    assert made.since_ms == 5_000


def test_a_session_may_begin_when_ok_or_overloaded() -> None:
    assert standing().start_offloading(Load(0.5), now_ms=0)
    made = standing()
    made.look(Load(0.92), now_ms=0)
    assert not made.may_offload(Load(0.92), now_ms=0)
    assert not made.start_offloading(Load(0.92), now_ms=0)
    assert made.may_offload(Load(0.96), now_ms=0)
    assert made.start_offloading(Load(0.96), now_ms=0)
    assert state_of(made) is State.BUSY


def test_the_inert_period_between_the_thresholds_ends() -> None:
    made = standing()
    made.look(Load(0.92), now_ms=0)
    assert not made.may_offload(Load(0.92), now_ms=59_999)
    assert made.overload(now_ms=60_000) == 0.9
    assert made.start_offloading(Load(0.92), now_ms=60_000)


def test_thirty_seconds_pass_and_then_no_metric_moves() -> None:
    made = stabilizing()
    made.look(Load(0.5), now_ms=26_000)
    assert state_of(made) is State.STABILIZING
    made.look(Load(0.56), now_ms=31_000)
    assert state_of(made) is State.STABILIZING, "it moved by more than 0.05"
    made.look(Load(0.60), now_ms=36_000)
    assert state_of(made) is State.OK


def test_the_first_look_says_nothing_about_steadiness() -> None:
    made = stabilizing()
    made.look(Load(0.5), now_ms=60_000)
    assert state_of(made) is State.STABILIZING
    made.look(Load(0.5), now_ms=65_000)
    assert state_of(made) is State.OK


def test_who_has_moved_since_the_look_before_moves_but_not_for_ever() -> None:
    made = standing()
    moving = []
    for turn, load in enumerate((Load(0.5), Load(0.54), Load(0.60), Load(0.60, 0.04), Load(0.60, 0.1))):
        made.look(load, now_ms=5_000 * turn)
        moving.append(made.is_moving(now_ms=5_000 * turn))
    assert moving == [False, False, True, False, True]
    for turn in range(5, 12):
        made.look(Load(0.5 + turn % 2 / 10), now_ms=5_000 * turn)
        moving.append(made.is_moving(now_ms=5_000 * turn))
    # The last time that it was steady is at 15 s, and it has 30 s to become so again.
    assert moving[5:] == [True] * 4 + [False] * 3


def test_who_stabilizes_starts_nothing_unless_overloaded() -> None:
    made = stabilizing()
    assert not made.may_offload(Load(0.5), now_ms=0)
    assert made.may_offload(Load(0.96), now_ms=0)
    made.look(Load(0.96), now_ms=6_000)
    assert state_of(made) is State.NOT_AVAILABLE


def test_a_cluster_may_be_loaded_by_a_law_of_its_own() -> None:
    made = standing()
    made.look(Load(0.1), now_ms=0, is_loaded=True)
    assert state_of(made) is State.NOT_AVAILABLE
