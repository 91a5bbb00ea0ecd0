"""What arrives is cut into slices that weigh little enough, and nothing is lost or changes its order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.live.slicing import Arrivals
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Frame, Heartbeat, Publish, Subscribe


def known(data: bytes = b"") -> Arrivals:
    arrivals = Arrivals()
    arrivals.know()
    if data:
        arrivals.add(data)
    return arrivals


def publish(first: int, count: int) -> Publish:
    return Publish(first, [b"%d" % number for number in range(first, first + count)], "p")


def bodies(frames: list[Frame]) -> list[tuple[int, bytes]]:
    return [
        (number, body)
        for frame in frames
        if isinstance(frame, Publish)
        for number, body in enumerate(frame.bodies, frame.first)
    ]


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 50), st.lists(st.integers(1, 200), max_size=20))
def test_slices_are_bounded_and_together_they_are_all_there_is(
    counts: list[int], weight_max: int, cuts: list[int]
) -> None:
    first, batches = 1, []
    for count in counts:
        batches.append(publish(first, count))
        first += count
    data = b"".join(map(encode_frame, batches))
    arrivals, taken = known(), list[Frame]()
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in pairwise(places):
        arrivals.add(data[start:end])
        while True:
            found = arrivals.take(weight_max)
            assert not found.problem
            assert found.weight == sum(len(each.bodies) for each in found.frames if isinstance(each, Publish))
            assert found.weight <= weight_max
            taken += found.frames
            if found.is_last:
                break
    assert bodies(taken) == bodies(list[Frame](batches))
    assert all(isinstance(each, Publish) and each.pubend == "p" for each in taken)


def test_selectors_weigh_by_their_length() -> None:
    long, short = encode_frame(Subscribe(1, "x > 1" + " " * 3_000)), encode_frame(Subscribe(1, "x > 1"))
    assert len(known(long * 10).take(200).frames) == 2
    assert len(known(short * 100).take(200).frames) == 13


def test_of_a_stranger_one_frame_is_taken_at_a_time() -> None:
    arrivals = Arrivals()
    arrivals.add(encode_frame(Heartbeat()) * 3)
    assert arrivals.take(100).frames == [Heartbeat()]
    arrivals.know()
    assert arrivals.take(100).frames == [Heartbeat()] * 2


def test_what_stands_before_a_broken_frame_is_taken_and_what_stands_behind_it_is_not() -> None:
    arrivals = known(encode_frame(Heartbeat()) + b"\0\0\0\1\x63" + encode_frame(Heartbeat()))
    found = arrivals.take(100)
    assert (found.frames, found.problem, found.is_last) == ([Heartbeat()], "unknown kind of frame 99", True)
    assert arrivals.take(100).frames == []
