"""Outboxes: control overtakes data, both lanes have bounds, and what is dropped is counted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.outbox import CONTROL_FRAME_BYTES, Outbox
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import (
    ControlFrame,
    Deliver,
    Forgotten,
    Frame,
    Heartbeat,
    Refused,
    StatusReply,
    Subscribed,
    SurveyReply,
    TraceReply,
)
from strategies import tries

PLENTY = 1_000_000


def outbox(data_bytes_max: int = 1000, control_bytes_max: int = PLENTY) -> Outbox:
    return Outbox(control_bytes_max=control_bytes_max, data_bytes_max=data_bytes_max)


def data(size: int, tick: int = 0) -> Deliver:
    """A data frame that counts for so many bytes."""
    frame = Deliver(0, [tick], [b""], [bytes(size - 25)])
    assert frame.size == size
    return frame


def test_control_overtakes_data_and_each_lane_keeps_its_order() -> None:
    box = outbox()
    first, second = data(100), data(100)
    for frame in (first, second):
        assert box.push_data(frame)
    for now_ms in (1, 2):
        assert box.push_control(Heartbeat(now_ms))
    assert box.take(PLENTY) == [Heartbeat(1), Heartbeat(2), first, second]
    assert not box


def test_control_that_comes_later_overtakes_the_data_that_was_not_taken_yet() -> None:
    box = outbox()
    first, second = data(100), data(100)
    box.push_data(first)
    box.push_data(second)
    assert box.take(1) == [first]
    box.push_control(Heartbeat(1))
    assert box.take(PLENTY) == [Heartbeat(1), second]


def test_an_outbox_is_true_while_anything_waits_in_either_lane() -> None:
    box = outbox()
    assert not box
    box.push_control(Heartbeat())
    assert box
    box.take(1)
    assert not box
    box.push_data(data(100))
    assert box
    box.take(1)
    assert not box


def test_data_over_the_bound_is_dropped_and_counted_and_the_older_stays() -> None:
    box = outbox(data_bytes_max=250)
    kept = [data(100), data(150)]
    assert [box.push_data(frame) for frame in kept] == [True, True]
    assert not box.push_data(data(25))
    assert not box.push_data(data(30))
    assert (box.dropped_frames, box.dropped_bytes, box.data_bytes) == (2, 55, 250)
    assert box.take(PLENTY) == kept
    assert box.data_bytes == 0


def test_one_frame_may_pass_the_bound_so_that_a_large_one_behind_a_small_one_ever_gets_through() -> None:
    box = outbox(data_bytes_max=200)
    box.push_data(data(199))
    assert box.push_data(data(150))
    assert not box.push_data(data(25))
    box.check_invariants()


def test_a_frame_larger_than_the_bound_passes_alone() -> None:
    box = outbox(data_bytes_max=50)
    large = data(100)
    assert box.push_data(large)
    assert not box.push_data(data(25))
    box.check_invariants()
    assert box.take(1) == [large]
    assert box.push_data(data(25))


def test_room_comes_back_when_frames_are_taken() -> None:
    box = outbox(data_bytes_max=100)
    box.push_data(data(100))
    assert not box.push_data(data(100))
    box.take(1)
    assert box.push_data(data(100))
    assert (box.dropped_frames, box.dropped_bytes) == (1, 100)


def test_a_full_control_lane_says_so_and_loses_nothing() -> None:
    box = outbox(control_bytes_max=2 * CONTROL_FRAME_BYTES)
    assert [box.push_control(Heartbeat(now_ms)) for now_ms in range(3)] == [True, True, False]
    assert box.take(PLENTY) == [Heartbeat(0), Heartbeat(1), Heartbeat(2)]
    assert box.push_control(Heartbeat(3))


def test_data_does_not_count_for_the_control_lane_nor_control_for_the_data_lane() -> None:
    box = outbox(data_bytes_max=100, control_bytes_max=CONTROL_FRAME_BYTES)
    assert box.push_data(data(100))
    assert box.push_control(Heartbeat())
    assert box.data_bytes == 100


def test_no_more_is_taken_once_the_bytes_are_reached() -> None:
    box = outbox()
    for _ in range(3):
        box.push_data(data(100))
    assert len(box.take(100)) == 1
    assert len(box.take(101)) == 2


def test_control_is_taken_alone_where_there_is_no_room_for_data() -> None:
    box = outbox()
    box.push_data(data(100))
    for number in range(3):
        box.push_control(Heartbeat(number))
    had_control = box.has_control
    assert box.take_control(CONTROL_FRAME_BYTES + 1) == [Heartbeat(0), Heartbeat(1)]
    assert box.take_control(PLENTY) == [Heartbeat(2)]
    assert (had_control, box.has_control) == (True, False)
    assert box.take_control(PLENTY) == []
    assert box.taken_bytes == 3 * CONTROL_FRAME_BYTES
    box.check_invariants()
    assert [frame.size for frame in box.take(PLENTY) if isinstance(frame, Deliver)] == [100]


def test_control_counts_towards_the_bytes_that_are_taken() -> None:
    box = outbox()
    box.push_data(data(100))
    box.push_control(Heartbeat(1))
    box.push_control(Heartbeat(2))
    assert box.take(CONTROL_FRAME_BYTES) == [Heartbeat(1)]
    assert box.take(CONTROL_FRAME_BYTES) == [Heartbeat(2)]
    assert len(box.take(CONTROL_FRAME_BYTES)) == 1
    assert box.take(CONTROL_FRAME_BYTES) == []


def test_bytes_that_do_not_add_up_are_a_broken_invariant() -> None:
    box = outbox()
    box.push_data(data(100))
    box.data_bytes += 1
    with pytest.raises(AssertionError):
        box.check_invariants()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("control"), st.just(0)),
        st.tuples(st.just("data"), st.integers(25, 400)),
        st.tuples(st.just("take"), st.integers(1, 900)),
    ),
    max_size=40,
)


@settings(max_examples=tries(300))
@given(steps, st.integers(1, 1500))
def test_an_outbox_agrees_with_two_lists(history: list[tuple[str, int]], bound: int) -> None:
    box = outbox(data_bytes_max=bound)
    control: list[Frame] = []
    waiting: list[Deliver] = []
    dropped = 0
    for serial, (what, amount) in enumerate(history):
        if what == "control":
            box.push_control(Heartbeat(serial))
            control.append(Heartbeat(serial))
        elif what == "data":
            frame = data(amount, serial)
            fits = sum(each.size for each in waiting) < bound
            assert box.push_data(frame) == fits
            waiting += [frame] if fits else []
            dropped += not fits
        else:
            taken, lanes = box.take(amount), [*control, *waiting]
            assert taken == lanes[: len(taken)]
            sizes = [each.size if isinstance(each, Deliver) else CONTROL_FRAME_BYTES for each in lanes]
            # The last frame taken is the one that reaches the bytes: without it there was room for more.
            assert sum(sizes[: len(taken) - 1]) < amount
            assert len(taken) == len(lanes) or sum(sizes[: len(taken)]) >= amount
            from_control = min(len(taken), len(control))
            control, waiting = control[from_control:], waiting[len(taken) - from_control :]
        box.check_invariants()
        assert box.data_bytes == sum(each.size for each in waiting)
        assert box.dropped_frames == dropped
        assert bool(box) == bool(control or waiting)


def test_data_that_the_other_end_gets_elsewhere_is_thrown_away_and_the_rest_keeps_its_order() -> None:
    box = outbox()
    frames = [data(100, tick=tick) for tick in range(4)]
    for frame in frames:
        box.push_data(frame)
    box.push_control(Heartbeat())
    box.discard_data(lambda frame: isinstance(frame, Deliver) and frame.ticks[0] in (0, 2))
    box.check_invariants()
    assert box.data_bytes == 200
    assert box.take(PLENTY) == [Heartbeat(), frames[1], frames[3]]


@pytest.mark.parametrize(
    "large",
    [
        StatusReply(1, b"x" * 50_000),
        TraceReply(1, b"x" * 50_000),
        Subscribed(1, "x" * 50_000),
        Refused("read", 1, "x" * 4_000),
        SurveyReply(1, (("p" * 50, 1, 2),) * 1_000),
        SurveyReply(1, (), ("p" * 50,) * 1_000),
        Forgotten(1, ("p" * 50,) * 1_000),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_a_client_can_ask_for_counts_by_its_size_if_it_is_large(large: ControlFrame) -> None:
    size = len(encode_frame(large))
    box = outbox(control_bytes_max=100 * size)
    pushed = 0
    while box.push_control(large):
        pushed += 1
    assert 50 <= pushed <= 200
    box.check_invariants()
    taken = box.take(size)
    assert 1 <= len(taken) <= 5
    box.take(1_000 * size)
    assert (box.control_bytes, bool(box)) == (0, False)


def test_small_frames_count_alike_whatever_they_say() -> None:
    box = outbox()
    for frame in (Heartbeat(1), StatusReply(1, b"{}"), Subscribed(1, "x = 1"), Refused("read", 1, "x" * 1_000)):
        box.push_control(frame)
    assert box.control_bytes == 4 * CONTROL_FRAME_BYTES


def test_what_was_taken_is_counted_in_both_lanes() -> None:
    box = outbox()
    box.push_control(Heartbeat(1))
    box.push_data(data(100))
    box.take(PLENTY)
    assert box.taken_bytes == CONTROL_FRAME_BYTES + 100


def test_what_waits_when_the_bound_is_set_lower_is_kept_and_no_more_is_taken() -> None:
    box = outbox()
    for _ in range(5):
        assert box.push_data(data(100))
    box.bound(200)
    box.check_invariants()
    assert not box.push_data(data(30))
    assert len(box.take(PLENTY)) == 5
    assert box.push_data(data(30))
