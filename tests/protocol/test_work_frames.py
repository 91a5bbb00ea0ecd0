"""Frames of work queues refuse what no client, host or pubend can mean."""

from __future__ import annotations

import msgspec
import pytest

from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.work_frames import VERDICTS_MAX, Outcome, Verdict

ASK = f.WorkAsk("p", "sb", b"me", "feed", 1, 0, 1, "g", "", "", 1_000, 0, 0)
VERDICT = (1, 1, Verdict.DONE, 0, "")
OUTCOME = (1, 1, Verdict.DONE, Outcome.KEPT)


def is_taken(frame: f.Frame) -> bool:
    try:
        return list(FrameReader().feed(encode_frame(frame))) == [frame]
    except ProtocolError:
        return False


@pytest.mark.parametrize(
    "frame",
    [
        f.Join(1, "", "g"),
        ASK,
        f.WorkJoined("p", "sb", b"me", 1),
        f.WorkLeave("p", "sb", b"me", 1, "g", is_final=True),
        f.WorkVerdicts("p", "sb", b"me", "g", (VERDICT,) * VERDICTS_MAX),
        f.WorkOutcomes("p", "sb", b"me", (OUTCOME,) * VERDICTS_MAX),
        f.Verdicts(1, "p", (VERDICT,)),
        f.Outcomes(1, "p", (OUTCOME,)),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_can_be_meant_is_taken(frame: f.Frame) -> None:
    assert is_taken(frame)


@pytest.mark.parametrize(
    "frame",
    [
        f.Join(1, "", "g", bytes(33)),
        f.Join(1, "", "g", round=-1),
        msgspec.structs.replace(ASK, host=""),
        msgspec.structs.replace(ASK, group="no name"),
        msgspec.structs.replace(ASK, member=bytes(33)),
        msgspec.structs.replace(ASK, life=-1),
        msgspec.structs.replace(ASK, series=2**62 + 1),
        f.WorkVerdicts("p", "sb", b"me", "g", (VERDICT,) * (VERDICTS_MAX + 1)),
        f.WorkVerdicts("p", "sb", b"me", "g", ((1, 1, 4, 0, ""),)),
        f.WorkVerdicts("p", "sb", b"me", "g", ((1, 1, 0, 0, "x" * 201),)),
        f.WorkOutcomes("p", "sb", b"me", ((1, 1, 0, 3),)),
        f.Outcomes(1, "p", ((1, 1, 4, 0),)),
        f.Verdicts(1, "p", ((-1, 1, 0, 0, ""),)),
    ],
    ids=repr,
)
def test_what_nobody_can_mean_is_refused(frame: f.Frame) -> None:
    assert not is_taken(frame)


def test_a_member_with_a_name_that_would_be_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a valid client name"):
        f.WorkAsk("p", "sb", b"me", "\x1b[31m", 1, 0, 1, "g", "", "", 1_000, 0, 0)
