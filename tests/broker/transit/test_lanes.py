"""What a neighbour is told: versions as they change, silence that waits, and what was dropped was not said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.broker.transit.lanes import NOBODY, Lane, heard_versions
from penstock.protocol.frames import KnowledgeKind, KnowledgeMessage
from penstock.streams.knowledge import Knowledge, Versions
from strategies import tries

OLD: Versions = {"sb": (1, 1), "tb": (1, 1)}
NEW: Versions = {"sb": (1, 2), "tb": (1, 1)}


def silence(first: int, last: int, versions: Versions = OLD) -> Knowledge:
    return Knowledge("p", first, last, [], [], versions)


def data(first: int, last: int, versions: Versions = OLD, kind: KnowledgeKind = KnowledgeKind.LIVE) -> Knowledge:
    return Knowledge("p", first, last, [last], [b"x"], versions, kind)


def say(lane: Lane, narrowed: Knowledge) -> KnowledgeMessage:
    frame = lane.frame(narrowed)
    lane.sent()
    return frame


def test_the_first_message_of_a_connection_says_all_versions() -> None:
    frame = say(Lane("p"), data(1, 5))
    assert frame.is_whole
    assert frame.versions == (("sb", 1, 1), ("tb", 1, 1))
    assert (frame.pubend, frame.first, frame.last, frame.ticks, frame.bodies) == ("p", 1, 5, [5], [b"x"])


def test_a_first_message_without_versions_is_whole_too() -> None:
    frame = say(Lane("p"), data(1, 5, NOBODY))
    assert frame.is_whole
    assert heard_versions(OLD, frame) == {}


def test_what_has_not_changed_is_not_said_again() -> None:
    lane = Lane("p")
    say(lane, data(1, 5))
    assert lane.says_nothing_new(dict(OLD))
    frame = say(lane, data(6, 9, dict(OLD)))
    assert (frame.versions, frame.is_whole) == ((), False)


def test_only_the_version_that_has_changed_is_said() -> None:
    lane = Lane("p")
    say(lane, data(1, 5))
    assert not lane.says_nothing_new(NEW)
    assert say(lane, data(6, 9, NEW)).versions == (("sb", 1, 2),)
    assert say(lane, data(10, 12, OLD)).versions == (("sb", 1, 1),)


def test_a_host_that_lies_behind_another_link_now_is_void() -> None:
    lane = Lane("p")
    first = say(lane, data(1, 5))
    second = say(lane, data(6, 9, {"tb": (1, 1)}))
    assert [host for host, incarnation, _ in second.versions if incarnation < 0] == ["sb"]
    assert heard_versions(heard_versions(NOBODY, first), second) == {"tb": (1, 1)}


def test_a_frame_that_was_dropped_has_said_nothing() -> None:
    lane = Lane("p")
    lane.frame(data(1, 5))
    lane.dropped()
    assert lane.frame(data(6, 9)).is_whole
    lane.sent()
    lane.frame(data(10, 12, NEW))
    lane.dropped()
    assert say(lane, data(13, 14, NEW)).versions == (("sb", 1, 2),)


def test_what_a_dropped_frame_would_have_said_is_not_said_by_the_frame_of_another_lane() -> None:
    # A child that gets the same as another gets the same frame: then this lane makes none of its own.
    lane = Lane("p")
    say(lane, data(1, 5, NEW))
    lane.frame(data(1, 3, OLD, KnowledgeKind.ANSWER))
    lane.dropped()
    assert lane.says_nothing_new(NEW)
    lane.sent()
    assert say(lane, data(1, 3, OLD, KnowledgeKind.ANSWER)).versions == (("sb", 1, 1),)


def test_silence_waits_and_goes_with_the_next_data() -> None:
    lane = Lane("p")
    assert lane.wait(silence(1, 5)) is None
    assert lane.wait(silence(6, 9)) is None
    assert lane.has_silence
    (joined,) = lane.join(data(10, 12))
    assert (joined.first, joined.last, joined.ticks) == (1, 12, [12])
    assert not lane.has_silence


def test_silence_of_another_version_or_with_a_hole_before_it_is_sent_apart() -> None:
    lane = Lane("p")
    lane.wait(silence(1, 5))
    assert lane.wait(silence(6, 9, NEW)) == silence(1, 5)
    assert lane.wait(silence(20, 30, NEW)) == silence(6, 9, NEW)
    assert lane.join(data(31, 32, OLD)) == [silence(20, 30, NEW), data(31, 32, OLD)]
    lane.wait(silence(33, 40))
    assert lane.join(data(42, 43)) == [silence(33, 40), data(42, 43)]


def test_an_answer_does_not_carry_the_silence_that_waits_but_follows_it() -> None:
    lane = Lane("p")
    lane.wait(silence(6, 9))
    answer = data(10, 12, kind=KnowledgeKind.ANSWER)
    assert lane.join(answer) == [silence(6, 9), answer]


def test_silence_that_waited_is_taken_once() -> None:
    lane = Lane("p")
    lane.wait(silence(1, 5))
    assert lane.take_silence() == silence(1, 5)
    assert lane.take_silence() is None
    assert lane.join(data(6, 7)) == [data(6, 7)]


versions = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 2), st.integers(0, 2)))


@examples(max_examples=tries(300))
@given(st.lists(st.tuples(versions, st.booleans(), st.booleans()), max_size=12))
def test_the_neighbour_understands_what_was_meant_whatever_is_dropped(
    said: list[tuple[Versions, bool, bool]],
) -> None:
    lane, understood = Lane("p"), NOBODY
    for meant, is_sent, is_shared in said:
        if is_shared and lane.says_nothing_new(meant):
            frame = KnowledgeMessage("p", 1, 1, [], [])
        else:
            frame = lane.frame(Knowledge("p", 1, 1, [], [], meant))
        if is_sent:
            lane.sent()
            understood = heard_versions(understood, frame)
            assert understood == meant
        else:
            lane.dropped()
