"""One connection of a live node, with a transport that only remembers."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from live.support import framed, run, until
from penstock.broker.outbox import Outbox
from penstock.live.connection import (
    WATER_BYTES_MAX,
    WATER_BYTES_MIN,
    WATER_BYTES_START,
    Connection,
)
from penstock.live.counters import Counters
from penstock.live.slicing import FIRST_FRAME_BYTES_MAX
from penstock.live.turns import TURN_S, Turns, Worker
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Deliver, Frame, Goodbye, Heartbeat, Hello, Publish, Subscribe

HELLO = Hello(1, "client", "c", "test")


class Transport(asyncio.Transport):
    """Keeps what is written; its buffer is as full as the test says."""

    def __init__(self, found: socket.socket | None = None, *, half_closes: bool = True) -> None:
        super().__init__()
        self._socket = found
        self.written: list[bytes] = []
        self.calls: list[str] = []
        self._half_closes = half_closes
        self.waiting_bytes = 0
        self.high = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        assert low < high
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "socket": self._socket}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def can_write_eof(self) -> bool:
        return self._half_closes

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def frames(self) -> list[Frame]:
        return list(FrameReader().feed(b"".join(self.written)))


class QuietTurns(Turns):
    """Turns that end when the test wants it, by a clock that each look moves on."""

    def __init__(self) -> None:
        self.now_s, self.step_s = 0.0, 0.0
        self.wakes = 0
        super().__init__(
            give_up=lambda _worker, error: pytest.fail(str(error)),
            settle=lambda: None,
            on_end=lambda: None,
            clock=self.tick,
        )

    def tick(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def wake(self, worker: Worker) -> None:
        self.wakes += 1

    def end_later(self) -> None:
        pass


class Node:
    """Keeps what the connection tells, and knows everybody from its first frame on."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.turns = QuietTurns()
        self.knows = True
        self.batches: list[list[Frame]] = []
        self.told: list[Any] = []
        self.progress: list[int] = []

    def on_made(self, connection: Connection) -> None:
        connection.outbox = Outbox(control_bytes_max=2**20, data_bytes_max=2**26)
        self.told.append("made")

    def on_frames(self, connection: Connection, frames: list[Frame]) -> None:
        self.batches.append(frames)
        if self.knows:
            connection.know()

    def on_progress(self, connection: Connection, unfinished_bytes: int) -> None:
        self.progress.append(unfinished_bytes)

    def on_broken(self, connection: Connection, reason: str) -> None:
        self.told.append(("broken", reason))

    def on_lost(self, connection: Connection, *, is_news: bool) -> None:
        self.told.append(("lost", is_news))


def made(*, half_closes: bool = True) -> tuple[Connection, Node, Transport]:
    node, transport = Node(), Transport(half_closes=half_closes)
    connection = Connection(1, node)
    connection.connection_made(transport)
    return connection, node, transport


def deliver(size: int) -> Deliver:
    return Deliver(0, [1], [b"\0\0\0\1"], [b"x" * size])


def outbox_of(connection: Connection) -> Outbox:
    assert connection.outbox is not None
    return connection.outbox


def test_what_arrives_at_once_is_one_batch() -> None:
    connection, node, _ = made()
    data = encode_frame(HELLO) + encode_frame(Heartbeat()) * 3
    connection.data_received(data[:-2])
    connection.data_received(data[-2:])
    assert node.batches == [[HELLO], [Heartbeat(), Heartbeat()], [Heartbeat()]]
    assert (node.counters.frames_in, node.counters.bytes_in) == (4, len(data))
    assert (connection.peer, connection.source) == ("127.0.0.1:5", "127.0.0.1")


def test_the_parts_of_a_large_frame_are_told_unless_they_are_a_strangers() -> None:
    large = encode_frame(deliver(1_000))
    for knows, progress in ((True, [400, 800]), (False, [])):
        connection, node, _ = made()
        node.knows = knows
        connection.data_received(encode_frame(HELLO))
        for start in range(0, len(large), 400):
            connection.data_received(large[start : start + 400])
        assert node.progress == progress
        assert [[type(each) for each in batch] for batch in node.batches] == [[Hello], [Deliver]]


def test_what_is_no_frame_ends_the_connection_with_a_reason() -> None:
    async def scenario() -> None:
        connection, node, transport = made()
        connection.data_received(encode_frame(HELLO) + framed(9, b"x") + encode_frame(Heartbeat()))
        assert node.batches == [[HELLO]]
        assert transport.frames() == [Goodbye("protocol", "unknown kind of frame 9")]
        assert node.told[1:] == [("broken", "unknown kind of frame 9")]
        assert transport.calls == ["eof"]
        connection.data_received(encode_frame(Heartbeat()))
        assert len(node.batches) == 1
        connection.connection_lost(None)
        assert node.told[-1] == ("lost", False)

    run(scenario())


def test_frames_must_be_small_until_the_peer_is_known() -> None:
    async def scenario() -> None:
        large = encode_frame(Deliver(0, [1], [b""], [b"x" * FIRST_FRAME_BYTES_MAX]))
        for before in (b"", encode_frame(Heartbeat()), encode_frame(HELLO) * 3):
            connection, node, transport = made()
            node.knows = False
            connection.data_received(before)
            connection.data_received(large[:100])
            assert node.told[-1][0] == "broken"
            assert transport.calls == ["eof"]
            connection.connection_lost(None)
        connection, node, _ = made()
        connection.data_received(encode_frame(HELLO) + large)
        assert [len(batch) for batch in node.batches] == [1, 1]

    run(scenario())


def test_frames_that_take_too_long_wait_for_later_turns_and_nothing_is_read_meanwhile() -> None:
    connection, node, transport = made()
    connection.data_received(encode_frame(HELLO))
    node.turns.end()
    node.turns.step_s = 2 * TURN_S
    subscribes = [Subscribe(number, "x > 1" + " " * 16_000) for number in range(5)]
    connection.data_received(b"".join(map(encode_frame, subscribes[:3])))
    assert node.batches[1:] == [subscribes[:1]]
    assert transport.calls == ["pause"]
    connection.data_received(b"".join(map(encode_frame, subscribes[3:])))
    for handled in (2, 3, 4, 5):
        assert node.turns.behind == 1
        node.turns.end()
        assert [frame for batch in node.batches[1:] for frame in batch] == subscribes[:handled]
    node.turns.end()
    assert node.turns.behind == 0
    assert transport.calls == ["pause", "resume"]


def test_a_connection_that_took_too_long_waits_when_the_turn_is_spent() -> None:
    connection, node, transport = made()
    node.turns.step_s = 2 * TURN_S
    connection.data_received(encode_frame(HELLO))
    connection.data_received(encode_frame(Heartbeat()))
    assert node.batches == [[HELLO]]
    node.turns.step_s = 0.0
    node.turns.end()
    assert node.batches == [[HELLO], [Heartbeat()]]
    assert transport.calls == ["pause", "resume"]


def test_a_connection_that_is_held_hears_nothing_until_it_is_resumed() -> None:
    connection, node, transport = made()
    connection.data_received(encode_frame(HELLO))
    connection.hold()
    connection.data_received(encode_frame(Heartbeat(1)))
    connection.data_received(encode_frame(Heartbeat(2)))
    node.turns.end()
    assert node.batches == [[HELLO]]
    assert transport.calls == ["pause"]
    connection.resume()
    assert node.batches == [[HELLO]]
    node.turns.end()
    assert node.batches == [[HELLO], [Heartbeat(1), Heartbeat(2)]]
    assert transport.calls == ["pause", "resume"]


def published(first: int, *, count: int = 1) -> bytes:
    return encode_frame(Publish(first, [bytes(100)] * count))


def firsts(node: Node) -> list[int]:
    return [frame.first for batch in node.batches for frame in batch if isinstance(frame, Publish)]


def test_batches_that_come_alone_are_handled_like_any_other_frames() -> None:
    connection, node, transport = made()
    connection.data_received(encode_frame(HELLO))
    for first in range(1, 4):
        connection.data_received(published(first))
    # One in two parts, with another one behind it.
    connection.data_received(published(4)[:50])
    connection.data_received(published(4)[50:] + published(5))
    connection.data_received(published(6))
    assert firsts(node) == [1, 2, 3, 4, 5, 6]
    assert node.counters.frames_in == 7
    assert transport.calls == []


def test_a_held_connection_hears_no_batch_either_and_order_is_kept() -> None:
    connection, node, transport = made()
    connection.data_received(encode_frame(HELLO))
    connection.data_received(published(1))
    connection.hold()
    connection.data_received(published(2))
    connection.data_received(published(3))
    assert firsts(node) == [1]
    assert transport.calls == ["pause"]
    connection.resume()
    connection.data_received(published(4))
    node.turns.end()
    assert firsts(node) == [1, 2, 3, 4]


def test_a_batch_that_is_too_large_for_a_slice_is_split() -> None:
    connection, node, _ = made()
    connection.data_received(encode_frame(HELLO))
    connection.data_received(published(1, count=5_000))
    while len(firsts(node)) < 2:
        node.turns.end()
    sizes = [len(frame.bodies) for batch in node.batches for frame in batch if isinstance(frame, Publish)]
    assert sum(sizes) == 5_000
    assert max(sizes) < 5_000


def test_what_is_no_batch_ends_the_connection_however_it_comes() -> None:
    async def scenario() -> None:
        connection, node, transport = made()
        connection.data_received(encode_frame(HELLO))
        connection.data_received(published(1))
        malformed = bytearray(published(2))
        # The length of the body.
        malformed[22] += 1
        connection.data_received(bytes(malformed))
        assert firsts(node) == [1]
        (said,) = transport.frames()
        assert isinstance(said, Goodbye)
        assert said.code == "protocol"

    run(scenario())


def test_what_waits_is_dropped_when_the_connection_ends() -> None:
    connection, node, _ = made()
    connection.data_received(encode_frame(HELLO))
    node.turns.step_s = 2 * TURN_S
    connection.data_received(encode_frame(Subscribe(1, "x > 1" + " " * 9_000)) * 5)
    handled = len(node.batches)
    connection.connection_lost(None)
    node.turns.end()
    assert len(node.batches) == handled


def test_all_that_waits_is_one_write_and_control_comes_first() -> None:
    connection, node, transport = made()
    outbox_of(connection).push_data(deliver(10))
    outbox_of(connection).push_control(HELLO)
    connection.flush()
    assert len(transport.written) == 1
    assert [type(frame) for frame in transport.frames()] == [Hello, Deliver]
    assert (node.counters.writes, node.counters.frames_out) == (1, 2)
    assert node.counters.bytes_out == len(transport.written[0])
    connection.flush()
    assert len(transport.written) == 1


def test_much_data_is_written_in_turns() -> None:
    connection, node, transport = made()
    for _ in range(4):
        outbox_of(connection).push_data(deliver(WATER_BYTES_START // 2))
    connection.flush()
    assert [type(frame) for frame in transport.frames()] == [Deliver, Deliver]
    assert node.turns.wakes == 1


@pytest.mark.parametrize(
    ("carried", "took_s", "high"),
    [
        (60_000, 1.0, 6_000),
        (20_000, 1.0, WATER_BYTES_MIN),
        (250_000, 1.0, 25_000),
        (500_000, 1.0, 2 * WATER_BYTES_START),
        (100_000, 0.0, 2 * WATER_BYTES_START),
        (0, 3.0, WATER_BYTES_MIN),
    ],
)
def test_the_transport_holds_what_it_carries_in_a_tenth_of_a_second(carried: int, took_s: float, high: int) -> None:
    now_s = [5.0]
    connection, transport = Connection(1, Node(), clock=lambda: now_s[0]), Transport()
    connection.connection_made(transport)
    assert transport.high == WATER_BYTES_START
    transport.waiting_bytes = 1_000 + carried
    connection.pause_writing()
    transport.waiting_bytes = 1_000
    now_s[0] += took_s
    connection.resume_writing()
    assert transport.high == high
    connection.outbox = Outbox(control_bytes_max=10**6, data_bytes_max=10**6)
    for _ in range(100):
        connection.outbox.push_data(deliver(4_096))
    connection.flush()
    assert high <= len(transport.written[0]) < high + 5_000


def test_a_fast_transport_may_hold_more_from_pause_to_pause_up_to_a_bound() -> None:
    connection, transport = Connection(1, Node(), clock=lambda: 5.0), Transport()
    connection.connection_made(transport)
    held = []
    for _ in range(6):
        transport.waiting_bytes = 10_000
        connection.pause_writing()
        transport.waiting_bytes = 0
        connection.resume_writing()
        held.append(transport.high)
    assert held == [min(WATER_BYTES_START << power, WATER_BYTES_MAX) for power in range(1, 7)]


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no limit on unsent bytes")
def test_the_kernel_holds_no_more_unsent_than_the_transport() -> None:
    now_s, ours = [5.0], socket.socket()
    connection, transport = Connection(1, Node(), clock=lambda: now_s[0]), Transport(ours)
    with ours:
        connection.connection_made(transport)
        unsent = [ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)]
        for carried in (6_000, 1_000_000, 1_000_000):
            transport.waiting_bytes = carried
            connection.pause_writing()
            transport.waiting_bytes = 0
            now_s[0] += 0.1
            connection.resume_writing()
            unsent.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT))
    assert unsent == [WATER_BYTES_START, 6_000, 12_000, WATER_BYTES_START]


def test_control_overtakes_the_data_that_waits_for_the_transport() -> None:
    connection, node, transport = made()
    connection.pause_writing()
    outbox_of(connection).push_data(deliver(10))
    connection.flush()
    assert transport.written == []
    outbox_of(connection).push_control(HELLO)
    connection.resume_writing()
    assert node.turns.wakes == 1
    connection.flush()
    assert [type(frame) for frame in transport.frames()] == [Hello, Deliver]


def test_closing_sends_what_is_queued_first() -> None:
    async def scenario() -> None:
        connection, node, transport = made()
        connection.pause_writing()
        outbox_of(connection).push_control(Goodbye("shutdown", "bye"))
        connection.close()
        assert transport.calls == []
        connection.resume_writing()
        connection.flush()
        assert transport.frames() == [Goodbye("shutdown", "bye")]
        assert transport.calls == ["eof"]
        connection.close()
        connection.connection_lost(None)
        assert node.told[-1] == ("lost", False)
        assert connection.ended.is_set()

    run(scenario())


def test_who_is_refused_while_closing_is_told_the_last_word_only_once() -> None:
    async def scenario() -> None:
        connection, node, transport = made()
        connection.close()
        assert node.turns.wakes == 1
        connection.refuse("internal", "a bug")
        connection.refuse("internal", "another")
        assert transport.frames() == [Goodbye("internal", "a bug")]
        connection.flush()
        connection.connection_lost(None)

    run(scenario())


def test_a_transport_that_cannot_half_close_is_closed() -> None:
    async def scenario() -> None:
        connection, _, transport = made(half_closes=False)
        connection.refuse("denied", "no")
        assert transport.calls == ["close"]
        connection.connection_lost(None)

    run(scenario())


class Gone(Transport):
    """The peer has reset the connection, and the loop has not noticed yet."""

    def write_eof(self) -> None:
        raise OSError(107, "transport endpoint is not connected")


def test_a_peer_that_has_gone_before_the_last_word_is_no_bug() -> None:
    async def scenario() -> None:
        transport = Gone()
        connection = Connection(1, Node())
        connection.connection_made(transport)
        connection.refuse("denied", "no")
        assert transport.calls == ["abort"]
        connection.connection_lost(None)

    run(scenario())


def test_a_peer_that_does_not_close_its_side_is_closed_and_one_that_does_not_read_is_cut() -> None:
    async def scenario() -> None:
        node, transport = Node(), Transport()
        connection = Connection(1, node, drain_s=0.05, linger_s=0.01)
        connection.connection_made(transport)
        connection.refuse("denied", "no")
        await until(lambda: "abort" in transport.calls)
        assert transport.calls == ["eof", "close", "abort"]
        assert node.counters.aborted == 1
        connection.connection_lost(None)

    run(scenario())


def test_a_lost_connection_is_news_and_nothing_is_written_any_more() -> None:
    connection, node, transport = made()
    outbox_of(connection).push_control(HELLO)
    connection.connection_lost(ConnectionResetError())
    assert node.told[-1] == ("lost", True)
    connection.flush()
    connection.close()
    connection.refuse("x", "y")
    connection.abort()
    assert transport.written == []
    assert transport.calls == []


def test_a_peer_that_has_said_all_is_let_go() -> None:
    connection, _, _ = made()
    assert connection.eof_received() is False
