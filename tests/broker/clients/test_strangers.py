"""Strangers are few, and the answers to their guesses come late."""

from __future__ import annotations

import pytest

from penstock.broker.clients.strangers import (
    FORGET_MS,
    REFUSAL_MS,
    REFUSAL_MS_MAX,
    SOURCES_MAX,
    Strangers,
    source_of,
)
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.broker.settings import BrokerSettings
from penstock.protocol.errors import ProtocolError

NO = "authentication failed"


def peer(number: int, source: str = "10.0.0.1") -> Peer:
    return Peer(number, Outbox(control_bytes_max=1_000, data_bytes_max=1_000), 0, 0, source=source)


def entered(strangers: Strangers, number: int, source: str = "10.0.0.1") -> Peer:
    came = peer(number, source)
    assert strangers.enter(came) == []
    return came


def test_the_oldest_stranger_goes_when_there_are_too_many() -> None:
    strangers = Strangers(BrokerSettings("b1", strangers_max=2))
    first, second = entered(strangers, 1), entered(strangers, 2)
    reason = "more than 2 connections have not identified themselves"
    assert strangers.enter(peer(3)) == [Farewell(first, "full", reason)]
    strangers.leave(first)
    strangers.leave(second)
    assert strangers.enter(peer(4)) == []
    assert len(strangers) == 2


def test_refusals_of_one_address_come_later_and_later() -> None:
    strangers = Strangers(BrokerSettings("b1"))
    assert strangers.refuse(entered(strangers, 1), NO, now_ms=0) == [Farewell(strangers._peers[1], "refused", NO)]
    now_ms, waits = 0, []
    for number in range(2, 12):
        guesser = entered(strangers, number)
        assert strangers.refuse(guesser, NO, now_ms=now_ms) == []
        due_ms = strangers.next_deadline()
        assert due_ms is not None
        assert strangers.on_deadline(now_ms=due_ms - 1) == []
        assert strangers.on_deadline(now_ms=due_ms) == [Farewell(guesser, "refused", NO)]
        strangers.leave(guesser)
        waits.append(due_ms - now_ms)
        now_ms = due_ms
    assert waits[:4] == [REFUSAL_MS, 2 * REFUSAL_MS, 4 * REFUSAL_MS, 8 * REFUSAL_MS]
    assert waits[-1] == BrokerSettings("b1").handshake_ms // 2 <= REFUSAL_MS_MAX
    assert strangers.next_deadline() is None


def test_guesses_at_the_same_time_wait_one_after_the_other() -> None:
    strangers = Strangers(BrokerSettings("b1"))
    guessers = [entered(strangers, number) for number in range(4)]
    assert [bool(strangers.refuse(each, NO, now_ms=0)) for each in guessers] == [True, False, False, False]
    assert [each.peer.connection for each in strangers.on_deadline(now_ms=300)] == [1, 2]
    assert [each.peer.connection for each in strangers.on_deadline(now_ms=700)] == [1, 2, 3]


def test_other_addresses_are_not_slowed_and_old_refusals_are_forgotten() -> None:
    strangers = Strangers(BrokerSettings("b1"))
    assert strangers.refuse(entered(strangers, 1), NO, now_ms=0)
    assert strangers.refuse(entered(strangers, 2, "10.0.0.2"), NO, now_ms=0)
    assert strangers.refuse(entered(strangers, 3), NO, now_ms=FORGET_MS)


def test_the_addresses_that_are_remembered_are_limited() -> None:
    strangers = Strangers(BrokerSettings("b1", strangers_max=2 * SOURCES_MAX))
    for number in range(SOURCES_MAX + 1):
        assert strangers.refuse(entered(strangers, number, f"h{number}"), NO, now_ms=0)
    assert strangers.refuse(entered(strangers, 9_000, "h0"), NO, now_ms=0)
    assert not strangers.refuse(entered(strangers, 9_001, f"h{SOURCES_MAX}"), NO, now_ms=0)


def test_a_stranger_may_not_say_that_it_is_alive_unless_it_waits_for_its_refusal() -> None:
    strangers = Strangers(BrokerSettings("b1"))
    first, second = entered(strangers, 1), entered(strangers, 2)
    with pytest.raises(ProtocolError, match="Heartbeat from a stranger"):
        strangers.on_heartbeat(first)
    strangers.refuse(first, NO, now_ms=0)
    strangers.refuse(second, NO, now_ms=0)
    strangers.on_heartbeat(second)
    first.kind = PeerKind.CLIENT
    strangers.on_heartbeat(first)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_a_network_of_64_bits_counts_as_one_address(address: str, source: str) -> None:
    assert source_of(address) == source
