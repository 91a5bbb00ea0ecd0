from __future__ import annotations

from penstock.broker.figures import Figures, Sources
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.protocol.status import CongestionStatus, GuaranteedStatus, MigrationStatus, TrackingStatus


def test_the_figures_of_all_parts_are_gathered_as_they_are_when_somebody_asks() -> None:
    counts: dict[str, int] = {"sent": 1}
    sources = Sources(
        counts=(lambda: counts, lambda: {"lost": 2}),
        malformed=lambda: 3,
        refused=lambda: 4,
        guaranteed=GuaranteedStatus,
        congestion=CongestionStatus,
        tracking=lambda: TrackingStatus(strategy="exact"),
        migration=MigrationStatus,
        mechanisms=dict,
    )
    figures = Figures(Rooms(BrokerSettings("b1", pubends=("b1.a",)), incarnation=5), sources, incarnation=5)
    counts["sent"] = 7
    status = figures.status()
    assert status.counts == {"sent": 7, "lost": 2}
    assert (status.broker, status.incarnation, status.pubends) == ("b1", 5, ["b1.a"])
    assert (status.malformed, status.refused) == (3, 4)
    assert (status.clients, status.subscriptions, status.tracking.strategy) == (0, 0, "exact")
