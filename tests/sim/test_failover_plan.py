"""Pubends get candidates, and everybody knows of their homes."""

from __future__ import annotations

from random import Random

from penstock.sim.delivery_plan import DeliveryPlan, draw_plan
from penstock.sim.failover_plan import draw_homes
from penstock.sim.last_values import draw_views


def plans() -> list[tuple[DeliveryPlan, DeliveryPlan]]:
    drawn = [draw_views(draw_plan(Random(seed)), Random(seed))[0] for seed in range(60)]
    return [(plan, draw_homes(plan, Random(seed))) for seed, plan in enumerate(drawn)]


def test_every_pubend_is_at_one_place_as_before() -> None:
    for before, after in plans():
        assert sorted(after.pubends) == sorted(before.pubends)
        assert after.homes
        best_effort = [pubend for settings in before.brokers for pubend in settings.best_effort]
        assert not set(best_effort) & {home.pubend for home in after.homes}


def test_last_values_are_kept_where_the_pubend_is() -> None:
    kept = 0
    for before, after in plans():
        wanted = sorted(view for settings in before.brokers for view in settings.last_values)
        own = [view for settings in after.brokers for view in settings.last_values]
        moving = [view for home in after.homes for view in home.settings.last_values]
        assert sorted(own + moving) == wanted
        assert all(view[0] == home.pubend for home in after.homes for view in home.settings.last_values)
        kept += len(moving)
    assert kept


def test_candidates_are_neighbours_of_the_home_and_all_know_the_members() -> None:
    for _, after in plans():
        names = {settings.name: settings for settings in after.brokers}
        for home in after.homes:
            assert len(set(home.candidates)) == len(home.candidates) >= 2
            beside = [name for name, settings in names.items() if home.name in settings.neighbours]
            assert sorted(beside) == sorted(home.candidates)
        everybody = [*names, *(home.name for home in after.homes)]
        for settings in [*names.values(), *(home.settings for home in after.homes)]:
            assert list(settings.members) == everybody
            assert list(settings.homes) == [home.name for home in after.homes]
        numbers = [settings.number for settings in [*names.values(), *(home.settings for home in after.homes)]]
        assert len(set(numbers)) == len(numbers)


def test_some_overlays_have_only_homes_and_some_have_both() -> None:
    kinds = {bool([each for each in after.hosts if set(each.pubends) - set(each.best_effort)]) for _, after in plans()}
    assert kinds == {True, False}
    counts = {len(home.candidates) for _, after in plans() for home in after.homes}
    assert counts == {2, 3}
