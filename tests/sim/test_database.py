"""A shared database keeps what it has acknowledged, may keep what nobody was told of, and answers or does not."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.sim.database import Connection, Doubtful
from penstock.sim.transactions import Done, Evict, Look, Passed, Tell
from sim.shared import ANSWER_MS, HOME, Shared, committing


@pytest.fixture
def shared() -> Shared:
    return Shared()


def connected(shared: Shared, client: str = "b1") -> Connection:
    connection = shared.connected(client)
    assert connection is not None
    return connection


def ticks(shared: Shared) -> list[int]:
    return shared.database.content(HOME).disk.ticks("q")


def answer(shared: Shared, connection: Connection, number: int, *, ms: int = 5_000) -> object:
    said: list[object] = []
    connection.ask(committing(number), answer_ms=ANSWER_MS).then(said.append)
    shared.run(ms)
    return said[0] if said else "nothing yet"


def test_what_is_acknowledged_is_at_the_standby_too(shared: Shared) -> None:
    assert answer(shared, connected(shared), 1) == Done()
    assert shared.standby.contents[HOME].disk.ticks("q") == [1]


def test_nobody_sees_or_hears_of_a_commit_that_the_standby_lacks(shared: Shared) -> None:
    shared.primary.is_replicating = False
    connection = connected(shared)
    assert answer(shared, connection, 1, ms=ANSWER_MS // 2) == "nothing yet"
    assert ticks(shared) == []
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(10)
    assert ticks(shared) == [1]


def test_without_a_standby_to_wait_for_a_commit_may_be_lost() -> None:
    shared = Shared(is_synchronous=False)
    shared.primary.is_replicating = False
    assert answer(shared, connected(shared), 1) == Done()
    shared.primary.crash(loud=True)
    shared.database.promote()
    assert ticks(shared) == []


def test_a_promoted_standby_has_what_reached_it_though_nobody_was_told(shared: Shared) -> None:
    connection = connected(shared)
    said: list[object] = []
    connection.ask(committing(1), answer_ms=ANSWER_MS).then(said.append)
    shared.primary.sync_us = 0
    shared.clock.run_for(300 + 200 + 600)
    assert shared.standby.contents[HOME].disk.ticks("q") == [1]
    shared.primary.crash(loud=True)
    shared.database.promote()
    shared.run(10)
    assert said == [None]
    assert (ticks(shared), shared.primary.timeline) == ([1], 2)


def test_a_primary_that_comes_back_has_what_it_had_written(shared: Shared) -> None:
    shared.primary.is_replicating = False
    answer(shared, connected(shared), 1, ms=100)
    shared.primary.crash(loud=True)
    assert not connected_at_all(shared)
    shared.database.start(shared.primary)
    assert ticks(shared) == [1]


def connected_at_all(shared: Shared) -> bool:
    return shared.connected() is not None


def test_a_former_primary_never_acknowledges_anything(shared: Shared) -> None:
    former = shared.primary
    connection = connected(shared)
    shared.database.promote()
    assert answer(shared, connection, 1) is None
    assert ticks(shared) == []
    assert former.contents[HOME].disk.ticks("q") == []


def test_who_reaches_two_primaries_takes_the_one_promoted_last(shared: Shared) -> None:
    former = shared.primary
    shared.database.promote()
    assert connected(shared).server is shared.primary
    shared.cut("b1", shared.primary)
    assert connected(shared).server is former


def test_nobody_is_connected_with_a_former_primary_that_follows_by_the_time_it_answers(shared: Shared) -> None:
    shared.cut("b1", shared.standby)
    connecting = shared.begin(shared.database.connecting("b1", "test", listens=HOME, answer_ms=ANSWER_MS))
    shared.run(5)
    shared.database.promote()
    shared.database.rejoin()
    shared.run(ANSWER_MS)
    assert connecting == [None]


def test_a_former_primary_that_follows_has_what_the_new_one_has(shared: Shared) -> None:
    former = shared.primary
    connection = connected(shared)
    shared.database.promote()
    connection.ask(committing(1), answer_ms=ANSWER_MS)
    shared.run(20)
    assert answer(shared, connected(shared), 1) == Done()
    shared.database.rejoin()
    assert shared.standby is former
    assert answer(shared, connected(shared), 2) == Done()
    assert former.contents[HOME].disk.ticks("q") == [1, 2]


def test_a_copy_for_a_standby_has_what_is_still_waiting(shared: Shared) -> None:
    shared.standby.crash(loud=True)
    answer(shared, connected(shared), 1, ms=50)
    shared.database.rejoin()
    shared.run(10)
    assert shared.standby.contents[HOME].disk.ticks("q") == [1]
    assert ticks(shared) == [1]


def test_a_cancelled_wait_leaves_the_commit_in_doubt(shared: Shared) -> None:
    shared.primary.is_replicating = False
    said: list[object] = []
    connected(shared).ask(committing(1), answer_ms=ANSWER_MS).then(said.append)
    shared.run(20)
    assert shared.primary.cancel_waits() == 1
    shared.run(5)
    assert (said, ticks(shared)) == ([Doubtful()], [1])


def test_what_a_client_gave_up_may_be_done_later(shared: Shared) -> None:
    connection = connected(shared)
    shared.primary.gate.shut()
    assert answer(shared, connection, 1) is None
    assert not connection.is_open
    shared.database.go_on(shared.primary)
    shared.run(20)
    assert ticks(shared) == [1]


def test_the_same_commit_happens_once_however_often_it_is_asked_for(shared: Shared) -> None:
    first, second = connected(shared), connected(shared)
    said: list[object] = []
    for connection in (first, second):
        connection.ask(committing(1), answer_ms=ANSWER_MS).then(said.append)
    shared.run(50)
    assert said == [Done(), Passed()]
    assert ticks(shared) == [1]


def test_a_slow_server_may_answer_too_late(shared: Shared) -> None:
    connection = connected(shared)
    shared.primary.slowness = 1_000.0
    assert answer(shared, connection, 1) is None
    assert ticks(shared) == [1]


@pytest.mark.parametrize(("way", "is_done"), [(0, False), (1, True)])
def test_a_path_may_lose_the_question_or_the_answer(shared: Shared, way: int, is_done: bool) -> None:
    connection = connected(shared)
    shared.cut("b1", shared.primary, way)
    assert answer(shared, connection, 1) is None
    assert bool(ticks(shared)) == is_done


def mend(shared: Shared) -> None:
    shared.database.paths["b1", "db1"].is_cut = [False, False]


def test_a_question_arrives_late_if_the_path_is_mended_in_time(shared: Shared) -> None:
    connection = connected(shared)
    shared.cut("b1", shared.primary)
    shared.clock.after(400_000, partial(mend, shared))
    assert answer(shared, connection, 1) == Done()


def test_who_is_evicted_loses_the_connection_and_what_was_not_written(shared: Shared) -> None:
    store, other = connected(shared), connected(shared)
    store.application = "store"
    shared.primary.sync_us = 100_000
    said: list[object] = []
    store.ask(committing(1), answer_ms=ANSWER_MS).then(said.append)
    shared.run(5)
    other.ask(Evict("store"), answer_ms=ANSWER_MS)
    shared.run(500)
    assert (said, store.is_open, other.is_open, ticks(shared)) == ([None], False, True, [])


def test_who_listens_is_told_of_news_unless_it_is_asking(shared: Shared) -> None:
    listening, asking = connected(shared), connected(shared)
    told: list[str] = []
    listening.on_news = lambda: told.append("listening")
    asking.on_news = lambda: told.append("asking")
    asking.ask(Tell(HOME), answer_ms=ANSWER_MS)
    shared.clock.run_for(650)
    assert told == []
    shared.run(10)
    assert told == ["listening"]


def test_a_stopped_server_answers_when_it_goes_on(shared: Shared) -> None:
    connection = connected(shared)
    shared.primary.gate.shut()
    said: list[object] = []
    connection.ask(Look(HOME), answer_ms=ANSWER_MS).then(said.append)
    shared.run(ANSWER_MS // 2)
    assert said == []
    shared.database.go_on(shared.primary)
    shared.run(10)
    assert len(said) == 1


def test_a_dead_server_that_says_nothing_is_noticed_after_the_time_for_an_answer(shared: Shared) -> None:
    connection = connected(shared)
    shared.primary.crash(loud=False)
    began_ms = shared.clock.now_ms
    said: list[int] = []
    connection.ask(Look(HOME), answer_ms=ANSWER_MS).then(lambda _: said.append(shared.clock.now_ms - began_ms))
    shared.run(5_000)
    assert said == [ANSWER_MS]
