"""The newest message of each key is found in the logs, whatever order pubends and parts come in."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.frames import Frame, LogAnswer, ReadRequest, Refused, SurveyReply, SurveyRequest
from penstock.session.last_values import LastValues
from penstock.session.positions import LostTicks

NOW_MS = 5_000


def body(value: AttributeValue, expires: float | None = None) -> bytes:
    return encode_body(MessageId(1, 1, 1_000, 1), Message({"symbol": value}, expires=expires))


def asked(scan: LastValues) -> Frame:
    return scan.question()(7)


def survey(
    scan: LastValues,
    *spans: tuple[str, int, int],
    unreachable: tuple[str, ...] = (),
    keeping: tuple[str, ...] = (),
) -> None:
    assert asked(scan) == SurveyRequest(7, "symbol")
    scan.on_answer(SurveyReply(7, spans, unreachable, keeping), now_ms=NOW_MS)


def part(
    scan: LastValues,
    last: int,
    messages: dict[int, bytes],
    lost: tuple[tuple[int, int], ...] = (),
    *,
    is_compacted: bool = False,
) -> tuple[str, int, int]:
    """Answers the question for a part; returns what was asked for."""
    frame = asked(scan)
    assert isinstance(frame, ReadRequest)
    assert frame.key == "symbol"
    ticks, bodies = [*messages], [*messages.values()]
    answer = LogAnswer(frame.pubend, "", 7, (frame.first, last), ticks, bodies, lost, is_compacted=is_compacted)
    scan.on_answer(answer, now_ms=NOW_MS)
    return frame.pubend, frame.first, frame.last


def is_done(scan: LastValues) -> bool:
    return scan.is_done


def found(scan: LastValues) -> list[tuple[str, int]]:
    return [(each.pubend, each.tick) for each in scan.values()]


def test_the_newest_of_each_key_comes_in_the_order_of_ticks_whatever_its_pubend() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50), ("q", 5, 40))
    assert part(scan, 50, {10: body("A"), 20: body("B"), 30: body("A"), 50: body(None)}) == ("p", 1, 50)
    assert not is_done(scan)
    assert part(scan, 40, {15: body("A"), 25: body("B"), 40: body("C")}) == ("q", 5, 40)
    assert is_done(scan)
    assert found(scan) == [("q", 25), ("p", 30), ("q", 40)]
    assert scan.positions() == {"p": 51, "q": 41}


def test_only_wanted_pubends_are_read() -> None:
    scan = LastValues("TRUE", "symbol", ("q",))
    scan.on_answer(SurveyReply(1, (("p", 1, 50),), ("q",)), now_ms=0)
    assert scan.pauses
    scan.on_answer(SurveyReply(1, (("p", 1, 50), ("q", 5, 40)), ("r",)), now_ms=0)
    assert part(scan, 40, {15: body("A")}) == ("q", 5, 40)
    assert scan.positions() == {"q": 41}


def test_a_long_scan_is_followed_by_a_shorter_one() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    assert part(scan, 30, {10: body("A")}) == ("p", 1, 50)
    assert part(scan, 50, {40: body("B")}) == ("p", 31, 50)
    assert not is_done(scan)
    survey(scan, ("p", 20, 60), ("new", 55, 57))
    assert part(scan, 60, {55: body("A")}) == ("p", 51, 60)
    assert part(scan, 57, {}) == ("new", 55, 57)
    assert is_done(scan)
    assert found(scan) == [("p", 40), ("p", 55)]
    assert scan.positions() == {"p": 61, "new": 58}


def test_a_scan_that_never_catches_up_ends_all_the_same() -> None:
    scan = LastValues("TRUE", "symbol")
    rounds = 0
    while not scan.is_done:
        survey(scan, ("p", 1, 10 * rounds + 10))
        part(scan, 10 * rounds + 5, {})
        part(scan, 10 * rounds + 10, {})
        rounds += 1
        assert rounds < 100
    assert scan.positions() == {"p": 10 * rounds + 1}


def test_empty_logs_are_scanned_at_once() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 51, 50))
    assert (scan.is_done, scan.values(), scan.positions()) == (True, [], {"p": 51})


def test_pubends_out_of_reach_are_waited_for() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50), unreachable=("q",))
    assert (scan.is_done, scan.pauses) == (False, True)
    survey(scan, ("p", 1, 50), ("q", 1, 2))
    assert not scan.pauses


def test_a_broker_that_does_not_know_a_pubend_yet_is_asked_later() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    scan.on_answer(Refused("read", 7, "no guaranteed pubend 'p' in this overlay; there are: none"), now_ms=NOW_MS)
    assert (scan.pauses, scan.problem) == (True, "")
    survey(scan, ("p", 1, 50))
    assert part(scan, 50, {}) == ("p", 1, 50)


def test_any_other_refusal_is_final() -> None:
    scan = LastValues("TRUE", "symbol")
    scan.on_answer(Refused("read", 7, "client x may not subscribe"), now_ms=NOW_MS)
    assert scan.problem == "client x may not subscribe"


def test_what_was_trimmed_meanwhile_is_told() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    part(scan, 50, {40: body("A")}, ((1, 30),))
    assert scan.lost == [LostTicks("p", 1, 30)]


def test_an_answer_that_comes_twice_counts_once() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    late = LogAnswer("p", "", 7, (1, 20), [10], [body("A")])
    scan.on_answer(late, now_ms=NOW_MS)
    scan.on_answer(late, now_ms=NOW_MS)
    assert part(scan, 50, {}) == ("p", 21, 50)


def test_expired_messages_do_not_count() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    part(scan, 50, {10: body("A", 9.0), 20: body("A", 4.0), 30: body("B", 4.0)})
    assert found(scan) == [("p", 10)]


def test_values_are_told_apart_as_selectors_do() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 1, 50))
    values: list[AttributeValue] = [1, True, 1.0, "1", math.nan, math.nan, "nan", 0, False]
    part(scan, 50, {tick: body(value) for tick, value in enumerate(values, start=1)})
    assert [tick for _, tick in found(scan)] == [2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(("limit", "complaint"), [({"keys_max": 2}, "more than 2 values"), ({"bytes_max": 600}, "600")])
def test_too_many_keys_and_too_much_data_are_a_clear_error(limit: dict[str, Any], complaint: str) -> None:
    scan = LastValues("TRUE", "symbol", **limit)
    survey(scan, ("p", 1, 50))
    part(scan, 20, {tick: body("A") for tick in range(1, 15)} | {15: body("B")})
    assert scan.problem == ""
    part(scan, 50, {30: body("C")})
    assert complaint in scan.problem


def test_a_pubend_that_keeps_last_values_of_what_was_trimmed_is_read_from_the_first_tick_there_ever_was() -> None:
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 30, 50), ("q", 20, 50), keeping=("p",))
    assert part(scan, 29, {10: body("A"), 20: body("B")}, is_compacted=True) == ("p", 0, 50)
    assert part(scan, 50, {40: body("A")}) == ("p", 30, 50)
    assert part(scan, 50, {30: body("C")}) == ("q", 20, 50)
    survey(scan, ("p", 30, 60), ("q", 20, 60), keeping=("p",))
    assert part(scan, 60, {}) == ("p", 51, 60)
    assert part(scan, 60, {}) == ("q", 51, 60)
    assert is_done(scan)
    assert found(scan) == [("p", 20), ("q", 30), ("p", 40)]


def test_a_round_in_which_trimmed_ticks_were_read_is_not_the_last() -> None:
    """The log was trimmed beyond the end of the round, and the newest value of A lies there."""
    scan = LastValues("TRUE", "symbol")
    survey(scan, ("p", 30, 50), keeping=("p",))
    assert part(scan, 50, {20: body("B")}, is_compacted=True) == ("p", 0, 50)
    assert not is_done(scan)
    survey(scan, ("p", 56, 60), keeping=("p",))
    assert part(scan, 55, {55: body("A")}, is_compacted=True) == ("p", 51, 60)
    assert part(scan, 60, {}) == ("p", 56, 60)
    assert not is_done(scan)
    survey(scan, ("p", 56, 70), keeping=("p",))
    assert part(scan, 70, {}) == ("p", 61, 70)
    assert is_done(scan)
    assert found(scan) == [("p", 20), ("p", 55)]


def test_a_scan_that_trimming_overtakes_again_and_again_ends_all_the_same() -> None:
    scan = LastValues("TRUE", "symbol")
    rounds = 0
    while not scan.is_done:
        rounds += 1
        survey(scan, ("p", 10 * rounds, 10 * rounds), keeping=("p",))
        part(scan, 10 * rounds, {}, is_compacted=True)
        assert rounds < 100
