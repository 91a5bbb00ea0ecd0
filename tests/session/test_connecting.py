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
    assert [str(each) for each in stage.dialled.values()] == [OLD, NEW, NEW]
    assert stage.session.reconnects == 0
    stage.welcome(stage.line, "new")
    assert stage.session.reconnects == 1


def test_every_address_that_failed_at_first_is_named_and_that_is_the_end() -> None:
    stage = Stage(f"{OLD},{NEW}")
    stage.lose(stage.open(), "Connection refused")
    stage.connect(stage.line)
    stage.lose(stage.line, "the broker closed the connection")
    assert isinstance(stage.end, ConnectionFailedError)
    assert str(stage.end) == f"{OLD}: Connection refused; {NEW}: the broker closed the connection"
    assert stage.session.next_deadline() is None


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
    stage = Stage()
    stage.connect(stage.open())
    stage.tell(1, welcome("old"), Goodbye("full", "too many"))
    assert str(stage.end) == f"{OLD}: too many (full)"


@pytest.mark.parametrize("is_made", [True, False])
def test_a_broker_that_says_nothing_is_given_up_in_time(is_made: bool) -> None:
    stage = Stage(settings=ClientSettings(connect_ms=30))
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
