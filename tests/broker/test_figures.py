from __future__ import annotations

from penstock.broker.figures import Figures
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings


def test_the_figures_of_all_parts_are_gathered_as_they_are_when_somebody_asks() -> None:
    counts, parts = {"sent": 1}, {"on": 1}
    figures = Figures(
        Rooms(BrokerSettings("b1", pubends=("b1.a",)), incarnation=5),
        incarnation=5,
        counts=(lambda: counts, lambda: {"lost": 2}),
        parts={"tracking": lambda: dict(parts)},
    )
    counts["sent"] = 7
    status = figures.status()
    assert status["counts"] == {"sent": 7, "lost": 2}
    assert (status["broker"], status["incarnation"], status["pubends"]) == ("b1", 5, ["b1.a"])
    assert (status["clients"], status["subscriptions"], status["tracking"]) == (0, 0, {"on": 1})
