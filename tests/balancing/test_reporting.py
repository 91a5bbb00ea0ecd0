"""What operators see of balancing."""

from __future__ import annotations

from balancing.instances import random_work
from penstock.balancing.detection import Action
from penstock.balancing.mediation import LoadSession, Phase
from penstock.balancing.metrics import Load
from penstock.balancing.offload.algorithms import offload_match
from penstock.balancing.reporting import (
    Estimate,
    decision_notes,
    decision_status,
    mean_accuracy,
    session_status,
    with_load,
)
from penstock.model.metrics import DELAY, INPUT
from penstock.protocol.status import BalancingStatus


def test_a_decision_tells_who_moves_and_why() -> None:
    work, coverage = random_work(3)
    offload_match(work, coverage)
    session = LoadSession(7, "b", Phase.MOVING, 0, Action("b", DELAY, 0.25), total=work.moved)
    status = decision_status(session, work)
    assert (status.session, status.partner, status.metric, status.moved) == (7, "b", "delay", work.moved)
    notes = decision_notes(session, work)
    assert notes[0].event == "balancing-offloads"
    assert dict(notes[0].fields)["moves"] == work.moved
    assert {each.event for each in notes[1:]} <= {"balancing-card"}
    assert len(notes) <= 21
    assert session_status(session).phase == "moving"


def test_accuracy_is_the_mean_of_all_estimates() -> None:
    estimates = [
        Estimate(0, is_offloader=True, estimated=Load(0.45), actual=Load(0.5)),
        Estimate(1, is_offloader=False, estimated=Load(0.5), actual=Load(0.5)),
    ]
    assert mean_accuracy(estimates, INPUT) == 0.95
    assert mean_accuracy([], INPUT) is None


def test_loads_are_rounded() -> None:
    assert with_load(BalancingStatus(), Load(0.123456)).input == 0.1235
