"""What a seed has besides what all have is drawn apart, and always the same for a seed."""

from __future__ import annotations

from random import Random

from penstock.sim.delivery_plan import draw_plan
from penstock.sim.sharing_extras import DEAD_PUBEND, Extras

SEEDS = range(60)


def test_some_seeds_have_a_pubend_for_dead_letters_at_one_broker_that_all_know() -> None:
    with_letters = with_little_room = 0
    for seed in SEEDS:
        drawn = draw_plan(Random(seed))
        plan = Extras(str(seed)).add_dead_letters(drawn)
        hosts = [each for each in plan.brokers if DEAD_PUBEND in each.pubends]
        if not hosts:
            assert plan is drawn
            continue
        with_letters += 1
        (host,) = hosts
        assert {each.dead_letters for each in plan.brokers} == {DEAD_PUBEND}
        with_little_room += host.retain_bytes_max <= 10_000
    assert 15 < with_letters < 45
    assert with_little_room > 3


def test_groups_give_messages_up_only_where_dead_letters_go_somewhere() -> None:
    for seed in SEEDS:
        extras = Extras(str(seed))
        has_letters = extras.add_dead_letters(plan := draw_plan(Random(seed))) is not plan
        given = {extras.deliveries_max(number) for number in range(20)}
        assert given == ({1, 2, 3, 4} if has_letters else {0})
        assert has_letters or not extras.has_clerk


def test_crowds_come_a_few_times_and_the_same_seed_draws_the_same() -> None:
    drawn = [
        [(extras.is_crowded_now(), extras.is_forgotten_now(), extras.lifetime_s()) for _ in range(200)]
        for seed in SEEDS
        for extras in (Extras(str(seed)), Extras(str(seed)))
    ]
    assert drawn[::2] == drawn[1::2]
    crowds = [sum(crowd for crowd, _, _ in each) for each in drawn[::2]]
    assert sorted(set(crowds)) == [0, 3]
    assert any(forgotten for each in drawn for _, forgotten, _ in each)
    assert any(lifetime for each in drawn for _, _, lifetime in each)
