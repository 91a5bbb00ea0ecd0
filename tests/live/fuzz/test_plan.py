"""Rounds of the live fuzz are drawn from their seeds, and are rounds that can be played."""

from __future__ import annotations

import msgspec
import pytest
from bench.live_fuzz.plan import BLOWS, RoundPlan, draw_round
from bench.live_fuzz.quotes import SELECTORS, Selecting, draw_quote

from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse

PLANS = [draw_round(seed) for seed in range(200)]


def connected(plan: RoundPlan) -> set[str]:
    """The brokers that can be reached from the first one."""
    found = {"b1"}
    while (
        more := {name for link in plan.links for name in link if set(link) & found and not set(link) <= found} - found
    ):
        found |= more
    return found


def test_a_seed_draws_the_same_round_again() -> None:
    assert [draw_round(seed) for seed in range(20)] == PLANS[:20]


def test_every_overlay_is_connected_and_has_pubends() -> None:
    for plan in PLANS:
        assert 3 <= len(plan.pubends) <= 6
        assert connected(plan) == set(plan.pubends)
        assert 1 <= sum(bool(pubends) for pubends in plan.pubends.values()) <= 3


def test_publishers_publish_where_there_are_pubends() -> None:
    for plan in PLANS:
        for publisher in plan.publishers:
            hosted = [pubend for broker in publisher.brokers for pubend in plan.pubends[broker]]
            assert hosted
            assert set(publisher.pubends) <= set(hosted)
            assert publisher.kind != "numbered" or len(publisher.pubends) == 1


def test_blows_hit_something_that_is_there_and_every_kind_is_drawn() -> None:
    for plan in PLANS:
        clients = {each.name for each in plan.publishers} | {each.name for each in plan.subscribers}
        for blow in plan.blows:
            assert blow.target in {*plan.pubends, *plan.links, *clients}
            assert blow.at_s < plan.harm_s
            # The witness lives through everything.
            assert blow.kind not in {"death", "leave"} or blow.target != plan.subscribers[0].name
    assert {blow.kind for plan in PLANS for blow in plan.blows} == set(BLOWS)


def test_the_witness_asks_for_everything_under_a_durable_name() -> None:
    for plan in PLANS:
        witness = plan.subscribers[0].subscriptions[0]
        assert witness.selector == 0
        assert witness.durable


def test_durable_names_are_used_once() -> None:
    for plan in PLANS:
        names = [each.durable for subscriber in plan.subscribers for each in subscriber.subscriptions if each.durable]
        assert len(names) == len(set(names))


def test_some_client_without_a_name_is_away_for_most_of_a_short_grace_while_its_host_restarts() -> None:
    found = 0
    for plan in PLANS:
        absentee, companion = plan.subscribers[1:3]
        away = [blow for blow in plan.blows if blow.pause_s > plan.limits.grace_ms / 2_000]
        if plan.limits.grace_ms == 16_000 and any(blow.target == absentee.name for blow in away):
            found += 1
            assert not any(subscription.durable for subscription in absentee.subscriptions)
            assert absentee.brokers == companion.brokers
            assert any(blow.kind == "kill" and blow.target == absentee.brokers[0] for blow in plan.blows)
    assert found > 5


def test_small_stores_can_be_left_out() -> None:
    assert any(plan.limits.data_bytes_max for plan in PLANS)
    assert not any(draw_round(seed, ["small-store"]).limits.data_bytes_max for seed in range(50))


def test_a_plan_survives_its_file() -> None:
    for plan in PLANS[:20]:
        assert msgspec.json.decode(msgspec.json.encode(plan), type=RoundPlan) == plan


@pytest.mark.parametrize("selecting", SELECTORS)
def test_a_selector_and_its_function_say_the_same(selecting: Selecting) -> None:
    condition = compile_condition(parse(selecting.text))
    quotes = [draw_quote(1, "p", n) for n in range(1, 2_000)]
    assert [condition(quote.attributes()) is True for quote in quotes] == [selecting.fits(quote) for quote in quotes]
    assert any(selecting.fits(quote) for quote in quotes)
