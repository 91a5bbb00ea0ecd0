"""The connection of a store: whose the store is, doubts, standbys, and what is said while somebody waits."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from live.postgres.opening import Opener
from penstock.broker.candidate import Taken
from penstock.broker.durable import Append, SetValue
from penstock.lab.databases import DatabaseServer
from penstock.live.postgres.connecting import store_application
from penstock.live.postgres.fenced import replicas_of
from penstock.live.postgres.place import DatabasePlace
from penstock.live.postgres.store import DatabaseStore
from penstock.live.store import StoreFailedError
from penstock.live.store.errors import StoreFencedError, StoreRefusedError
from penstock.live.tenure import Tenure
from penstock.model.tick import TICK_MAX, Tick

_LONG_MS = 3_600_000


def value_of(store: DatabaseStore, name: str) -> bytes | None:
    return store.recovered().values.get(name)


def waits(primary: DatabaseServer, opener: Opener) -> None:
    """Wait until a commit of the store waits for the standby."""
    application = store_application(opener.overlay, "b1")
    primary.wait_until(
        f"SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '{application}' AND wait_event = 'SyncRep'"
    )


def in_thread(work: Callable[[], None]) -> tuple[Thread, list[Exception]]:
    errors: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - for the thread of the test
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    return thread, errors


def test_whoever_opens_a_store_without_an_epoch_ends_the_one_before(server: DatabaseServer, opener: Opener) -> None:
    former = opener.open(server)
    former.commit([SetValue("v", b"1")])
    later = opener.open(server)
    assert value_of(later, "v") == b"1"
    with pytest.raises(StoreFencedError, match="somebody else has"):
        former.commit([SetValue("v", b"2")])
    with pytest.raises(StoreFailedError, match="somebody else has"):
        former.commit([SetValue("v", b"2")])
    assert value_of(later, "v") == b"1"


def test_a_store_whose_epoch_is_over_reads_nothing(server: DatabaseServer, opener: Opener) -> None:
    former = opener.open(server)
    former.commit([Append("p", [(Tick(5), b"x")])])
    opener.open(server)
    with pytest.raises(StoreFencedError):
        former.read_part("p", Tick(1), Tick(9), bytes_max=100)
    with pytest.raises(StoreFencedError):
        former.read_kept(["k"], bytes_max=100)


def test_a_store_is_opened_for_the_epoch_that_was_taken(server: DatabaseServer, opener: Opener) -> None:
    holdings = opener.holdings(server)
    assert holdings.take("pb1", lease_ms=_LONG_MS, place=0, stagger_ms=0) == Taken(1)
    tenure = Tenure(1, holdings.life)
    store = opener.open(server, tenure=tenure)
    store.commit([SetValue("v", b"1")])
    assert holdings.take("pb1", lease_ms=_LONG_MS, place=0, stagger_ms=0) == Taken(2)
    with pytest.raises(StoreFencedError, match="epoch 1 is over"):
        store.commit([SetValue("v", b"2")])
    with pytest.raises(StoreRefusedError, match="epoch 1 of b1 is over"):
        opener.open(server, tenure=tenure)


def test_of_two_that_have_taken_the_same_epoch_only_the_one_in_the_row_counts(
    server: DatabaseServer, opener: Opener
) -> None:
    former = opener.open(server)
    # A standby that lacked the row of a take-over was promoted, and the epoch was given away again.
    server.execute(f"UPDATE penstock.holdings SET life = 'another' WHERE overlay = '{opener.overlay}'")
    with pytest.raises(StoreFencedError):
        former.commit([SetValue("v", b"1")])
    with pytest.raises(StoreRefusedError, match="epoch 1 of b1 is over"):
        opener.open(server, tenure=Tenure(1, "mine"))


def test_what_another_one_has_committed_is_not_taken_for_our_own(server: DatabaseServer, opener: Opener) -> None:
    holdings = opener.holdings(server)
    assert holdings.take("pb1", lease_ms=_LONG_MS, place=0, stagger_ms=0) == Taken(1)
    one, two = (opener.open(server, tenure=Tenure(1, holdings.life)) for _ in range(2))
    # The second one has committed when it was opened.
    for _ in range(2):
        with pytest.raises(StoreFailedError, match="somebody else has written to the store"):
            one.commit([SetValue("v", b"1")])
    assert value_of(two, "v") is None


def test_what_a_role_is_set_to_keeps_no_warning_from_us(pair: list[DatabaseServer], opener: Opener) -> None:
    primary, standby = pair
    primary.execute("ALTER ROLE penstock SET client_min_messages = error")
    store = opener.open(primary, standby)
    standby.pause()
    thread, errors = in_thread(lambda: store.commit([SetValue("v", b"1")]))
    waits(primary, opener)
    primary.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    waits(primary, opener)
    assert thread.is_alive()
    standby.resume()
    thread.join()
    assert errors == []


def test_a_commit_whose_connection_was_cut_is_repeated_if_it_was_not_done(
    server: DatabaseServer, opener: Opener
) -> None:
    store = opener.open(server)
    store.commit([Append("p", [(Tick(5), b"x")], sequences={b"a": 1})])
    application = store_application(opener.overlay, "b1")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{application}'")
    store.commit([Append("p", [(Tick(6), b"y")], sequences={b"a": 2})])
    assert [tick for tick, _ in store.read_part("p", Tick(1), TICK_MAX, bytes_max=100).messages] == [5, 6]
    assert opener.said


def test_a_commit_in_doubt_is_not_repeated_if_it_was_done(pair: list[DatabaseServer], opener: Opener) -> None:
    primary, standby = pair
    store = opener.open(primary, standby)
    store.commit([Append("p", [(Tick(5), b"x")])])
    standby.pause()
    thread, errors = in_thread(lambda: store.commit([Append("p", [(Tick(6), b"y")])]))
    waits(primary, opener)
    # It has happened here, and the standby has not heard of it. To know that takes another commit that waits.
    application = store_application(opener.overlay, "b1")
    primary.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{application}'")
    waits(primary, opener)
    assert thread.is_alive()
    standby.resume()
    thread.join()
    assert errors == []
    assert [tick for tick, _ in store.read_part("p", Tick(1), TICK_MAX, bytes_max=100).messages] == [5, 6]


def test_a_commit_that_ends_while_its_repetition_waits_for_it_is_done_once(
    pair: list[DatabaseServer], opener: Opener
) -> None:
    primary, standby = pair
    store = opener.open(primary, standby, answer_ms=4_000)
    standby.pause()
    thread, errors = in_thread(lambda: store.commit([Append("p", [(Tick(6), b"y")])]))
    # Nobody answered in time, so the store has connected again, and does not see yet what was given up.
    application = store_application(opener.overlay, "b1")
    where = f"application_name = '{application}' AND wait_event_type = 'Lock'"
    primary.wait_until(f"SELECT count(*) > 0 FROM pg_stat_activity WHERE {where}")
    standby.resume()
    thread.join()
    assert errors == []
    assert [tick for tick, _ in store.read_part("p", Tick(1), TICK_MAX, bytes_max=100).messages] == [6]


def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_not_over(
    pair: list[DatabaseServer], opener: Opener
) -> None:
    primary, standby = pair
    store = opener.open(primary, standby)
    standby.pause()
    thread, errors = in_thread(lambda: store.commit([SetValue("v", b"1")]))
    for _ in range(2):
        waits(primary, opener)
        primary.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    waits(primary, opener)
    assert thread.is_alive()
    standby.resume()
    thread.join()
    assert errors == []


def test_a_store_goes_on_at_the_promoted_standby(pair: list[DatabaseServer], opener: Opener) -> None:
    primary, standby = pair
    store = opener.open(primary, standby)
    store.commit([Append("p", [(Tick(5), b"x")])])
    primary.kill()
    thread, errors = in_thread(lambda: store.commit([Append("p", [(Tick(6), b"y")])]))
    while not any("no server among" in said for said in opener.said):
        thread.join(0.02)
    standby.promote()
    thread.join()
    assert errors == []
    assert [tick for tick, _ in store.read_part("p", Tick(1), TICK_MAX, bytes_max=100).messages] == [5, 6]


def written(store: DatabaseStore) -> None:
    store.commit([SetValue("v", b"2")])


def read(store: DatabaseStore) -> None:
    store.read_part("p", Tick(1), Tick(9), bytes_max=100)


@pytest.mark.parametrize("use", [written, read])
def test_a_database_that_lost_commits_is_neither_written_to_nor_believed(
    pair: list[DatabaseServer], opener: Opener, use: Callable[[DatabaseStore], None]
) -> None:
    primary, standby = pair
    store = opener.open(primary, standby)
    primary.set(synchronous_standby_names="")
    standby.kill()
    store.commit([Append("p", [(Tick(5), b"x")])])
    primary.kill()
    standby.start().promote()
    with pytest.raises(StoreFailedError, match=r"the database has lost commits: it has 1 .* made 2"):
        use(store)


def test_too_few_standbys_hold_a_commit(pair: list[DatabaseServer], opener: Opener) -> None:
    primary, standby = pair
    store = opener.open(primary, standby, replicas_min=1)
    assert store.replicas == 1
    primary.set(synchronous_standby_names="")
    thread, errors = in_thread(lambda: store.commit([SetValue("v", b"1")]))
    wanted = "the database waits for 0 standbys with each commit, and replicas_min is 1"
    while wanted not in opener.said:
        thread.join(0.02)
    assert thread.is_alive()
    primary.set(synchronous_standby_names="db2")
    thread.join()
    assert errors == []


def test_who_does_not_wait_any_more_ends_a_commit(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    server.pause()
    # It is asked as soon as the database has been silent for a second, long before another connection is tried.
    opener.may_wait = False
    try:
        with pytest.raises(StoreFailedError, match="nobody waits any more"):
            store.commit([SetValue("v", b"1")])
    finally:
        server.resume()


def test_a_store_that_cannot_be_reached_is_refused(opener: Opener, server: DatabaseServer) -> None:
    place = DatabasePlace("postgresql://penstock@127.0.0.1:1/postgres", "o", "b1", answer_ms=2_000)
    with pytest.raises(StoreRefusedError, match=r"cannot be opened: no server among 127\.0\.0\.1:1 is"):
        place.open(lambda _: None)
    assert place.shown == "postgresql://penstock@127.0.0.1:1/postgres"


@pytest.mark.parametrize(
    ("names", "level", "replicas"),
    [
        ("", "on", 0),
        ("db2", "on", 1),
        ("db2, db3", "on", 1),
        ("FIRST 2 (a, b, c)", "on", 2),
        ("any 1 (a, b)", "remote_apply", 1),
        ("2 (a, b)", "on", 2),
        ("*", "on", 1),
        ("db2", "remote_write", 0),
        ("db2", "local", 0),
    ],
)
def test_how_many_standbys_a_commit_waits_for_follows_from_the_settings(names: str, level: str, replicas: int) -> None:
    assert replicas_of(names, level) == replicas
