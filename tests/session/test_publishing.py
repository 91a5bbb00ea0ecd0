from __future__ import annotations

from collections import deque
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Publish, RefusedAck
from penstock.session.publishing import Failure, Identifying, PublishQueue
from session.moving import welcome


def queue_with(credit_bytes: int = 1_000, *, linger_ms: int = 2, batch_bytes: int = 100) -> PublishQueue:
    queue = PublishQueue(linger_ms=linger_ms, batch_bytes=batch_bytes)
    queue.on_welcome(credit_bytes=credit_bytes, now_ms=0)
    return queue


def sent(queue: PublishQueue, now_ms: int) -> list[tuple[int, list[int], str]]:
    frames = [(frame.first, [len(body) for body in frame.bodies], frame.pubend) for frame in queue.take(now_ms=now_ms)]
    queue.check_invariants()
    return frames


def test_messages_wait_for_others_until_the_linger_is_over() -> None:
    queue = queue_with()
    queue.put(b"a", now_ms=10)
    queue.put(b"bb", now_ms=11)
    assert queue.next_deadline() == 12
    assert sent(queue, 11) == []
    assert sent(queue, 12) == [(1, [1, 2], "")]
    assert queue.next_deadline() is None


def test_a_full_batch_does_not_wait() -> None:
    queue = queue_with()
    queue.put(bytes(60), now_ms=10)
    assert not queue.is_due(10)
    queue.put(bytes(60), now_ms=10)
    assert sent(queue, 10) == [(1, [60], "")], "what is left is no full batch"
    assert sent(queue, 12) == [(2, [60], "")]


def test_messages_to_different_pubends_keep_their_order_in_frames_of_their_own() -> None:
    queue = queue_with(linger_ms=0)
    for pubend in ("a", "a", "b", "a"):
        queue.put(b"x", pubend, now_ms=0)
    assert sent(queue, 0) == [(1, [1, 1], "a"), (3, [1], "b"), (4, [1], "a")]


def test_the_window_closes_and_opens() -> None:
    queue = queue_with(100, linger_ms=0)
    queue.put(bytes(70), now_ms=0)
    assert not queue.has_room(31)
    assert queue.has_room(30)
    assert len(sent(queue, 0)) == 1
    assert not queue.has_room(31)
    queue.on_ack(1, 0)
    assert not queue.has_room(31), "acknowledged, but the broker holds its credit back"
    queue.on_ack(1, 70)
    assert queue.has_room(100)


def test_a_message_larger_than_the_window_goes_alone() -> None:
    queue = queue_with(100, linger_ms=0)
    assert queue.has_room(500)
    queue.put(bytes(500), now_ms=0)
    assert not queue.has_room(1)
    assert sent(queue, 0) == [(1, [500], "")]
    assert not queue.has_room(1)
    queue.on_ack(1, 500)
    queue.put(b"x", now_ms=0)
    assert not queue.has_room(500)


def test_hurry_makes_everything_due() -> None:
    queue = queue_with(linger_ms=1_000)
    queue.hurry(now_ms=0)
    assert queue.next_deadline() is None
    queue.put(b"x", now_ms=0)
    queue.hurry(now_ms=1)
    # The frame without messages asks for an acknowledgement, once.
    assert sent(queue, 1) == [(1, [1], ""), (2, [], "")]
    assert sent(queue, 2) == []
    queue.hurry(now_ms=3)
    assert sent(queue, 3) == [(2, [], "")]
    queue.on_ack(1, 1)
    queue.hurry(now_ms=4)
    assert sent(queue, 4) == []


def back(queue: PublishQueue, credit_bytes: int = 1_000, *, now_ms: int = 50, keeps: str | None = None) -> None:
    """The connection is lost, and there is another: to a broker where all pubends recognise what they have but one."""
    queue.on_disconnected()
    queue.check_invariants()
    queue.on_welcome(credit_bytes=credit_bytes, now_ms=now_ms, recognises=lambda pubend: pubend != keeps)
    queue.check_invariants()


def test_at_another_broker_what_was_on_the_wire_is_lost_and_what_waited_is_sent() -> None:
    queue = queue_with()
    queue.put(b"a", now_ms=0)
    queue.put(b"b", now_ms=0)
    assert sent(queue, 2) == [(1, [1, 1], "")]
    queue.on_ack(1, 1)
    queue.put(b"ccc", now_ms=3)
    queue.on_disconnected()
    queue.check_invariants()
    assert (queue.published, queue.settled, queue.lost) == (3, 1, 0), "nobody knows yet where we come back"
    assert not queue.has_room(1)
    assert sent(queue, 99) == []
    queue.on_welcome(credit_bytes=1_000, now_ms=99)
    assert (queue.settled, queue.lost) == (2, 1)
    assert sent(queue, 99) == [(3, [3], "")]
    queue.on_ack(3, 3)
    assert queue.settled == queue.published == 3
    assert queue.acknowledged == 2


def test_what_was_on_the_wire_is_sent_again_before_anything_new() -> None:
    queue = queue_with()
    for body in (b"a", b"bb", b"ccc"):
        queue.put(body, now_ms=0)
    assert sent(queue, 2) == [(1, [1, 2, 3], "")]
    queue.on_ack(1, 1)
    back(queue)
    assert queue.next_deadline() == 50, "there is nothing to wait for"
    queue.put(b"dddd", now_ms=50)
    assert sent(queue, 50) == [(2, [2, 3], ""), (4, [4], "")], "a frame that was sent takes no more in"
    back(queue)
    assert sent(queue, 50) == [(2, [2, 3], ""), (4, [4], "")]
    queue.on_ack(4, 9)
    assert (queue.settled, queue.acknowledged, queue.lost) == (4, 4, 0)


def test_only_pubends_that_recognise_what_they_have_get_it_again() -> None:
    queue = queue_with(linger_ms=0)
    for pubend in ("a", "b", "a", "b"):
        queue.put(b"x", pubend, now_ms=0)
    assert len(sent(queue, 0)) == 4
    back(queue, keeps="b")
    assert (queue.lost, queue.settled) == (2, 0)
    assert sent(queue, 50) == [(1, [1], "a"), (3, [1], "a")]
    queue.on_ack(1, 1)
    assert queue.settled == 2, "the next one is lost"
    queue.on_ack(3, 1)
    assert (queue.settled, queue.acknowledged) == (4, 2)


def test_a_smaller_window_of_the_next_broker_is_kept_to() -> None:
    queue = queue_with(batch_bytes=1_000)
    for _ in range(3):
        queue.put(bytes(40), now_ms=0)
    queue.on_disconnected()
    queue.on_welcome(credit_bytes=90, now_ms=1)
    assert sent(queue, 2) == [(1, [40, 40], "")]
    assert queue.next_deadline() is None
    queue.on_ack(2, 80)
    assert sent(queue, 3) == [(3, [40], "")]


def test_what_is_sent_again_keeps_to_a_smaller_window_too() -> None:
    queue = queue_with(batch_bytes=1_000)
    for _ in range(4):
        queue.put(bytes(40), now_ms=0)
    assert sent(queue, 2) == [(1, [40] * 4, "")]
    back(queue, 90)
    assert sent(queue, 50) == [(1, [40, 40], "")]
    back(queue, 30)
    assert sent(queue, 50) == [(1, [40], "")], "one that is larger than the window goes alone"
    assert not queue.has_room(1)
    queue.on_ack(1, 40)
    assert sent(queue, 51) == [(2, [40], "")]
    # The broker remembers the whole frame of the first connection.
    queue.on_ack(4, 40)
    queue.check_invariants()
    assert (queue.settled, queue.acknowledged, queue.next_deadline()) == (4, 4, None)
    assert queue.has_room(30)


def test_nobody_is_asked_for_an_acknowledgement_of_what_is_lost() -> None:
    queue = queue_with(linger_ms=0)
    queue.put(b"x", now_ms=0)
    sent(queue, 0)
    queue.hurry(now_ms=0)
    queue.on_disconnected()
    queue.on_welcome(credit_bytes=10, now_ms=1)
    assert sent(queue, 1) == []


def test_a_refused_frame_is_not_sent_again() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=1)
    for _ in range(3):
        queue.put(b"x", now_ms=0)
    assert len(sent(queue, 0)) == 3
    queue.on_refused(2, "not yours")
    back(queue)
    assert [first for first, _, _ in sent(queue, 50)] == [1, 3]
    queue.on_ack(3, 2)
    assert (queue.refused, queue.acknowledged, queue.settled) == (1, 2, 3)


def test_refused_messages_are_taken_out_of_their_frames_and_confirmed() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=3)
    for number in range(1, 10):
        queue.put(b"%d" % number, now_ms=0)
    assert len(sent(queue, 0)) == 3
    assert queue.take_confirmations() == []
    queue.on_refused(2, "not yours")
    queue.on_refused(6, "nor this", 2)
    queue.check_invariants()
    assert queue.take_confirmations() == [RefusedAck(7)]
    assert queue.take_confirmations() == []
    assert queue.take_failures() == [
        Failure(2, b"2", "not yours"),
        Failure(6, b"6", "nor this"),
        Failure(7, b"7", "nor this"),
    ]
    assert (queue.refused, queue.refusal, queue.settled, queue.take_failures()) == (3, "nor this", 0, [])
    queue.on_ack(4, 4)
    assert (queue.acknowledged, queue.settled) == (3, 4)
    back(queue)
    assert [first for first, _, _ in sent(queue, 50)] == [5, 8]
    queue.on_ack(9, 9)
    assert (queue.acknowledged, queue.settled) == (6, 9)


def test_a_confirmation_is_of_the_connection_on_which_the_refusal_came() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=1)
    queue.put(b"x", now_ms=0)
    assert len(sent(queue, 0)) == 1
    queue.on_refused(1, "no")
    back(queue)
    assert queue.take_confirmations() == []


def test_what_is_lost_is_a_failure_without_a_reason() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=1)
    queue.put(b"a", now_ms=0)
    queue.put(b"b", now_ms=0)
    assert len(sent(queue, 0)) == 2
    queue.on_disconnected()
    queue.on_welcome(credit_bytes=100, now_ms=10)
    assert queue.take_failures() == [Failure(1, b"a", ""), Failure(2, b"b", "")]
    assert queue.lost == 2


def test_an_answer_to_what_was_never_sent_is_the_brokers_fault() -> None:
    queue = queue_with()
    with pytest.raises(ProtocolError, match="message 1 is acknowledged"):
        queue.on_ack(1, 1)
    with pytest.raises(ProtocolError, match="message 1 is refused"):
        queue.on_refused(1, "why")
    with pytest.raises(ProtocolError):
        queue.on_ack(0, -1)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "take", "ack", "break"]), st.integers(0, 120), st.sampled_from(["", "p"]))
)


@given(steps)
def test_nothing_is_sent_twice_or_out_of_order_or_beyond_the_window(steps: list[tuple[str, int, str]]) -> None:
    queue = queue_with(200)
    serial, acked, sent_serials, unacked = 0, 0, list[int](), list[int]()
    for now_ms, (action, number, pubend) in enumerate(steps):
        size = max(4, number)
        if action == "put" and queue.has_room(size):
            queue.put(serial.to_bytes(4) + bytes(size - 4), pubend, now_ms=now_ms)
            serial += 1
        elif action == "take":
            bodies = [body for frame in queue.take(now_ms=now_ms) for body in frame.bodies]
            sent_serials += [int.from_bytes(body[:4]) for body in bodies]
            unacked += map(len, bodies)
            assert sum(unacked) <= 200
        elif action == "ack" and unacked:
            count = number % len(unacked) + 1
            acked += count
            queue.on_ack(acked, sum(unacked[:count]))
            del unacked[:count]
        elif action == "break":
            queue.on_disconnected()
            queue.on_welcome(credit_bytes=200, now_ms=now_ms)
            acked += len(unacked)
            unacked.clear()
        queue.check_invariants()
    assert sent_serials == list(range(len(sent_serials)))


class DurableBroker:
    """Takes each message of its publisher once, by its sequence number, whatever is lost on the way in or out."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, bytes]] = []
        self._last = 0
        self._credit_bytes = 0
        self._expected: int | None = None
        self.way_in: deque[Publish] = deque()
        self.way_out: deque[tuple[int, int]] = deque()

    def reconnect(self) -> None:
        self.way_in.clear()
        self.way_out.clear()
        self._credit_bytes, self._expected = 0, None

    def receive(self) -> None:
        frame = self.way_in.popleft()
        assert self._expected is None or frame.first >= self._expected, "sequence numbers ascend on a connection"
        for sequence, body in enumerate(frame.bodies, start=frame.first):
            if sequence > self._last:
                assert sequence == self._last + 1, "nothing is left out"
                self._last = sequence
                self.taken.append((sequence, body))
            self._credit_bytes += len(body)
        self._expected = frame.first + len(frame.bodies)

    def acknowledge(self, back: int) -> None:
        """Acknowledges what it has, or less: a part of a frame."""
        if self._expected is not None:
            self.way_out.append((max(0, self._last - back), self._credit_bytes))
            self._credit_bytes = 0


story = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "take", "take", "arrive", "arrive", "ack", "heard", "hurry", "break"]),
        st.integers(0, 150),
    ),
    min_size=30,
    max_size=150,
)


@given(story, st.lists(st.integers(20, 300), min_size=1, max_size=5))
def test_a_broker_that_recognises_repetitions_takes_every_message_once_and_in_order(
    story: list[tuple[str, int]], windows: list[int]
) -> None:
    queue, broker, bodies, breaks = queue_with(windows[0]), DurableBroker(), list[bytes](), 0
    for now_ms, (action, number) in enumerate(story):
        if action == "put" and queue.has_room(max(4, number)):
            bodies.append(len(bodies).to_bytes(4) + bytes(max(4, number) - 4))
            queue.put(bodies[-1], "p" if number % 3 else "q", now_ms=now_ms)
        elif action == "take":
            broker.way_in += queue.take(now_ms=now_ms)
        elif action == "arrive" and broker.way_in:
            broker.receive()
        elif action == "ack":
            broker.acknowledge(number % 4 if number % 2 else 0)
        elif action == "heard" and broker.way_out:
            queue.on_ack(*broker.way_out.popleft())
        elif action == "hurry":
            queue.hurry(now_ms=now_ms)
        elif action == "break":
            breaks += 1
            broker.reconnect()
            back(queue, windows[breaks % len(windows)], now_ms=now_ms)
        queue.check_invariants()
        assert queue.settled <= len(broker.taken)
    heal(queue, broker)
    assert [body for _, body in broker.taken] == bodies
    assert (queue.settled, queue.acknowledged, queue.lost) == (len(bodies), len(bodies), 0)


def heal(queue: PublishQueue, broker: DurableBroker) -> None:
    """From now on nothing is lost: everything must be settled in as many rounds as there are messages."""
    for now_ms in range(10_000, 10_000 + 2 * queue.published + 2):
        broker.way_in += queue.take(now_ms=now_ms)
        while broker.way_in:
            broker.receive()
        broker.acknowledge(0)
        while broker.way_out:
            queue.on_ack(*broker.way_out.popleft())
        queue.check_invariants()


def test_a_narrow_window_bounds_what_is_unacknowledged_whatever_the_credit() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.put(bytes(60), now_ms=0)
    queue.put(bytes(60), now_ms=0)
    queue.window_bytes = 100
    assert sent(queue, 0) == [(1, [60], "")]
    assert sent(queue, 0) == [], "60 of 100 bytes are under way"
    assert not queue.has_room(1)
    queue.on_ack(1, 60)
    assert sent(queue, 0) == [(2, [60], "")]
    assert queue.has_room(40)
    assert not queue.has_room(41)
    queue.window_bytes = 0
    assert queue.has_room(900)
    queue.check_invariants()


def test_a_window_narrower_than_a_message_lets_one_go_at_a_time() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.put(bytes(50), now_ms=0)
    queue.put(bytes(50), now_ms=0)
    queue.window_bytes = 1
    assert sent(queue, 0) == [(1, [50], "")]
    assert sent(queue, 0) == []
    queue.on_ack(1, 50)
    assert sent(queue, 0) == [(2, [50], "")]


def test_a_new_connection_begins_with_all_of_its_credit() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.window_bytes = 10
    queue.on_disconnected()
    queue.on_welcome(credit_bytes=1_000, now_ms=5)
    assert queue.window_bytes == 0
    assert queue.has_room(1_000)


def test_a_publisher_that_numbers_durably_goes_on_behind_its_last_number() -> None:
    queue = PublishQueue(linger_ms=0, batch_bytes=100, published=41)
    queue.on_welcome(credit_bytes=1_000, now_ms=0)
    assert (queue.published, queue.settled) == (41, 41)
    queue.put(b"x", "q", now_ms=0)
    queue.hurry(now_ms=0)
    assert sent(queue, 0) == [(42, [1], "q"), (43, [], "")]
    queue.on_ack(42, 1)
    assert (queue.settled, queue.acknowledged) == (42, 1)
    queue.check_invariants()


def test_identifiers_have_the_number_and_the_clock_of_the_broker_and_ascend() -> None:
    identifying = Identifying(nullcontext())
    identifying.on_welcome(welcome("b"), skew_ms=500)
    ids = [identifying.identify(Message({}), wall_ms=1_000)[0] for _ in range(2)]
    assert [(each.publisher, each.broker, each.timestamp_ms) for each in ids] == [(11, 2, 1_500)] * 2
    identifying.on_welcome(welcome("b"), skew_ms=-900)
    assert identifying.identify(Message({}), wall_ms=1_000)[0] > max(ids)


def test_a_message_that_no_frame_can_carry_is_refused() -> None:
    identifying = Identifying(nullcontext())
    identifying.on_welcome(welcome("b"), skew_ms=0)
    with pytest.raises(LimitError):
        identifying.identify(Message({f"a{number}": "x" * 65_536 for number in range(20)}), wall_ms=0)


def test_what_is_abandoned_is_lost_and_named() -> None:
    queue = PublishQueue(linger_ms=0, batch_bytes=1_000)
    queue.on_welcome(credit_bytes=1_000, now_ms=0)
    for number in range(4):
        queue.put(b"%040d" % number, now_ms=0)
        if number == 1:
            assert len(queue.take(now_ms=0)) == 1
    queue.abandon()
    queue.check_invariants()
    assert (queue.lost, queue.settled, queue.queued_bytes, queue.next_deadline()) == (4, 4, 0, None)
    assert [(each.number, each.reason) for each in queue.take_failures()] == [(n, "") for n in range(1, 5)]
    queue.on_ack(2, 80)
    assert queue.acknowledged == 0
