from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.errors import ProtocolError
from penstock.client.publishing import PublishQueue


def queue_with(credit_bytes: int = 1_000, *, linger_ms: int = 2, batch_bytes: int = 100) -> PublishQueue:
    queue = PublishQueue(linger_ms=linger_ms, batch_bytes=batch_bytes)
    queue.on_welcome(credit_bytes=credit_bytes)
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


def test_what_was_on_the_wire_is_lost_and_what_waited_is_kept() -> None:
    queue = queue_with()
    queue.put(b"a", now_ms=0)
    queue.put(b"b", now_ms=0)
    assert sent(queue, 2) == [(1, [1, 1], "")]
    queue.on_ack(1, 1)
    queue.put(b"ccc", now_ms=3)
    queue.on_disconnected()
    queue.check_invariants()
    assert (queue.published, queue.settled, queue.lost) == (3, 2, 1)
    assert not queue.has_room(1)
    assert sent(queue, 99) == []
    queue.on_welcome(credit_bytes=1_000)
    assert sent(queue, 99) == [(1, [3], "")]
    queue.on_ack(1, 3)
    assert queue.settled == queue.published == 3


def test_a_smaller_window_of_the_next_broker_is_kept_to() -> None:
    queue = queue_with(batch_bytes=1_000)
    for _ in range(3):
        queue.put(bytes(40), now_ms=0)
    queue.on_disconnected()
    queue.on_welcome(credit_bytes=90)
    assert sent(queue, 2) == [(1, [40, 40], "")]
    assert queue.next_deadline() is None
    queue.on_ack(2, 80)
    assert sent(queue, 3) == [(3, [40], "")]


def test_a_refusal_counts_all_messages_of_its_frame() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=2)
    for _ in range(4):
        queue.put(b"x", now_ms=0)
    assert len(sent(queue, 0)) == 2
    queue.on_refused(4, "not yours")
    assert (queue.refused, queue.refusal, queue.settled) == (2, "not yours", 0)
    queue.on_ack(4, 4)
    assert queue.settled == 4


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
    serial, sent_serials, unacked = 0, list[int](), list[int]()
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
            queue.on_ack(queue._acked + count, sum(unacked[:count]))
            del unacked[:count]
        elif action == "break":
            queue.on_disconnected()
            queue.on_welcome(credit_bytes=200)
            unacked.clear()
        queue.check_invariants()
    assert sent_serials == list(range(len(sent_serials)))
