from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.protocol.frames import Goodbye, Hello
from penstock.session.address import Address
from penstock.session.connecting import Reconnect
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.settings import ClientSettings
from session.stage import NEW, OLD, Stage, welcome

ONCE = ClientSettings(connect_timeout_ms=0)


def lost_at(now_ms: int, **changes: Any) -> Reconnect:
    settings = ClientSettings(backoff_first_ms=100, backoff_max_ms=1_000, **changes)
    reconnect = Reconnect(settings, Random(3))
    reconnect.on_lost(now_ms=now_ms)
    return reconnect


def test_pauses_double_up_to_their_limit_and_differ_by_chance() -> None:
    reconnect = lost_at(0)
    pauses = [reconnect.pause_ms(now_ms=0) for _ in range(40)]
    for pause, longest in zip(pauses, [100, 200, 400, 800, *[1_000] * 36], strict=True):
        assert pause is not None
        assert longest // 2 <= pause <= longest
    assert len({*pauses[4:]}) > 10


def test_a_connection_that_lasted_begins_with_short_pauses_again() -> None:
    reconnect = lost_at(0)
    for _ in range(5):
        reconnect.pause_ms(now_ms=0)
    reconnect.on_welcome(now_ms=10_000)
    reconnect.on_lost(now_ms=11_000)
    assert (reconnect.pause_ms(now_ms=11_000) or 0) <= 100


def test_a_connection_that_did_not_last_counts_as_a_failure() -> None:
    reconnect = lost_at(0)
    for _ in range(5):
        reconnect.pause_ms(now_ms=0)
    reconnect.on_welcome(now_ms=10_000)
    reconnect.on_lost(now_ms=10_001)
    assert (reconnect.pause_ms(now_ms=10_001) or 0) >= 500


def test_a_client_gives_up_after_its_time_without_a_connection() -> None:
    reconnect = lost_at(1_000, give_up_ms=500)
    assert reconnect.pause_ms(now_ms=1_499) is not None
    reconnect.on_lost(now_ms=1_499)
    assert reconnect.pause_ms(now_ms=1_500) is None


@pytest.mark.parametrize(
    ("code", "may"), [("refused", False), ("", True), ("shutdown", True), ("slow", True), ("full", True)]
)
def test_only_a_refusal_is_final(code: str, may: bool) -> None:
    assert Reconnect.may_follow(code) is may


# With a session around it.


def test_addresses_are_tried_in_turn_and_the_one_that_worked_is_kept() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.lose(stage.open(), "Connection refused")
    assert str(stage.dialled[stage.line]) == NEW
    stage.welcome(stage.line, "new")
    assert stage.session.is_up
    stage.lose(stage.line)
    stage.run(100)
    assert [str(each) for each in stage.dialled.values()] == [OLD, NEW, OLD]
    assert stage.session.reconnects == 0
    stage.welcome(stage.line, "old")
    assert stage.session.reconnects == 1


THREE = tuple(f"penstock://{name}:7000" for name in "abc")


def killing(stage: Stage, apart_ms: int) -> int:
    """Kills the broker of the session, which then comes back; returns how long the session was without one.

    Each attempt takes 50 ms to fail or to be welcomed.
    """
    dead, lost_ms = str(stage.dialled[stage.line]), stage.now_ms
    stage.lose(stage.line)
    while not stage.session.is_up:
        if stage.line in stage.gone:
            stage.run(1)
            continue
        stage.run(50)
        if str(stage.dialled[stage.line]) == dead:
            stage.lose(stage.line, "Connection refused")
        else:
            stage.welcome(stage.line)
    away_ms = stage.now_ms - lost_ms
    stage.run(max(apart_ms - away_ms, 0))
    return away_ms


def test_a_lost_broker_is_replaced_at_once_however_many_were_lost_before() -> None:
    stage = Stage(",".join(THREE))
    stage.open()
    # The brokers come up some time after the program, so it has paused for longer and longer.
    for _ in range(8):
        for _ in THREE:
            stage.lose(stage.line, "Connection refused")
        stage.run(1_000)
    stage.welcome(stage.line)
    # The first one does not last.
    assert [away_ms for _ in range(100) if (away_ms := killing(stage, 2_000)) > 110] == []


def test_after_a_loss_the_others_are_tried_first_and_the_lost_address_last() -> None:
    stage = Stage(",".join(THREE))
    stage.lose(stage.open())
    stage.welcome(stage.line)
    stage.run(5_000)
    stage.lose(stage.line)
    stage.run(50)
    for _ in range(2):
        stage.lose(stage.line, "Connection refused")
    a, b, c = THREE
    assert [str(each) for each in stage.dialled.values()] == [a, b, c, a, b]
    stage.lose(stage.line, "Connection refused")
    # All have failed: now there is a pause, twice as long.
    stage.run(49)
    assert len(stage.dialled) == 5
    stage.run(51)
    assert len(stage.dialled) == 6


def test_brokers_that_end_each_connection_at_once_get_longer_and_longer_rests() -> None:
    stage = Stage(",".join(THREE))
    stage.open()
    welcomes_ms: list[int] = []
    while stage.now_ms < 120_000:
        stage.welcome(stage.line)
        welcomes_ms.append(stage.now_ms)
        stage.lose(stage.line)
        stage.run((stage.session.next_deadline() or 0) - stage.now_ms)
    rounds_ms = [later - earlier for earlier, later in zip(welcomes_ms, welcomes_ms[3:], strict=False)]
    assert rounds_ms[0] < 200
    assert min(rounds_ms[-6:]) >= 5_000


def test_clients_that_lose_a_broker_together_do_not_come_to_the_next_one_in_step() -> None:
    stage = Stage(",".join(THREE))
    stage.welcome(stage.open())
    pauses_ms: list[int] = []
    for _ in range(20):
        lost_ms = stage.now_ms
        stage.lose(stage.line)
        pauses_ms.append((stage.session.next_deadline() or 0) - lost_ms)
        stage.run(50)
        stage.welcome(stage.line)
        stage.run(2_000)
    assert max(pauses_ms) <= 50
    assert len(set(pauses_ms)) > 5


def test_every_address_that_failed_at_first_is_named_and_that_is_the_end() -> None:
    stage = Stage(f"{OLD},{NEW}", ONCE)
    stage.lose(stage.open(), "Connection refused")
    stage.connect(stage.line)
    stage.lose(stage.line, "the broker closed the connection")
    assert isinstance(stage.end, ConnectionFailedError)
    assert str(stage.end) == f"{OLD}: Connection refused; {NEW}: the broker closed the connection"
    assert stage.session.next_deadline() is None


def test_the_first_connection_is_tried_again_until_there_is_one() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.lose(stage.open(), "Connection refused")
    stage.lose(stage.line, "Connection refused")
    for round_ in range(2, 12):
        # A pause, and no longer than a second.
        assert len(stage.dialled) == 2 * round_ - 2
        stage.run(1_000)
        stage.lose(stage.line, "Connection refused")
        stage.lose(stage.line, "Connection refused")
    stage.run(1_000)
    stage.welcome(stage.line)
    assert stage.session.is_up
    assert stage.end is None
    assert stage.session.reconnects == 0
    stage.run(60_000)
    assert stage.session.is_up


def test_the_search_ends_in_time_and_names_the_last_problem_of_each_address() -> None:
    stage = Stage(f"{OLD},{NEW}", ClientSettings(connect_timeout_ms=2_500))
    stage.lose(stage.open(), "no such host")
    stage.lose(stage.line, "Connection refused")
    began_ms = stage.now_ms
    while stage.end is None and stage.now_ms < began_ms + 10_000:
        stage.run(1)
        if stage.line not in stage.gone and str(stage.dialled[stage.line]) == OLD:
            stage.lose(stage.line, "Connection reset")
    # The other address is silent from then on, and has too little time to answer.
    assert stage.now_ms == began_ms + 2_500
    assert isinstance(stage.end, ConnectionFailedError)
    problems = f"{OLD}: Connection reset; {NEW}: Connection refused"
    assert str(stage.end) == f"no broker answered within 2.5 s: {problems}"
    assert stage.session.next_deadline() is None
    assert {*stage.dialled} == {*stage.gone}


def test_the_search_may_last_for_ever() -> None:
    stage = Stage(settings=ClientSettings(connect_timeout_ms=None))
    stage.open()
    for _ in range(200):
        stage.lose(stage.line, "Connection refused")
        stage.run(1_000)
    assert stage.end is None
    stage.welcome(stage.line)
    assert stage.session.is_up


def test_what_does_not_get_better_ends_the_search_at_once() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.open()
    for problem in ("the certificate is not trusted", "not a broker"):
        assert stage.end is None
        stage.react(stage.session.on_lost(stage.line, problem, now_ms=stage.now_ms, is_hopeless=True))
    assert str(stage.end) == f"{OLD}: the certificate is not trusted; {NEW}: not a broker"


def test_one_address_that_may_get_better_is_enough_to_go_on() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.react(stage.session.on_lost(stage.open(), "not trusted", now_ms=stage.now_ms, is_hopeless=True))
    stage.lose(stage.line, "Connection refused")
    stage.run(1_000)
    assert stage.end is None
    assert len(stage.dialled) == 3


def test_after_the_first_connection_even_a_wrong_certificate_is_tried_again() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    stage.lose(stage.line)
    stage.run(1_000)
    stage.react(stage.session.on_lost(stage.line, "not trusted", now_ms=stage.now_ms, is_hopeless=True))
    stage.run(1_000)
    assert stage.end is None
    assert len(stage.dialled) == 3


def test_a_goodbye_for_a_breach_of_the_protocol_before_the_welcome_ends_the_search() -> None:
    stage = Stage()
    stage.connect(stage.open())
    stage.tell(1, Goodbye("protocol", "version 3 is spoken here"))
    assert "version 3 is spoken here" in str(stage.end)


def test_a_refusal_ends_the_search_with_the_brokers_reason() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.connect(stage.open())
    stage.tell(1, Goodbye("refused", "authentication failed"))
    assert isinstance(stage.end, RefusedError)
    assert str(stage.end) == "the broker refused to let this client in: authentication failed"
    assert len(stage.dialled) == len(stage.gone) == 1


def test_another_goodbye_leads_to_the_next_address() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.connect(stage.open())
    stage.tell(1, Goodbye("full", "too many"))
    assert str(stage.dialled[stage.line]) == NEW


def test_a_goodbye_right_behind_the_welcome_is_a_failed_attempt() -> None:
    stage = Stage(settings=ONCE)
    stage.connect(stage.open())
    stage.tell(1, welcome("old"), Goodbye("full", "too many"))
    assert str(stage.end) == f"{OLD}: too many (full)"


@pytest.mark.parametrize("is_made", [True, False])
def test_a_broker_that_says_nothing_is_given_up_in_time(is_made: bool) -> None:
    stage = Stage(settings=ClientSettings(connect_ms=30, connect_timeout_ms=0))
    stage.open()
    if is_made:
        stage.connect(1)
    stage.run(29)
    assert stage.end is None
    stage.run(1)
    assert str(stage.end) == f"{OLD}: no welcome within 30 ms"
    assert 1 in stage.gone


def test_a_broker_that_breaks_the_protocol_at_once_is_told_so() -> None:
    stage = Stage()
    stage.connect(stage.open())
    stage.tell(1, Hello(1, "broker", "b", "o"))
    assert stage.of(1, Goodbye)[0].code == "protocol"
    assert "first frame is Hello" in str(stage.end)


def test_a_lost_line_is_made_again_until_the_broker_refuses() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    for round_ in range(1, 4):
        stage.lose(stage.line)
        assert not stage.session.is_up
        stage.run(10_000)
        stage.welcome(stage.line)
        assert stage.session.reconnects == round_
    stage.tell(stage.line, Goodbye("refused", "no more"))
    assert isinstance(stage.end, RefusedError)
    assert str(stage.end) == "the broker refused to go on: no more"
    assert stage.session.next_deadline() is None


def test_a_refusal_at_the_return_is_final() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    stage.lose(1)
    stage.run(100)
    stage.connect(stage.line)
    stage.tell(stage.line, Goodbye("refused", "token withdrawn"))
    assert isinstance(stage.end, RefusedError)


def test_giving_up_says_what_was_wrong() -> None:
    stage = Stage(settings=ClientSettings(backoff_first_ms=1, backoff_max_ms=2, give_up_ms=20))
    stage.welcome(stage.open())
    stage.lose(1)
    while stage.end is None:
        stage.run(2)
        stage.lose(stage.line, "Connection refused")
    assert str(stage.end) == f"no connection for 20 ms: {OLD}: Connection refused"


def test_pauses_between_attempts_grow_and_differ_by_chance() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    stage.lose(1)
    pauses_ms: list[int] = []
    for _ in range(12):
        deadline_ms = stage.session.next_deadline()
        assert deadline_ms is not None
        pauses_ms.append(deadline_ms - stage.now_ms)
        stage.run(pauses_ms[-1])
        stage.lose(stage.line, "Connection refused")
    assert all(25 << turn <= pause_ms <= 50 << turn for turn, pause_ms in enumerate(pauses_ms[:8]))
    assert all(5_000 <= pause_ms <= 10_000 for pause_ms in pauses_ms[8:])
    assert len(set(pauses_ms[8:])) > 1


def test_addresses_that_brokers_told_of_come_last_and_are_few() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    connecting = stage.session._connecting
    for port in range(7_001, 7_021):
        connecting.learn(Address("told", port))
    assert [each.port for each in connecting._addresses] == [7000, *range(7_020, 7_012, -1)]
