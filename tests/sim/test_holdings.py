"""Candidates take, renew, release and want a home by the rules that the live store has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.candidate import Held, Lost, Release, Renew, Renewed, Take, Taken
from penstock.sim.database import Server
from penstock.sim.holdings import Holdings, store_application
from sim.shared import HOME, LEASE, Shared


@pytest.fixture
def shared() -> Shared:
    return Shared()


def fail_over(shared: Shared, *, offset_ms: int) -> Server:
    shared.primary.crash(loud=True)
    promoted = shared.database.promote()
    assert promoted is not None
    promoted.clock_offset_ms = offset_ms
    shared.run(10)
    return promoted


def take(shared: Shared, holdings: Holdings) -> object:
    return shared.outcome(holdings.answering(Take()))


def test_the_first_to_ask_has_a_home_and_others_hear_who_holds_it(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2", place=1)
    assert take(shared, first) == Taken(1)
    held = take(shared, second)
    assert isinstance(held, Held)
    assert (held.holder, held.epoch, 0 < held.remaining_ms <= LEASE.lease_ms) == ("b1", 1, True)


def test_a_home_is_taken_when_its_lease_is_over_and_later_by_later_candidates(shared: Shared) -> None:
    first, third, second = shared.holdings("b1"), shared.holdings("b3", place=2), shared.holdings("b2", place=0)
    take(shared, first)
    shared.run(LEASE.lease_ms + LEASE.stagger_ms)
    assert isinstance(take(shared, third), Held)
    assert take(shared, second) == Taken(2)
    assert shared.outcome(first.answering(Renew(1))) == Lost()


def test_a_lease_that_is_renewed_begins_again(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    for _ in range(4):
        shared.run(LEASE.lease_ms // 2)
        assert shared.outcome(first.answering(Renew(1))) == Renewed("")
        assert isinstance(take(shared, second), Held)


def test_the_same_process_takes_its_home_again_at_once_and_another_one_waits(shared: Shared) -> None:
    take(shared, shared.holdings("b1", life="b1/1"))
    assert isinstance(take(shared, shared.holdings("b1", life="b1/2")), Held)
    assert take(shared, shared.holdings("b1", life="b1/1")) == Taken(2)


def test_a_home_is_kept_for_whom_it_was_released_to(shared: Shared) -> None:
    first, second, third = (shared.holdings(name) for name in ("b1", "b2", "b3"))
    take(shared, first)
    answer = shared.outcome(first.answering(Release(1, "b3")))
    assert answer == Held("", 1, 0, "b3")
    assert take(shared, second) == Held("", 1, 0, "b3")
    assert take(shared, third) == Taken(2)


def test_a_home_that_nobody_fetches_is_anybodys_in_the_end(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    shared.outcome(first.answering(Release(1, "b3")))
    shared.run(4 * LEASE.lease_ms)
    assert take(shared, second) == Taken(2)


def test_a_holder_hears_who_wants_its_home_and_listeners_are_told(shared: Shared) -> None:
    first = shared.holdings("b1")
    take(shared, first)
    told: list[str] = []
    assert first.connection is not None
    first.connection.on_news = lambda: told.append("news")
    assert shared.outcome(shared.holdings("b2").wanting("b2"))
    assert told == ["news"]
    assert shared.outcome(first.answering(Renew(1))) == Renewed("b2")


def test_what_one_server_did_without_its_standby_is_no_answer(shared: Shared) -> None:
    shared.primary.is_replicating = False
    answers = shared.begin(shared.holdings("b1").answering(Take()))
    shared.run(50)
    assert shared.primary.cancel_waits() == 1
    shared.run(50)
    assert answers == [None]


@pytest.mark.parametrize("offset_ms", [-400, 0, 5_000])
def test_a_lease_by_a_former_clock_lasts_for_all_of_its_length(shared: Shared, offset_ms: int) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    assert shared.outcome(first.answering(Renew(1))) == Renewed("")
    fail_over(shared, offset_ms=offset_ms)
    shared.cut("b1", shared.primary)
    began_ms = shared.clock.now_ms
    while isinstance(take(shared, second), Held):
        shared.run(10)
    assert shared.clock.now_ms - began_ms >= LEASE.lease_ms


def test_no_lease_lasts_longer_than_its_length_though_the_clock_of_the_database_was_set_back(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    assert isinstance(take(shared, second), Held)
    shared.primary.clock_offset_ms = -500_000
    shared.run(LEASE.lease_ms // 2)
    assert isinstance(take(shared, second), Held)
    shared.run(LEASE.lease_ms // 2)
    assert take(shared, second) == Taken(2)


def test_a_home_is_kept_for_a_candidate_that_has_died_no_longer_than_a_lease(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    shared.outcome(first.answering(Release(1, "b3")))
    began_ms = shared.clock.now_ms
    while isinstance(take(shared, second), Held):
        shared.run(10)
    assert LEASE.lease_ms <= shared.clock.now_ms - began_ms < LEASE.lease_ms + 200


def test_a_home_is_kept_for_nobody_longer_than_a_lease_by_any_clock(shared: Shared) -> None:
    first, second = shared.holdings("b1"), shared.holdings("b2")
    take(shared, first)
    shared.outcome(first.answering(Release(1, "b3")))
    shared.primary.clock_offset_ms = -500_000
    assert isinstance(take(shared, second), Held)
    shared.run(LEASE.lease_ms)
    assert take(shared, second) == Taken(2)


def test_the_same_epoch_of_another_life_is_neither_renewed_nor_released(shared: Shared) -> None:
    take(shared, shared.holdings("b1"))
    for content in [server.contents[HOME] for server in shared.database.servers]:
        content.row = replace(content.row, holder="b2", life="b2")
    first = shared.holdings("b1")
    assert shared.outcome(first.answering(Renew(1))) == Lost()
    answer = shared.outcome(first.answering(Release(1, "")))
    assert isinstance(answer, Held)
    assert answer.holder == "b2"


def test_who_gave_up_waiting_for_the_row_does_not_take_the_home_later(shared: Shared) -> None:
    take(shared, shared.holdings("b1"))
    shared.run(2 * LEASE.lease_ms)
    shared.primary.is_replicating = False
    assert take(shared, shared.holdings("b2")) is None
    assert take(shared, shared.holdings("b3")) is None
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(10)
    row = shared.database.content(HOME).row
    assert (row.epoch, row.holder) == (2, "b2")


def test_whoever_takes_a_home_ends_the_connections_of_the_former_store(shared: Shared) -> None:
    take(shared, shared.holdings("b1"))
    store = shared.connected("b1", store_application(HOME))
    assert store is not None
    shared.run(2 * LEASE.lease_ms)
    assert take(shared, shared.holdings("b2")) == Taken(2)
    assert not store.is_open


def test_without_a_primary_there_is_no_answer(shared: Shared) -> None:
    shared.primary.crash(loud=True)
    assert take(shared, shared.holdings("b1")) is None
