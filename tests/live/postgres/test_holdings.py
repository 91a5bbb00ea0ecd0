"""Leases of homes, in a real database."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from threading import Thread
from typing import TypeVar

import psycopg
import pytest

from penstock.broker.candidate import Held, Lost, Renewed, Taken
from penstock.lab.databases import DatabaseServer
from penstock.live.postgres.connecting import connect, store_application
from penstock.live.postgres.errors import DatabaseError, DatabaseUnreachableError
from penstock.live.postgres.holdings import Holdings

_LONG_MS = 3_600_000
_SHORT_MS = 20

_Candidates = Callable[..., Holdings]
_Answer = TypeVar("_Answer")


@pytest.fixture
def candidate(request: pytest.FixtureRequest) -> Iterator[_Candidates]:
    """Makes candidates for the home of this test, each with a connection of its own."""
    with ExitStack() as stack:

        def made(*servers: DatabaseServer, answer_ms: int = 10_000) -> Holdings:
            ports = ",".join(f"127.0.0.1:{each.port}" for each in servers)
            url = f"postgresql://penstock@{ports}/postgres"
            return stack.enter_context(
                closing(Holdings(url, overlay=request.node.name, home="quotes.home", answer_ms=answer_ms))
            )

        yield made


def take(holdings: Holdings, name: str, *, lease_ms: int = _LONG_MS, place: int = 0) -> Taken | Held:
    return holdings.take(name, lease_ms=lease_ms, place=place, stagger_ms=1)


def taken(holdings: Holdings, name: str, *, lease_ms: int = _LONG_MS) -> int:
    """Take the home as soon as it is free."""
    while True:
        answer = take(holdings, name, lease_ms=lease_ms)
        if isinstance(answer, Taken):
            return answer.epoch
        time.sleep(0.005)


def reached(use: Callable[[], _Answer]) -> _Answer:
    """Ask until the database answers: on a busy machine even a connection may take longer than a candidate waits."""
    while True:
        with suppress(DatabaseError):
            return use()


def refusal(use: Callable[[], object], wanted: str) -> str:
    """Ask until the database says what is wanted in its refusal, and not only that it was too busy to answer."""
    said = ""
    while wanted not in said:
        with pytest.raises(DatabaseError) as caught:
            use()
        said = str(caught.value)
    return said


def test_the_first_that_comes_has_the_home(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    assert take(one, "pb1") == Taken(1)
    answer = take(two, "pb2")
    assert isinstance(answer, Held)
    assert (answer.holder, answer.epoch, answer.wanted) == ("pb1", 1, "")
    assert 0 < answer.remaining_ms <= _LONG_MS


def test_a_lease_that_ran_out_is_taken_over_in_a_higher_epoch(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    assert take(one, "pb1", lease_ms=_SHORT_MS) == Taken(1)
    assert taken(two, "pb2") == 2
    assert one.renew(1, lease_ms=_LONG_MS) == Lost()
    assert two.renew(2, lease_ms=_LONG_MS) == Renewed("")


def test_a_holder_may_renew_a_lease_that_ran_out_if_nobody_took_it(
    server: DatabaseServer, candidate: _Candidates
) -> None:
    one, two = candidate(server), candidate(server)
    assert take(one, "pb1", lease_ms=0) == Taken(1)
    assert one.renew(1, lease_ms=_LONG_MS) == Renewed("")
    assert isinstance(take(two, "pb2"), Held)


def test_of_many_that_take_at_once_one_has_it(server: DatabaseServer, candidate: _Candidates) -> None:
    candidates = [candidate(server) for _ in range(8)]
    answers: dict[int, Taken | Held] = {}

    def ask(place: int) -> None:
        answers[place] = take(candidates[place], f"pb{place}")

    threads = [Thread(target=ask, args=(place,)) for place in range(len(candidates))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    epochs = [each.epoch for each in answers.values() if isinstance(each, Taken)]
    assert epochs == [1]


def test_a_released_home_is_free_at_once(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1")
    one.release(1, to="", lease_ms=_LONG_MS)
    assert take(two, "pb2") == Taken(2)


def test_a_home_that_moves_is_kept_for_the_one_that_is_to_have_it(
    server: DatabaseServer, candidate: _Candidates
) -> None:
    one, two, three = candidate(server), candidate(server), candidate(server)
    take(one, "pb1")
    three.want("pb3", lease_ms=_LONG_MS)
    assert one.renew(1, lease_ms=_LONG_MS) == Renewed("pb3")
    one.release(1, to="pb3", lease_ms=_LONG_MS)
    assert take(two, "pb2") == Held("", 1, 0, "pb3")
    assert take(three, "pb3", place=2) == Taken(2)
    assert three.renew(2, lease_ms=_LONG_MS) == Renewed("")


def test_a_home_is_not_kept_for_ever(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1")
    one.release(1, to="pb3", lease_ms=1)
    assert taken(two, "pb2") == 2


def test_what_a_candidate_holds_already_it_may_take_at_once(server: DatabaseServer, candidate: _Candidates) -> None:
    one, namesake = candidate(server), candidate(server)
    assert take(one, "pb1") == Taken(1)
    assert isinstance(take(namesake, "pb1"), Held)
    assert take(one, "pb1") == Taken(2)


def test_a_release_of_an_earlier_epoch_changes_nothing(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1", lease_ms=0)
    epoch = taken(two, "pb2")
    one.release(1, to="", lease_ms=_LONG_MS)
    assert two.renew(epoch, lease_ms=_LONG_MS) == Renewed("")


def test_the_same_epoch_of_another_life_is_neither_renewed_nor_released(
    server: DatabaseServer, candidate: _Candidates
) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1", lease_ms=0)
    epoch = taken(two, "pb2")
    # The same one, as if the database had lost that it was given away before.
    assert one.renew(epoch, lease_ms=_LONG_MS) == Lost()
    one.release(epoch, to="", lease_ms=_LONG_MS)
    assert two.look().holder == "pb2"


def test_a_release_wakes_the_other_candidates(server: DatabaseServer, candidate: _Candidates) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1")
    take(two, "pb2")
    with selectors.DefaultSelector() as news:
        news.register(two.fileno(), selectors.EVENT_READ)
        assert news.select(0) == []
        one.release(1, to="", lease_ms=_LONG_MS)
        assert news.select(10)
    assert taken(two, "pb2") == 2


def test_whoever_holds_the_row_in_a_commit_that_never_ends_is_cut(
    server: DatabaseServer, candidate: _Candidates, request: pytest.FixtureRequest
) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1", lease_ms=0)
    application = store_application(request.node.name, "quotes.home")
    stuck = connect(server.url, application=application, answer_ms=10_000)
    stuck.autocommit = False
    stuck.execute("SELECT FROM penstock.holdings WHERE overlay = %s FOR KEY SHARE", (request.node.name,))
    assert taken(two, "pb2") == 2
    with pytest.raises(psycopg.OperationalError, match="terminating connection"):
        stuck.execute("SELECT 1")
    stuck.close()


def test_a_renewal_does_not_wait_for_a_commit_and_a_take_over_does(
    server: DatabaseServer, candidate: _Candidates, request: pytest.FixtureRequest
) -> None:
    one, two = candidate(server), candidate(server)
    impatient = candidate(server, answer_ms=2_000)
    take(one, "pb1", lease_ms=0)
    commit = connect(server.url, application="some commit", answer_ms=10_000)
    commit.autocommit = False
    commit.execute("SELECT FROM penstock.holdings WHERE overlay = %s FOR KEY SHARE", (request.node.name,))
    assert one.renew(1, lease_ms=0) == Renewed("")
    # The database ends the wait before the candidate does.
    refusal(lambda: taken(impatient, "pb2"), "canceling statement due to lock timeout")
    commit.rollback()
    commit.close()
    assert taken(two, "pb2") == 2


def test_a_lease_measured_by_a_former_primary_is_waited_for_in_full(
    pair: list[DatabaseServer], candidate: _Candidates
) -> None:
    primary, standby = pair
    one, two = candidate(primary, standby), candidate(primary, standby)
    take(one, "pb1", lease_ms=_LONG_MS)
    primary.kill()
    standby.promote()
    # Whatever the length of its own leases is.
    answer = take(two, "pb2", lease_ms=1)
    assert isinstance(answer, Held)
    assert answer.holder == "pb1"
    assert answer.remaining_ms > _LONG_MS / 2


def test_a_lease_measured_by_a_former_primary_ends(pair: list[DatabaseServer], candidate: _Candidates) -> None:
    primary, standby = pair
    one, two = candidate(primary, standby), candidate(primary, standby)
    take(one, "pb1", lease_ms=_SHORT_MS)
    primary.kill()
    standby.promote()
    assert taken(two, "pb2", lease_ms=_LONG_MS) == 2


def test_a_clock_that_was_set_back_makes_a_lease_no_longer(
    server: DatabaseServer, candidate: _Candidates, request: pytest.FixtureRequest
) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1", lease_ms=_SHORT_MS)
    server.execute(
        "UPDATE penstock.holdings SET lease_until = lease_until + interval '1 hour' "
        f"WHERE overlay = '{request.node.name}'"
    )
    assert taken(two, "pb2") == 2


def test_a_clock_that_was_set_back_keeps_a_home_for_nobody_longer(
    server: DatabaseServer, candidate: _Candidates, request: pytest.FixtureRequest
) -> None:
    one, two = candidate(server), candidate(server)
    take(one, "pb1")
    one.release(1, to="pb3", lease_ms=1)
    server.execute(
        f"UPDATE penstock.holdings SET wanted_until = now() + interval '1 hour' WHERE overlay = '{request.node.name}'"
    )
    assert taken(two, "pb2", lease_ms=_SHORT_MS) == 2


def test_only_connections_to_the_same_database_are_cut(server: DatabaseServer, candidate: _Candidates) -> None:
    server.execute("CREATE DATABASE elsewhere")
    one, two = candidate(server), candidate(server)
    take(one, "pb1", lease_ms=0)
    name = "test_only_connections_to_the_same_database_are_cut"
    url = server.url.replace("/postgres", "/elsewhere")
    with connect(url, application=store_application(name, "quotes.home"), answer_ms=10_000) as other:
        assert taken(two, "pb2") == 2
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_holder_goes_on_at_the_promoted_standby(pair: list[DatabaseServer], candidate: _Candidates) -> None:
    primary, standby = pair
    one = candidate(primary, standby)
    take(one, "pb1")
    primary.kill()
    standby.promote()
    with pytest.raises(DatabaseError):
        one.renew(1, lease_ms=_LONG_MS)
    assert one.renew(1, lease_ms=_LONG_MS) == Renewed("")


def test_an_answer_that_no_standby_has_does_not_count(pair: list[DatabaseServer], candidate: _Candidates) -> None:
    primary, standby = pair
    one, impatient = candidate(primary, standby), candidate(primary, standby, answer_ms=3_000)
    take(one, "pb1")
    # Before the standby ends, so that all its time goes by while it waits for that.
    reached(impatient.look)
    standby.kill()
    with pytest.raises(DatabaseError, match="did not answer within 3000 ms"):
        impatient.want("pb2", lease_ms=_LONG_MS)
    errors: list[DatabaseError] = []

    def renew() -> None:
        try:
            one.renew(1, lease_ms=_LONG_MS)
        except DatabaseError as error:
            errors.append(error)

    waiting = Thread(target=renew)
    waiting.start()
    # Both wait for the standby: the one that was given up does so without anybody's knowledge.
    primary.wait_until("SELECT count(*) >= 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    while waiting.is_alive():
        primary.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        waiting.join(0.05)
    assert [str(each) for each in errors] == ["the database did not wait for its standby, so its answer does not count"]


def test_a_stopped_server_is_given_up(server: DatabaseServer, candidate: _Candidates) -> None:
    one = candidate(server, answer_ms=3_000)
    reached(lambda: take(one, "pb1"))
    epoch = reached(one.look).epoch
    server.pause()
    try:
        with pytest.raises(DatabaseError, match="did not answer within 3000 ms"):
            one.renew(epoch, lease_ms=_LONG_MS)
        # The driver may give up first, after the same time.
        with pytest.raises(DatabaseUnreachableError, match=r"no answer|timeout expired"):
            one.renew(epoch, lease_ms=_LONG_MS)
    finally:
        server.resume()
    assert reached(lambda: one.renew(epoch, lease_ms=_LONG_MS)) == Renewed("")


def test_that_the_database_waits_for_its_standby_is_told(pair: list[DatabaseServer], candidate: _Candidates) -> None:
    primary, standby = pair
    holdings = candidate(primary, answer_ms=1_000)
    taken(holdings, "pb1", lease_ms=_SHORT_MS)
    standby.kill()
    errors: list[str] = []
    while len(errors) < 3:
        with suppress(DatabaseUnreachableError):
            try:
                take(holdings, "pb1")
            except DatabaseError as error:
                errors.append(str(error))
    assert errors[-1] == f"the database at 127.0.0.1:{primary.port} waits for its standby"
