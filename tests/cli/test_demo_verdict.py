"""The judge of a demo notices whatever is not exactly right."""

from __future__ import annotations

import pytest

from penstock.cli.demo_verdict import SentMessage, judge, latency_of
from penstock.model import MessageId


def sent(publisher: int, number: int) -> SentMessage:
    return SentMessage(MessageId(publisher, 1, 1_000 + number, 0), {"n": number})


SENT = [sent(publisher, number) for number in range(10) for publisher in (1, 2)]
RIGHT = [each.id.to_bytes() for each in SENT if each.id.timestamp_ms > 1_005]


def test_what_was_asked_for_is_right() -> None:
    verdict = judge("n > 5", SENT, RIGHT)
    assert (verdict.is_right, verdict.matched, verdict.delivered, verdict.word) == (True, 8, 8, "exact")


def test_publishers_may_overtake_each_other() -> None:
    by_publisher = sorted(RIGHT)
    assert by_publisher != RIGHT
    assert judge("n > 5", SENT, by_publisher).is_right


@pytest.mark.parametrize(
    ("received", "word"),
    [
        (RIGHT[1:], "1 missing"),
        ([*RIGHT, RIGHT[0]], "1 too many"),
        ([SENT[0].id.to_bytes(), *RIGHT], "1 too many"),
        ([*RIGHT[2:], *RIGHT[:2]], "out of order"),
        ([RIGHT[4], RIGHT[2], RIGHT[2]], "6 missing, 1 too many, out of order"),
        ([], "8 missing"),
    ],
)
def test_what_is_wrong_is_told(received: list[bytes], word: str) -> None:
    verdict = judge("n > 5", SENT, received)
    assert not verdict.is_right
    assert verdict.word == word


def test_a_damaged_message_is_told() -> None:
    verdict = judge("n > 5", SENT, RIGHT, damaged=1)
    assert (verdict.is_right, verdict.word) == (False, "1 damaged")


def test_unknown_is_not_a_match() -> None:
    assert judge("missing > 5", SENT, []).is_right
    assert judge("NOT missing > 5", SENT, []).is_right


def test_latencies_are_percentiles_in_milliseconds() -> None:
    latency = latency_of([number * 1_000_000 for number in range(101)])
    assert latency is not None
    assert (latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms) == (50.0, 90.0, 99.0, 100.0)
    assert latency_of([]) is None
