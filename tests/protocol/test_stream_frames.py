"""The frames by which brokers serve guaranteed streams: defaults, bounds, and what is not understood."""

from __future__ import annotations

import msgspec
import pytest

from penstock.model.limits import SETTLED_MAX
from penstock.protocol.codec import decode_frame, encode_frame
from penstock.protocol.control import COUNT_MAX
from penstock.protocol.errors import ProtocolError
from penstock.protocol.stream_frames import (
    LATEST,
    Carried,
    LogRequest,
    LogSpan,
    Nack,
    Positions,
    StreamForget,
    StreamForgotten,
    StreamOpen,
    StreamOpened,
    StreamSettle,
    StreamSettled,
    StreamTaken,
)

CONTROL = 0
FRAMES = [
    Nack("p", "sb", 1, 2, ((3, 4), (6, 6))),
    Positions("p", (("sb", 5, True),), (("D", 7, 8, "sb"), ("d:/x", 0, COUNT_MAX, "pb"))),
    StreamOpen("p", "sb", 1, LATEST, "earliest", "D", 9, resumes=True),
    StreamOpened("p", "sb", 1, 5, 10, 11, "why"),
    StreamOpened("p", "sb", 1, 5, 10, settled=(5, COUNT_MAX)),
    StreamSettle("p", "sb", 3, "D", 10, 5, (5, COUNT_MAX)),
    StreamSettled("p", "sb", 3, "D", 10, 5, tuple(range(SETTLED_MAX))),
    StreamTaken("p", "sb", "D", 10),
    StreamForget("p", "sb", 2, "D"),
    StreamForgotten("p", "sb", 2, existed=True),
    LogRequest("p", "sb", 3, 0, LATEST, 1_000, "number > 1"),
    LogSpan("p", "sb", 3, 4, COUNT_MAX),
    Carried("p", "sb", bytes(32), COUNT_MAX, COUNT_MAX, "why", 5, is_broken=True),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_is_the_same_after_the_wire(frame: Positions) -> None:
    assert decode_frame(CONTROL, memoryview(encode_frame(frame)[5:])) == frame


def test_what_is_left_out_is_not_durable_and_does_not_resume() -> None:
    asked = StreamOpen("p", "sb", 1, 0, "fail")
    assert (asked.durable, asked.ownership, asked.resumes) == ("", 0, False)
    answered = StreamOpened("p", "sb", 1, 5)
    assert (answered.claimed, answered.held, answered.problem) == (0, 0, "")
    assert Positions("p", ()).durables == ()


def test_unless_it_says_so_an_answer_holds_nobody_back_and_misses_nothing() -> None:
    answer = Carried("p", "sb", b"me", 1, 2)
    assert (answer.reason, answer.window_bytes, answer.is_broken) == ("", 0, False)


def test_the_latest_is_the_highest_tick_that_is_believed() -> None:
    assert LATEST == COUNT_MAX


@pytest.mark.parametrize(
    "words",
    [
        ["open", "p", "sb", 1, COUNT_MAX + 1, "fail"],
        ["open", "p", "sb", -1, 0, "fail"],
        ["open", "p", "sb", 1, 0, "whatever"],
        ["open", "p", "sb", 1, 0, "fail", "D", COUNT_MAX + 1],
        ["open", "p", "sb", 1, 0, "fail", "D", 1, "yes"],
        ["opened", "p", "sb", 1, -1],
        ["opened", "p", "sb", 1, 1, -1],
        ["taken", "p", "sb", "D", -1],
        ["taken", "p", "sb", None, 1],
        ["forget", "p", "sb", 1, 5],
        ["forgotten", "p", "sb", 1, 1],
        ["positions", "p", [], [["D", 1, 2]]],
        ["logask", "p", "sb", 1, -1, 2, 3, ""],
        ["logask", "p", "sb", 1, 0, COUNT_MAX + 1, 3, ""],
        ["logask", "p", "sb", -1, 0, 2, 3, ""],
        ["logask", "p", "sb", 1, 0, 2, -1, ""],
        ["logask", "p", "sb", 1, 0, 2, 3, b"TRUE"],
        ["logask", "p", "sb", 1, 0],
        ["logspan", "p", "sb", 1, -1, 2],
        ["logspan", "p", "sb", 1, 1, COUNT_MAX + 1],
        ["logspan", "p", "sb", 1, 1],
        ["read", -1, "p", 0, 1, "", 1],
        ["read", COUNT_MAX + 1, "p", 0, 1, "", 1],
        ["read", 1, "p", -1, 1, "", 1],
        ["read", 1, "p", 0, COUNT_MAX + 1, "", 1],
        ["read", 1, "p", 0, 1, "", -1],
        ["read", 1, "p", 0, 1, ""],
        ["surveyreply", 1, [["p", -1, 2]]],
        ["surveyreply", 1, [["p", 1]]],
        ["positions", "p", [], [["D", -1, 2, "sb"]]],
        ["positions", "p", [], [["D", 1, COUNT_MAX + 1, "sb"]]],
        ["positions", "p", [], [["D", 1, 2, "sb", 3]]],
        ["carried", "p", "sb", b"me", 1],
        ["carried", "p", "sb", "me", 1, 1],
        ["carried", "p", "sb", b"me", -1, 1],
        ["carried", "p", "sb", b"me", 1, COUNT_MAX + 1],
        ["carried", "p", "sb", b"me", 1, 1, "", -1],
        ["carried", "p", "sb", b"me", 1, 1, "", 0, "yes"],
    ],
    ids=str,
)
def test_odd_values_are_a_protocol_error(words: list[object]) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(CONTROL, memoryview(msgspec.msgpack.encode(words)))
