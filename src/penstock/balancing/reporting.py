"""Reports balancing to operators: loads, sessions, who moved where and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import convert
from msgspec.structs import replace

from penstock.balancing.estimators import accuracy
from penstock.balancing.mediation import LoadSession
from penstock.balancing.metrics import Load
from penstock.balancing.offload import Offload
from penstock.balancing.ports import Note
from penstock.model.metrics import METRICS, Metric
from penstock.protocol.status import BalancingStatus, CardStatus, DecisionStatus, SessionStatus

__all__ = [
    "Estimate",
    "decision_notes",
    "decision_status",
    "mean_accuracy",
    "session_status",
    "with_load",
]

_CARDS_NOTED: Final = 20
"""The most report cards of one session that are written to the log."""


@dataclass(slots=True, frozen=True)
class Estimate:
    """The load estimated for the time after a session, and the load measured then."""

    at_ms: int
    """When the estimate was compared with the measurement."""
    is_offloader: bool
    estimated: Load
    actual: Load
    made_ms: int = 0
    """When subscribers were chosen, or the last of them had arrived."""


def with_load(status: BalancingStatus, load: Load, metrics: Iterable[Metric] = METRICS) -> BalancingStatus:
    """A status with a load, or some metrics of it, rounded for display."""
    return replace(status, **{each.key: round(each.of(load), each.digits) for each in metrics})


def session_status(session: LoadSession) -> SessionStatus:
    """The progress of a session."""
    return SessionStatus(
        number=session.number,
        partner=session.partner,
        phase=session.phase.value,
        total=session.total,
        arrived=session.arrived,
    )


def decision_status(session: LoadSession, work: Offload) -> DecisionStatus:
    """A session's decision for the status, with the first report cards."""
    assert session.action is not None
    return DecisionStatus(
        session=session.number,
        partner=session.partner,
        metric=session.action.metric.name,
        difference=round(session.action.difference, 4),
        overload=session.action.is_overload,
        moved=work.moved,
        cards=[convert(each.fields(), CardStatus) for each in work.cards[:_CARDS_NOTED]],
    )


def decision_notes(session: LoadSession, work: Offload) -> list[Note]:
    """A session's decision for the log: one note for the session, one for each of the first report cards."""
    assert session.action is not None
    head: tuple[tuple[str, str | int], ...] = (
        ("session", session.number),
        ("partner", session.partner),
        ("metric", session.action.metric.name),
        ("difference", f"{session.action.difference:+.4f}"),
        ("moves", work.moved),
    )
    cards = [
        Note("balancing-card", (("session", session.number), *each.fields().items()))
        for each in work.cards[:_CARDS_NOTED]
    ]
    return [Note("balancing-offloads", head), *cards]


def mean_accuracy(estimates: Iterable[Estimate], metric: Metric) -> float | None:
    """The mean accuracy of the estimates of a metric; None without estimates."""
    found = [
        accuracy(each.estimated.value(metric, delay_norm_s=1), each.actual.value(metric, delay_norm_s=1))
        for each in estimates
    ]
    return round(sum(found) / len(found), 4) if found else None
