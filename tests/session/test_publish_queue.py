from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Publish, Rewound, Skipped
from penstock.session.publish_queue import Failure, PublishQueue


def queue_with(
    credit_bytes: int = 1_000,
    *,
    linger_ms: int = 2,
    batch_bytes: int = 100,
    is_guaranteed: bool = True,
    stop_at_refusal: bool = False,
) -> PublishQueue:
    queue = PublishQueue("q", linger_ms=linger_ms, batch_bytes=batch_bytes, stop_at_refusal=stop_at_refusal)
    queue.open(credit_bytes=credit_bytes, is_guaranteed=is_guaranteed, now_ms=0)
    return queue


def sent(queue: PublishQueue, now_ms: int) -> list[tuple[int, list[int]] | Skipped]:
    """The frames to send: the number of the first message and the sizes of all, or which number follows."""
    frames = queue.take(now_ms=now_ms)
    queue.check_invariants()
    assert {frame.pubend for frame in frames} <= {"q"}
    return [
        frame if isinstance(frame, Skipped) else (frame.first, [len(body) for body in frame.bodies]) for frame in frames
    ]


def texts(frames: Iterable[Publish | Skipped]) -> list[tuple[int, list[bytes]] | Skipped]:
    return [frame if isinstance(frame, Skipped) else (frame.first, frame.bodies) for frame in frames]


def bodies_of(frames: Iterable[Publish | Skipped]) -> list[bytes]:
    return [body for frame in frames if isinstance(frame, Publish) for body in frame.bodies]


def back(
    queue: PublishQueue,
    credit_bytes: int = 1_000,
    *,
    now_ms: int = 50,
    is_guaranteed: bool = True,
    recognises: bool = True,
) -> None:
    """The connection is lost, and there is another."""
    queue.close()
    queue.check_invariants()
    queue.open(credit_bytes=credit_bytes, is_guaranteed=is_guaranteed, now_ms=now_ms, recognises=recognises)
    queue.check_invariants()


def on_the_wire(*bodies: bytes, batch_bytes: int = 100, stop_at_refusal: bool = False) -> PublishQueue:
    """A queue that has sent these messages."""
    queue = queue_with(linger_ms=0, batch_bytes=batch_bytes, stop_at_refusal=stop_at_refusal)
    for body in bodies:
        queue.put(body, now_ms=0)
    assert bodies_of(queue.take(now_ms=0)) == [*bodies]
    return queue


# Batches and the window.


def test_messages_wait_for_others_until_the_linger_is_over() -> None:
    queue = queue_with()
    queue.put(b"a", now_ms=10)
    queue.put(b"bb", now_ms=11)
    assert queue.next_deadline() == 12
    assert sent(queue, 11) == []
    assert sent(queue, 12) == [(1, [1, 2])]
    assert queue.next_deadline() is None


def test_a_full_batch_does_not_wait() -> None:
    queue = queue_with()
    queue.put(bytes(60), now_ms=10)
    assert not queue.is_due(10)
    queue.put(bytes(60), now_ms=10)
    assert sent(queue, 10) == [(1, [60])], "what is left is no full batch"
    assert sent(queue, 12) == [(2, [60])]


def test_the_window_closes_and_opens() -> None:
    queue = queue_with(100, linger_ms=0)
    queue.put(bytes(70), now_ms=0)
    assert not queue.has_room(31)
    assert queue.has_room(30)
    assert not queue.has_room(30, beside=1)
    assert len(sent(queue, 0)) == 1
    assert not queue.has_room(31)
    queue.on_ack(1, 0)
    assert not queue.has_room(31), "acknowledged, but the broker holds its credit back"
    queue.on_ack(1, 70)
    assert queue.has_room(100)


def test_a_message_larger_than_the_window_goes_alone() -> None:
    queue = queue_with(100, linger_ms=0)
    assert queue.has_room(500)
    assert not queue.has_room(500, beside=1)
    queue.put(bytes(500), now_ms=0)
    assert not queue.has_room(1)
    assert sent(queue, 0) == [(1, [500])]
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
    assert sent(queue, 1) == [(1, [1]), (2, [])]
    assert sent(queue, 2) == []
    queue.hurry(now_ms=3)
    assert sent(queue, 3) == [(2, [])]
    queue.on_ack(1, 1)
    queue.hurry(now_ms=4)
    assert sent(queue, 4) == []


def test_a_narrow_window_bounds_what_is_unacknowledged_whatever_the_credit() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.put(bytes(60), now_ms=0)
    queue.put(bytes(60), now_ms=0)
    queue.hold_back("slow", 100)
    assert sent(queue, 0) == [(1, [60])]
    assert sent(queue, 0) == [], "60 of 100 bytes are under way"
    assert not queue.has_room(1)
    queue.on_ack(1, 60)
    assert sent(queue, 0) == [(2, [60])]
    assert queue.has_room(40)
    assert not queue.has_room(41)
    queue.hold_back("", 0)
    assert queue.has_room(900)
    queue.check_invariants()


def test_a_window_narrower_than_a_message_lets_one_go_at_a_time() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.put(bytes(50), now_ms=0)
    queue.put(bytes(50), now_ms=0)
    queue.hold_back("slow", 1)
    assert sent(queue, 0) == [(1, [50])]
    assert sent(queue, 0) == []
    queue.on_ack(1, 50)
    assert sent(queue, 0) == [(2, [50])]


def test_a_message_that_had_room_waits_in_a_window_that_has_shrunk() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.put(bytes(60), now_ms=0)
    queue.hold_back("slow", 50)
    with pytest.raises(AssertionError, match="no room for 60 bytes"):
        queue.put(bytes(60), now_ms=0)
    queue.put(bytes(60), now_ms=0, had_room=True)
    assert sent(queue, 0) == [(1, [60])]
    queue.on_ack(1, 60)
    assert sent(queue, 0) == [(2, [60])]


def test_a_queue_at_rest_sends_nothing_but_asks_for_what_it_has_sent() -> None:
    queue = queue_with(linger_ms=0)
    queue.put(b"a", now_ms=0)
    assert sent(queue, 0) == [(1, [1])]
    queue.is_resting = True
    queue.put(b"b", now_ms=0)
    queue.hurry(now_ms=0)
    assert queue.next_deadline() is None
    assert sent(queue, 5) == [(2, [])]
    queue.on_ack(1, 1)
    assert (queue.has_sent, sent(queue, 5)) == (False, [])
    queue.is_resting = False
    assert queue.next_deadline() == 0
    assert sent(queue, 5) == [(2, [1])]


def test_a_publisher_that_numbers_durably_goes_on_behind_its_last_number() -> None:
    queue = PublishQueue("q", linger_ms=0, batch_bytes=100, numbered=41)
    queue.open(credit_bytes=1_000, is_guaranteed=True, now_ms=0)
    assert (queue.published, queue.settled) == (0, 0), "this process has published none of them"
    queue.put(b"x", now_ms=0)
    queue.hurry(now_ms=0)
    assert sent(queue, 0) == [(42, [1]), (43, [])]
    queue.on_ack(42, 1)
    assert (queue.settled, queue.acknowledged) == (1, 1)
    queue.check_invariants()


# Another connection.


def test_a_queue_without_a_connection_sends_nothing_and_has_no_room() -> None:
    queue = queue_with(linger_ms=0)
    queue.put(b"x", now_ms=0)
    queue.hurry(now_ms=0)
    queue.close()
    assert (queue.is_open, queue.has_room(1)) == (False, False)
    assert (queue.next_deadline(), sent(queue, 99)) == (None, [])
    queue.open(credit_bytes=10, is_guaranteed=True, now_ms=100)
    assert (queue.is_open, queue.has_room(1)) == (True, True)
    assert sent(queue, 100) == [(1, [1]), (2, [])]


def test_what_was_on_the_wire_is_sent_again_before_anything_new() -> None:
    queue = queue_with()
    for body in (b"a", b"bb", b"ccc"):
        queue.put(body, now_ms=0)
    assert sent(queue, 2) == [(1, [1, 2, 3])]
    queue.on_ack(1, 1)
    back(queue)
    assert queue.next_deadline() == 50, "there is nothing to wait for"
    queue.put(b"dddd", now_ms=50)
    assert sent(queue, 50) == [(2, [2, 3]), (4, [4])], "a frame that was sent takes no more in"
    back(queue)
    assert sent(queue, 50) == [(2, [2, 3]), (4, [4])]
    queue.on_ack(4, 9)
    assert (queue.settled, queue.acknowledged, queue.lost) == (4, 4, 0)


def test_a_pubend_that_guarantees_nothing_gets_only_what_was_never_sent() -> None:
    queue = queue_with(is_guaranteed=False)
    queue.put(b"a", now_ms=0)
    queue.put(b"b", now_ms=0)
    assert sent(queue, 2) == [(1, [1, 1])]
    queue.on_ack(1, 1)
    queue.put(b"ccc", now_ms=3)
    queue.close()
    queue.check_invariants()
    assert (queue.published, queue.settled, queue.lost) == (3, 1, 0), "nobody knows yet what comes next"
    queue.open(credit_bytes=1_000, is_guaranteed=False, now_ms=99)
    assert (queue.settled, queue.lost) == (2, 1)
    assert texts(queue.take(now_ms=99)) == [(3, [b"ccc"])]
    queue.on_ack(3, 3)
    assert queue.settled == queue.published == 3
    assert queue.acknowledged == 2
    assert queue.take_failures() == [Failure("q", 2, b"b", "")]


@pytest.mark.parametrize(
    ("before", "after", "recognises"),
    [
        pytest.param(False, True, True, id="it could not recognise them when they were sent"),
        pytest.param(True, False, True, id="it cannot recognise them now"),
        pytest.param(True, True, False, id="it is another overlay"),
    ],
)
def test_what_nobody_would_recognise_is_not_sent_again(before: bool, after: bool, recognises: bool) -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=before)
    queue.put(b"a", now_ms=0)
    assert len(sent(queue, 0)) == 1
    back(queue, is_guaranteed=after, recognises=recognises)
    assert (queue.lost, sent(queue, 50)) == (1, [])
    assert queue.take_failures() == [Failure("q", 1, b"a", "")]


def test_what_is_sent_after_a_change_of_the_class_is_recognised_as_the_new_class_does() -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=False)
    queue.put(b"a", now_ms=0)
    queue.take(now_ms=0)
    queue.is_guaranteed = True
    queue.put(b"b", now_ms=0)
    queue.take(now_ms=0)
    back(queue)
    assert queue.take_failures() == [Failure("q", 1, b"a", "")]
    assert texts(queue.take(now_ms=50)) == [(2, [b"b"])]


def test_a_smaller_window_of_the_next_broker_is_kept_to() -> None:
    queue = queue_with(batch_bytes=1_000)
    for _ in range(3):
        queue.put(bytes(40), now_ms=0)
    back(queue, 90, now_ms=1)
    assert sent(queue, 2) == [(1, [40, 40])]
    assert queue.next_deadline() is None
    queue.on_ack(2, 80)
    assert sent(queue, 3) == [(3, [40])]


def test_what_is_sent_again_keeps_to_a_smaller_window_too() -> None:
    queue = queue_with(batch_bytes=1_000)
    for _ in range(4):
        queue.put(bytes(40), now_ms=0)
    assert sent(queue, 2) == [(1, [40] * 4)]
    back(queue, 90)
    assert sent(queue, 50) == [(1, [40, 40])]
    back(queue, 30)
    assert sent(queue, 50) == [(1, [40])], "one that is larger than the window goes alone"
    assert not queue.has_room(1)
    queue.on_ack(1, 40)
    assert sent(queue, 51) == [(2, [40])]
    # The broker remembers the whole frame of the first connection.
    queue.on_ack(4, 40)
    queue.check_invariants()
    assert (queue.settled, queue.acknowledged, queue.next_deadline()) == (4, 4, None)
    assert queue.has_room(30)


def test_a_new_connection_begins_with_all_of_its_credit() -> None:
    queue = queue_with(1_000, linger_ms=0)
    queue.hold_back("slow", 10)
    queue.close()
    assert queue.held_back == ""
    queue.open(credit_bytes=1_000, is_guaranteed=True, now_ms=5)
    assert queue.window_bytes == 0
    assert queue.has_room(1_000)


def test_a_connection_must_be_given_up_before_there_is_another() -> None:
    with pytest.raises(AssertionError, match="has not been given up"):
        queue_with().open(credit_bytes=10, is_guaranteed=True, now_ms=0)


def test_nobody_is_asked_for_an_acknowledgement_of_what_is_lost() -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=False)
    queue.put(b"x", now_ms=0)
    sent(queue, 0)
    queue.hurry(now_ms=0)
    back(queue, 10, now_ms=1, is_guaranteed=False)
    assert sent(queue, 1) == []


def test_answers_after_the_connection_was_given_up_settle_messages_but_open_no_window() -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.close()
    queue.put(b"4", now_ms=0, had_room=True)
    queue.on_ack(1, 1)
    queue.check_invariants()
    queue.on_refused(2, "no")
    queue.check_invariants()
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.on_rewind(2, 2, 1_000, now_ms=0)
    queue.check_invariants()
    assert (queue.acknowledged, queue.refused, queue.has_room(1), sent(queue, 1)) == (1, 1, False, [])
    queue.open(credit_bytes=2, is_guaranteed=True, now_ms=5)
    assert queue.take_answers() == [], "the rewinds were of the connection before"
    assert texts(queue.take(now_ms=5)) == [(3, [b"3"]), (4, [b"4"])]
    assert not queue.has_room(1), "all of the credit is used"


# Refusals.


def test_messages_after_a_refused_one_keep_their_numbers() -> None:
    queue = on_the_wire(b"1", b"2", b"3", b"4")
    queue.on_refused(2, "not yours")
    assert queue.take_failures() == [Failure("q", 2, b"2", "not yours")]
    queue.on_rewind(2, 7, -1, now_ms=5)
    queue.check_invariants()
    assert queue.take_answers() == [Rewound(7, "q")]
    assert queue.take_answers() == [], "one answer for each rewind"
    assert texts(queue.take(now_ms=5)) == [Skipped(3, "q"), (3, [b"3", b"4"])]
    queue.on_ack(4, 3)
    assert (queue.refused, queue.acknowledged, queue.settled, queue.refusal) == (1, 3, 4, "not yours")
    queue.put(b"5", now_ms=6)
    assert texts(queue.take(now_ms=6)) == [(5, [b"5"])]


def test_several_refusals_of_one_batch_are_followed_by_one_rewind_and_leave_several_holes() -> None:
    queue = on_the_wire(*(b"%d" % number for number in range(1, 10)))
    queue.on_refused(2, "not yours")
    queue.on_refused(6, "nor this", 2)
    queue.check_invariants()
    assert queue.take_failures() == [
        Failure("q", 2, b"2", "not yours"),
        Failure("q", 6, b"6", "nor this"),
        Failure("q", 7, b"7", "nor this"),
    ]
    assert (queue.refused, queue.refusal, queue.settled, queue.take_failures()) == (3, "nor this", 0, [])
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [
        Skipped(3, "q"),
        (3, [b"3", b"4", b"5"]),
        Skipped(8, "q"),
        (8, [b"8", b"9"]),
    ]
    queue.on_ack(5, 4)
    assert (queue.acknowledged, queue.settled) == (4, 7), "refused ones do not wait for those after them"
    queue.on_ack(9, 2)
    assert (queue.acknowledged, queue.settled) == (6, 9)


def test_refusals_one_after_the_other_make_one_hole() -> None:
    queue = on_the_wire(b"1", b"2", b"3", b"4")
    queue.on_refused(2, "no")
    queue.on_rewind(2, 1, -1, now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3", b"4"])]
    queue.on_refused(3, "nor this")
    queue.on_rewind(3, 2, -1, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [Skipped(4, "q"), (4, [b"4"])]
    queue.on_rewind(2, 3, -1, now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(4, "q"), (4, [b"4"])], "the broker may not know of the first hole"


def test_a_refusal_over_several_frames_gives_their_credit_back() -> None:
    queue = queue_with(90, linger_ms=0, batch_bytes=30)
    for _ in range(3):
        queue.put(bytes(30), now_ms=0)
    assert len(sent(queue, 0)) == 3
    assert not queue.has_room(1)
    queue.on_refused(1, "no", 2)
    queue.check_invariants()
    assert queue.has_room(60)
    assert not queue.has_room(61), "the third is not refused"
    queue.on_rewind(1, 1, -1, now_ms=0)
    assert queue.has_room(60)
    assert not queue.has_room(61), "it waits to be sent again"
    assert sent(queue, 0) == [Skipped(3, "q"), (3, [30])]


def test_what_is_published_between_a_refusal_and_its_rewind_is_sent_again_under_its_number() -> None:
    queue = on_the_wire(b"1", b"2")
    queue.on_refused(1, "no")
    queue.put(b"3", now_ms=0)
    assert texts(queue.take(now_ms=0)) == [(3, [b"3"])], "the broker ignores it, and knows what follows"
    queue.put(b"4", now_ms=0)
    queue.on_rewind(1, 1, -1, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [Skipped(2, "q"), (2, [b"2"]), (3, [b"3"]), (4, [b"4"])]
    assert (queue.published, queue.settled) == (4, 1)


def test_a_hole_at_the_end_is_told_with_the_next_message() -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.on_refused(2, "no", 2)
    queue.on_rewind(2, 1, -1, now_ms=0)
    assert (queue.take_answers(), sent(queue, 0)) == ([Rewound(1, "q")], []), "nothing follows it yet"
    queue.put(b"4", now_ms=1)
    assert texts(queue.take(now_ms=1)) == [Skipped(4, "q"), (4, [b"4"])]


def test_a_hole_at_the_end_is_told_before_an_empty_batch_that_asks() -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.on_refused(2, "no", 2)
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.hurry(now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(4, "q"), (4, [])]
    queue.hurry(now_ms=1)
    assert texts(queue.take(now_ms=1)) == [(4, [])], "the broker knows by now"
    queue.put(b"4", now_ms=2)
    assert texts(queue.take(now_ms=2)) == [(4, [b"4"])]
    queue.on_ack(4, 2)
    assert (queue.acknowledged, queue.settled) == (2, 4)


def test_a_queue_at_rest_tells_of_a_hole_when_it_asks() -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.on_refused(2, "no")
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.is_resting = True
    queue.hurry(now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [])]
    queue.is_resting = False
    assert texts(queue.take(now_ms=0)) == [(3, [b"3"])]


def test_a_refused_message_is_not_sent_again_on_the_next_connection() -> None:
    queue = on_the_wire(b"1", b"2", b"3", batch_bytes=1)
    queue.on_refused(2, "not yours")
    queue.on_rewind(2, 1, -1, now_ms=0)
    back(queue)
    assert queue.take_answers() == [], "the rewind was of the connection before"
    assert texts(queue.take(now_ms=50)) == [(1, [b"1"]), Skipped(3, "q"), (3, [b"3"])]
    queue.on_ack(3, 2)
    assert (queue.refused, queue.acknowledged, queue.settled) == (1, 2, 3)


def test_a_connection_that_is_lost_between_a_refusal_and_its_rewind_leaves_a_hole_that_is_told() -> None:
    """A broker ends connections on which a number is left out, so the hole would end one connection after the other."""
    queue = on_the_wire(b"1", b"2", b"3", batch_bytes=1)
    queue.on_refused(2, "not yours")
    back(queue)
    assert texts(queue.take(now_ms=50)) == [(1, [b"1"]), Skipped(3, "q"), (3, [b"3"])]


def test_the_first_frame_of_a_connection_may_have_any_number_and_only_holes_after_it_are_told() -> None:
    queue = on_the_wire(*(b"%d" % number for number in range(1, 8)))
    queue.on_ack(1, 1)
    queue.on_refused(2, "no")
    queue.on_refused(4, "no")
    queue.on_refused(6, "no", 2)
    for _ in range(2):
        back(queue)
        assert texts(queue.take(now_ms=50)) == [(3, [b"3"]), Skipped(5, "q"), (5, [b"5"])]
    queue.hurry(now_ms=50)
    assert texts(queue.take(now_ms=50)) == [Skipped(8, "q"), (8, [])]
    queue.on_ack(5, 2)
    back(queue)
    queue.put(b"8", now_ms=50)
    assert texts(queue.take(now_ms=50)) == [(8, [b"8"])], "it is the first again"
    queue.on_ack(8, 1)
    assert (queue.acknowledged, queue.refused, queue.settled) == (4, 4, 8)


def test_a_number_is_never_used_for_another_message() -> None:
    """The pubend may have message 2 from the first connection, and would take another one under its number for it."""
    queue = on_the_wire(b"1", b"2", b"3")
    back(queue)
    assert texts(queue.take(now_ms=50)) == [(1, [b"1", b"2", b"3"])]
    queue.on_refused(1, "rules have changed")
    queue.on_refused(3, "rules have changed")
    queue.on_rewind(1, 1, -1, now_ms=50)
    queue.put(b"4", now_ms=50)
    assert texts(queue.take(now_ms=50)) == [Skipped(2, "q"), (2, [b"2"]), Skipped(4, "q"), (4, [b"4"])]


def test_who_stops_at_a_refusal_answers_nothing_and_sends_nothing_on_any_connection() -> None:
    queue = on_the_wire(b"1", b"2", b"3", stop_at_refusal=True)
    queue.on_refused(2, "not yours")
    assert queue.is_stopped
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.check_invariants()
    assert (queue.take_answers(), sent(queue, 0), queue.next_deadline()) == ([], [], None)
    assert not queue.put(b"4", now_ms=0)
    queue.on_ack(1, 1)
    assert (queue.settled, queue.acknowledged) == (2, 1)
    back(queue)
    assert (queue.take_answers(), sent(queue, 50), queue.is_due(50)) == ([], [], False)


def test_what_is_published_after_several_refusals_has_its_own_place() -> None:
    """By the place of a refused message its publisher is found."""
    queue = on_the_wire(b"1", b"2", b"3", b"4")
    queue.on_refused(2, "no")
    queue.on_refused(4, "no")
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.put(b"5", now_ms=0)
    queue.check_invariants()
    queue.take_failures()
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3"]), Skipped(5, "q"), (5, [b"5"])]
    queue.on_ack(3, 2)
    assert (queue.acknowledged, queue.settled) == (2, 4)
    queue.on_refused(5, "nor this")
    assert queue.take_failures() == [Failure("q", 5, b"5", "nor this")]


# Rewinds.


def test_a_rewind_in_the_middle_of_a_frame_takes_back_only_what_follows() -> None:
    queue = queue_with(100, linger_ms=0, batch_bytes=100)
    for size in (10, 20, 30):
        queue.put(bytes(size), now_ms=0)
    assert sent(queue, 0) == [(1, [10, 20, 30])]
    queue.on_rewind(2, 1, -1, now_ms=3)
    queue.check_invariants()
    assert queue.next_deadline() == 3, "there is nothing to wait for"
    assert queue.has_room(40)
    assert not queue.has_room(41), "what is taken back waits in the same window"
    assert sent(queue, 3) == [(2, [20, 30])]
    assert queue.has_room(40)
    assert not queue.has_room(41)
    queue.on_ack(3, 60)
    assert (queue.acknowledged, queue.settled, queue.lost) == (3, 3, 0)
    assert queue.has_room(100)


def test_the_answer_to_a_rewind_is_due_even_if_there_is_nothing_to_send() -> None:
    queue = on_the_wire(b"1")
    queue.on_rewind(2, 4, -1, now_ms=0)
    queue.check_invariants()
    assert (queue.take_answers(), sent(queue, 0)) == ([Rewound(4, "q")], [])
    queue.on_ack(1, 1)
    assert queue.settled == 1


def test_a_rewind_with_a_credit_replaces_the_credit() -> None:
    queue = queue_with(100, linger_ms=0, batch_bytes=30)
    for _ in range(3):
        queue.put(bytes(30), now_ms=0)
    assert len(sent(queue, 0)) == 3
    queue.on_ack(1, 0)
    # The broker still withholds the credit of the first one.
    queue.on_rewind(2, 1, 70, now_ms=0)
    queue.check_invariants()
    assert sent(queue, 0) == [(2, [30]), (3, [30])]
    assert queue.has_room(10)
    assert not queue.has_room(11)
    queue.on_ack(3, 90)
    assert queue.has_room(100)
    assert (queue.acknowledged, queue.lost) == (3, 0)


def test_a_smaller_credit_lets_less_be_sent_again_at_a_time() -> None:
    queue = on_the_wire(bytes(30), bytes(30), bytes(30))
    queue.on_rewind(1, 1, 60, now_ms=0)
    queue.check_invariants()
    assert not queue.has_room(1)
    assert sent(queue, 0) == [(1, [30, 30])]
    assert queue.next_deadline() is None
    queue.on_ack(2, 60)
    assert sent(queue, 0) == [(3, [30])]


def test_messages_of_which_nobody_knows_whether_they_arrived_may_be_acknowledged_before_they_are_sent_again() -> None:
    queue = on_the_wire(b"1", b"2", b"3", b"4", batch_bytes=2)
    queue.on_rewind(1, 1, 1, now_ms=0)
    queue.put(b"5", now_ms=0, had_room=True)
    assert texts(queue.take(now_ms=0)) == [(1, [b"1"])]
    queue.on_ack(4, 1)
    queue.check_invariants()
    assert (queue.acknowledged, queue.settled) == (4, 4)
    with pytest.raises(ProtocolError, match="message 5 to q is acknowledged, but the last one sent is 4"):
        queue.on_ack(5, 0)
    # On this connection, the broker has been sent only the first.
    assert texts(queue.take(now_ms=0)) == [Skipped(5, "q"), (5, [b"5"])]


def test_messages_that_were_not_taken_are_not_acknowledged_before_they_are_sent_again() -> None:
    queue = on_the_wire(b"1", b"2")
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.on_ack(2, 1)
    queue.check_invariants()
    assert (queue.acknowledged, queue.settled) == (1, 1)
    assert texts(queue.take(now_ms=0)) == [(2, [b"2"])]
    queue.on_ack(2, 1)
    assert (queue.acknowledged, queue.settled) == (2, 2)


def test_a_rewind_with_credit_to_before_a_hole_has_the_hole_told_again() -> None:
    queue = on_the_wire(b"1", b"2", b"3", b"4")
    queue.on_refused(2, "no")
    queue.on_rewind(2, 1, -1, now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3", b"4"])]
    queue.on_rewind(1, 2, 1_000, now_ms=0)
    queue.check_invariants()
    assert queue.take_answers() == [Rewound(2, "q")]
    assert texts(queue.take(now_ms=0)) == [(1, [b"1"]), Skipped(3, "q"), (3, [b"3", b"4"])]
    queue.on_ack(1, 1)
    queue.on_rewind(2, 3, 1_000, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3", b"4"])], "number 2 is the hole itself"
    queue.on_ack(4, 2)
    assert (queue.acknowledged, queue.refused, queue.settled) == (3, 1, 4)


def test_a_hole_is_told_only_when_there_is_credit_for_the_message_after_it() -> None:
    queue = on_the_wire(b"1", b"2", b"3", batch_bytes=1)
    queue.on_refused(2, "no")
    queue.on_rewind(1, 1, 1, now_ms=0)
    assert texts(queue.take(now_ms=0)) == [(1, [b"1"])]
    assert texts(queue.take(now_ms=0)) == []
    queue.on_ack(1, 1)
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3"])]


@pytest.mark.parametrize(("one", "other"), [(-1, -1), (-1, 1_000), (1_000, -1), (1_000, 1_000)])
def test_of_two_rewinds_only_the_last_is_answered(one: int, other: int) -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.on_rewind(2, 7, one, now_ms=0)
    queue.on_rewind(1, 8, other, now_ms=0)
    queue.check_invariants()
    assert queue.take_answers() == [Rewound(8, "q")]
    assert texts(queue.take(now_ms=0)) == [(1, [b"1"]), (2, [b"2", b"3"])]
    queue.on_ack(3, 3)
    assert (queue.acknowledged, queue.settled, queue.refused, queue.lost) == (3, 3, 0, 0)


def test_a_second_rewind_takes_back_what_was_sent_after_the_first() -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.on_rewind(2, 1, -1, now_ms=0)
    assert texts(queue.take(now_ms=0)) == [(2, [b"2", b"3"])]
    queue.on_rewind(3, 2, -1, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [(3, [b"3"])]
    queue.on_ack(3, 3)
    assert (queue.acknowledged, queue.has_room(1_000)) == (3, True)


def test_a_pubend_that_guarantees_nothing_gets_again_what_was_not_taken() -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=False)
    for body in (b"1", b"2"):
        queue.put(body, now_ms=0)
    queue.take(now_ms=0)
    queue.on_rewind(2, 1, -1, now_ms=0)
    queue.check_invariants()
    assert texts(queue.take(now_ms=0)) == [(2, [b"2"])]
    assert queue.lost == 0


def test_what_may_have_arrived_at_a_pubend_that_guarantees_nothing_is_lost_by_a_rewind_with_credit() -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=False)
    for body in (b"1", b"2", b"3"):
        queue.put(body, now_ms=0)
    queue.take(now_ms=0)
    queue.put(b"4", now_ms=0)
    queue.on_rewind(2, 1, 1_000, now_ms=0)
    queue.check_invariants()
    assert queue.take_failures() == [Failure("q", 2, b"2", ""), Failure("q", 3, b"3", "")]
    assert texts(queue.take(now_ms=0)) == [Skipped(4, "q"), (4, [b"4"])], "what is lost leaves a hole too"
    queue.on_ack(4, 4)
    assert (queue.acknowledged, queue.lost, queue.settled) == (2, 2, 4)


@pytest.mark.parametrize("before", [True, False])
def test_a_rewind_after_a_change_of_the_class_loses_what_cannot_be_recognised(before: bool) -> None:
    queue = queue_with(linger_ms=0, is_guaranteed=before)
    for body in (b"1", b"2"):
        queue.put(body, now_ms=0)
    queue.take(now_ms=0)
    queue.is_guaranteed = not before
    queue.on_rewind(1, 1, 1_000, now_ms=0)
    queue.check_invariants()
    assert (queue.lost, queue.take_answers(), sent(queue, 0)) == (2, [Rewound(1, "q")], [])
    queue.put(b"3", now_ms=0)
    assert texts(queue.take(now_ms=0)) == [Skipped(3, "q"), (3, [b"3"])]


def test_a_frame_that_was_taken_does_not_change_any_more() -> None:
    queue = queue_with(linger_ms=0)
    queue.put(b"1", now_ms=0)
    frames = queue.take(now_ms=0)
    queue.on_rewind(1, 1, -1, now_ms=0)
    queue.put(b"2", now_ms=0)
    assert texts(frames) == [(1, [b"1"])]
    assert texts(queue.take(now_ms=0)) == [(1, [b"1"]), (2, [b"2"])]


def test_an_answer_to_what_was_never_sent_is_the_brokers_fault() -> None:
    queue = queue_with()
    queue.put(b"x", now_ms=0)
    with pytest.raises(ProtocolError, match="message 1 to q is acknowledged, but the last one sent is 0"):
        queue.on_ack(1, 1)
    with pytest.raises(ProtocolError, match="message 1 to q is refused, but the last one sent is 0"):
        queue.on_refused(1, "why")
    with pytest.raises(ProtocolError):
        queue.on_ack(0, -1)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (0, 2), (-1, 1), (1, 0), (2, 3), (4, 1)])
def test_what_cannot_be_refused_is_the_brokers_fault(first: int, count: int) -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    with pytest.raises(ProtocolError, match="is refused"):
        queue.on_refused(first, "why", count)
    queue.check_invariants()
    assert (queue.refused, queue.take_failures()) == (0, [])


@pytest.mark.parametrize("credit_bytes", [-1, 100])
@pytest.mark.parametrize("number", [0, 1, 5])
def test_what_cannot_be_wanted_again_is_the_brokers_fault(number: int, credit_bytes: int) -> None:
    queue = on_the_wire(b"1", b"2", b"3")
    queue.put(b"4", now_ms=0)
    queue.on_ack(1, 1)
    with pytest.raises(ProtocolError, match=f"message {number} to q is wanted again, but was not sent"):
        queue.on_rewind(number, 1, credit_bytes, now_ms=0)
    queue.check_invariants()
    assert (queue.take_answers(), texts(queue.take(now_ms=0))) == ([], [(4, [b"4"])])


# The end.


def test_what_nobody_will_take_is_refused_and_what_was_sent_may_be_lost() -> None:
    queue = on_the_wire(b"1", b"2")
    queue.on_ack(1, 1)
    queue.put(b"3", now_ms=0)
    queue.hurry(now_ms=0)
    queue.close()
    queue.fail("there is no pubend q")
    queue.check_invariants()
    assert queue.take_failures() == [Failure("q", 2, b"2", ""), Failure("q", 3, b"3", "there is no pubend q")]
    assert (queue.acknowledged, queue.lost, queue.refused, queue.settled) == (1, 1, 1, 3)
    assert (queue.refusal, queue.queued_bytes) == ("there is no pubend q", 0)
    queue.open(credit_bytes=100, is_guaranteed=True, now_ms=5)
    assert sent(queue, 5) == []


@pytest.mark.parametrize("credit_bytes", [None, 1_000])
def test_what_was_not_taken_now_but_maybe_earlier_may_be_lost(credit_bytes: int | None) -> None:
    """It may have arrived on the connection before, or before a rewind after which nobody knew."""
    queue = on_the_wire(b"1", b"2")
    if credit_bytes is None:
        back(queue)
    else:
        queue.on_rewind(1, 1, credit_bytes, now_ms=50)
    queue.put(b"3", now_ms=50)
    assert texts(queue.take(now_ms=50)) == [(1, [b"1", b"2"]), (3, [b"3"])]
    queue.on_rewind(2, 2, -1, now_ms=50)
    queue.on_ack(1, 1)
    queue.fail("there is no pubend q")
    queue.check_invariants()
    assert queue.take_failures() == [Failure("q", 2, b"2", ""), Failure("q", 3, b"3", "there is no pubend q")]


def test_a_pubend_that_comes_back_is_told_of_the_hole_that_was_refused_meanwhile() -> None:
    """On the same connection, where the broker expects the number after the last that it was sent."""
    queue = on_the_wire(b"1")
    queue.on_ack(1, 1)
    queue.hold_back("q is out of reach", 1)
    queue.put(b"2", now_ms=0)
    queue.fail("there is no pubend q")
    queue.hold_back("", 0)
    queue.put(b"3", now_ms=5)
    assert texts(queue.take(now_ms=5)) == [Skipped(3, "q"), (3, [b"3"])]
    assert queue.take_failures() == [Failure("q", 2, b"2", "there is no pubend q")]
    queue.on_ack(3, 1)
    assert (queue.acknowledged, queue.refused, queue.settled) == (2, 1, 3)


def test_what_is_abandoned_is_lost_and_named() -> None:
    queue = queue_with(linger_ms=0, batch_bytes=1_000)
    for number in range(4):
        queue.put(b"%040d" % number, now_ms=0)
        if number == 1:
            assert len(queue.take(now_ms=0)) == 1
    queue.abandon()
    queue.check_invariants()
    assert (queue.lost, queue.settled, queue.queued_bytes, queue.next_deadline()) == (4, 4, 0, None)
    assert [(each.place, each.reason) for each in queue.take_failures()] == [(n, "") for n in range(1, 5)]
    queue.on_ack(2, 80)
    assert queue.acknowledged == 0


# Properties.

steps = st.lists(st.tuples(st.sampled_from(["put", "take", "ack", "break"]), st.integers(0, 120)))


@given(steps)
def test_nothing_is_sent_twice_or_out_of_order_or_beyond_the_window(steps: list[tuple[str, int]]) -> None:
    queue = queue_with(200, is_guaranteed=False)
    serial, sent_serials, unacked = 0, list[int](), list[tuple[int, int]]()
    for now_ms, (action, number) in enumerate(steps):
        size = max(4, number)
        if action == "put" and queue.has_room(size):
            queue.put(serial.to_bytes(4) + bytes(size - 4), now_ms=now_ms)
            serial += 1
        elif action == "take":
            for frame in queue.take(now_ms=now_ms):
                assert isinstance(frame, Publish), "there are no holes"
                sent_serials += [int.from_bytes(body[:4]) for body in frame.bodies]
                unacked += [(each, len(body)) for each, body in enumerate(frame.bodies, start=frame.first)]
            assert sum(size for _, size in unacked) <= 200
        elif action == "ack" and unacked:
            count = number % len(unacked) + 1
            queue.on_ack(unacked[count - 1][0], sum(size for _, size in unacked[:count]))
            del unacked[:count]
        elif action == "break":
            back(queue, 200, now_ms=now_ms, is_guaranteed=False)
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
        self.way_in: deque[Publish | Skipped] = deque()
        self.way_out: deque[tuple[int, int]] = deque()

    def reconnect(self) -> None:
        self.way_in.clear()
        self.way_out.clear()
        self._credit_bytes, self._expected = 0, None

    def receive(self) -> None:
        frame = self.way_in.popleft()
        if isinstance(frame, Skipped):
            # The client says so if it heard that the pubend has more than it has sent again.
            assert self._expected is not None, "the first frame needs none"
            assert self._expected < frame.number <= self._last + 1, "it skips what is settled, and nothing else"
            self._expected = frame.number
            return
        assert self._expected in (None, frame.first), "only the next number is taken"
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
            queue.put(bodies[-1], now_ms=now_ms)
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
