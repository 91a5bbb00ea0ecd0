from __future__ import annotations

from penstock.broker import Close, Record, Wake
from penstock.broker.connections import PROGRESS_BYTES, Connections
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.settings import BrokerSettings
from penstock.protocol.frames import Deliver, Goodbye, Heartbeat, Hello, StatusReply


def connections(**settings: int) -> Connections:
    return Connections(BrokerSettings("pb", **settings))  # type: ignore[arg-type]


def test_each_connection_is_woken_once_per_turn_however_much_is_queued() -> None:
    those = connections()
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    for _ in range(3):
        those.say(peer, Heartbeat(0))
    assert those.take_effects() == [Wake(1)]
    assert those.take_effects() == []


def test_a_client_that_does_not_read_its_data_must_go_but_a_link_only_loses_data() -> None:
    those = connections(client_outbox_bytes=100, link_outbox_bytes=100)
    client = those.open(1, dialled="", certificate="", now_ms=0)
    client.kind = PeerKind.CLIENT
    link = those.open(2, dialled="sb", certificate="", now_ms=0)
    link.name = "sb"
    those.link_up(link)
    for peer in (client, link):
        assert those.carry(peer, Deliver(0, [1], [b""], [b"x" * 50]))
        assert those.carry(peer, Deliver(0, [2], [b""], [b"x" * 50])), "one may pass the bound"
        assert not those.carry(peer, Deliver(0, [3], [b""], [b"x" * 50]))
    assert those.take_overflowed() == [client]
    assert those.take_overflowed() == []
    assert those.dropped == {"link": 1, "client": 1}


def test_what_goes_to_many_is_dropped_where_one_does_not_read() -> None:
    those = connections(client_outbox_bytes=100)
    for number in (1, 2):
        those.open(number, dialled="", certificate="", now_ms=0).kind = PeerKind.CLIENT
    assert those.carry(those.peers[1], Deliver(0, [1], [b""], [b"x" * 150]))
    assert those.carry_to([1, 2], Deliver(0, [2], [b""], [b"x"])) == 1
    assert those.take_overflowed() == [those.peers[1]]
    assert those.dropped["client"] == 1
    assert those.take_effects() == [Wake(1), Wake(2)]


def test_a_peer_that_does_not_read_its_control_frames_must_go() -> None:
    those = connections(control_outbox_bytes=1_000)
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    for _ in range(10):
        those.say(peer, Heartbeat(0))
    assert those.take_overflowed() == [peer]


def test_a_closed_connection_says_goodbye_and_can_still_be_emptied() -> None:
    those = connections()
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    those.close(peer, "slow", "too slow")
    those.forget(peer)
    assert those.outbox(1).take(1_000) == [Goodbye("slow", "too slow")]
    effects = those.take_effects()
    assert Close(1, "slow", "too slow") in effects
    assert any(isinstance(each, Record) and each.event == "closed" for each in effects)


def test_a_heartbeat_is_said_only_where_nothing_else_was() -> None:
    those = connections(heartbeat_ms=10, silent_ms=50)
    quiet, busy = (those.open(number, dialled="", certificate="", now_ms=0) for number in (1, 2))
    for peer in (quiet, busy):
        peer.kind = PeerKind.CLIENT
        peer.said = False
    those.say(busy, Hello(1, "broker", "pb", "penstock"))
    busy.outbox.take(1_000)
    assert those.beat(now_ms=10) == []
    assert quiet.outbox.take(1_000) == [Heartbeat(10)]
    assert busy.outbox.take(1_000) == []
    assert those.beat(now_ms=50) == [quiet, busy]


def clients(those: Connections, *names: str) -> list[Peer]:
    made = []
    for number, name in enumerate(names, start=1):
        peer = those.open(number, dialled="", certificate="", now_ms=0)
        peer.kind, peer.name = PeerKind.CLIENT, name
        made.append(peer)
    return made


def test_a_client_that_lets_too_much_wait_on_all_its_connections_loses_the_one_with_most() -> None:
    those = connections(client_waiting_bytes_max=5_000)
    first, second, other = clients(those, "deaf", "deaf", "other")
    for peer, size in ((first, 2_000), (second, 2_500), (other, 4_000)):
        those.carry(peer, Deliver(0, [1], [b""], [b"x" * size]))
    assert those.too_slow(now_ms=1) == []
    those.say(first, StatusReply(1, b"x" * 2_000))
    assert [each.peer for each in those.too_slow(now_ms=1)] == [first]
    those.close(first, "slow", "")
    those.forget(first)
    assert those.too_slow(now_ms=1) == []


def test_who_takes_nothing_while_publishers_wait_must_go_the_one_with_most_first() -> None:
    those = connections(held_back_bytes=150_000, heartbeat_ms=10, silent_ms=50)
    deaf, deafer, steady, idle = clients(those, "a", "b", "c", "d")
    for peer, count in ((deaf, 1), (deafer, 2), (steady, 3)):
        for tick in range(count):
            those.carry(peer, Deliver(0, [tick], [b""], [b"x" * 40_000]))
    for now_ms in (10, 20, 30, 40, 50, 60):
        idle.heard_ms = now_ms
        steady.outbox.take(7_000)
        those.carry(steady, Deliver(0, [now_ms], [b""], [b"x" * 40_000]))
        those.beat(now_ms=now_ms)
        assert [each.peer for each in those.too_slow(now_ms=now_ms)] == ([deafer] if now_ms == 60 else [])
    those.close(deafer, "slow", "")
    those.forget(deafer)
    assert [each.peer for each in those.too_slow(now_ms=60)] == [deaf]


def test_who_takes_nothing_stays_as_long_as_nobody_waits_for_it() -> None:
    those = connections(held_back_bytes=150_000, heartbeat_ms=10, silent_ms=50)
    (deaf,) = clients(those, "a")
    those.carry(deaf, Deliver(0, [1], [b""], [b"x" * 100_000]))
    for now_ms in (10, 100, 1_000):
        those.beat(now_ms=now_ms)
        assert those.too_slow(now_ms=now_ms) == []


def test_the_data_that_waits_is_added_up() -> None:
    those = connections()
    for number in (1, 2):
        frame = Deliver(0, [1], [b""], [b"x" * 100])
        those.carry(those.open(number, dialled="", certificate="", now_ms=0), frame)
        size = frame.size
    assert those.waiting_bytes() == 2 * size


def test_what_waits_for_a_connection_that_is_closed_holds_nobody_back() -> None:
    those = connections()
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    those.carry(peer, Deliver(0, [1], [b""], [b"x" * 100]))
    those.close(peer, "shutdown", "the end")
    those.forget(peer)
    assert those.waiting_bytes() == 0
    # It can still be sent, but is forgotten soon: who sends it holds it.
    outbox = those.outbox(1)
    those.beat(now_ms=1)
    assert [type(frame) for frame in outbox.take(1_000)] == [Goodbye, Deliver]
    assert those.waiting_bytes() == 0


def test_a_peer_that_did_not_read_gets_the_reason_and_nothing_else() -> None:
    those = connections()
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    those.carry(peer, Deliver(0, [1], [b""], [b"x" * 100]))
    those.close(peer, "slow", "too slow")
    assert peer.outbox.take(1_000) == [Goodbye("slow", "too slow")]
    assert those.waiting_bytes() == 0


def test_a_large_frame_that_keeps_arriving_is_no_silence_but_one_that_dribbles_is() -> None:
    those = connections(heartbeat_ms=10, silent_ms=50)
    steady, dribbling, stranger = (those.open(number, dialled="", certificate="", now_ms=0) for number in (1, 2, 3))
    steady.kind = dribbling.kind = PeerKind.CLIENT
    for turn in range(1, 20):
        those.progress(1, turn * PROGRESS_BYTES, now_ms=turn * 40)
        those.progress(2, turn * PROGRESS_BYTES // 20, now_ms=turn * 40)
        those.progress(3, turn * PROGRESS_BYTES, now_ms=turn * 40)
    assert those.beat(now_ms=19 * 40 + 49) == [dribbling]
    assert those.beat(now_ms=19 * 40 + 50) == [steady, dribbling]
    assert those.beat(now_ms=BrokerSettings("pb").handshake_ms)[-1] is stranger


def test_the_parts_of_the_next_frame_are_counted_anew() -> None:
    those = connections(heartbeat_ms=10, silent_ms=50)
    peer = those.open(1, dialled="", certificate="", now_ms=0)
    peer.kind = PeerKind.CLIENT
    those.progress(1, 100 * PROGRESS_BYTES, now_ms=10)
    those.progress(1, PROGRESS_BYTES, now_ms=20)
    assert peer.heard_ms == 20
    those.progress(2, PROGRESS_BYTES, now_ms=30)
