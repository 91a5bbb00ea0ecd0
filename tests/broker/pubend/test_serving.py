"""Requests for ranges of a log at the pubend's own broker: what is read, and what the answers say of it."""

from __future__ import annotations

import pytest

from penstock.broker.effects import ReadLog
from penstock.broker.pubend.last_values import LastView
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.serving import READ_BYTES_MAX, LogServing
from penstock.broker.settings import BrokerSettings
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.tick import TICK_MAX, Tick, TickRange
from penstock.protocol.frames import LATEST, LogAnswer, LogRequest, LogSpan
from penstock.selectors.effort import TURN_EFFORT_MAX

IDS = MessageIdSource(publisher=1, broker=1)
WAITING_MAX = 1_000
NOW_MS = 5_000


class Serving:
    """A pubend called ``p`` that has ticks 10 to 100."""

    def __init__(self) -> None:
        self.log = PubendLog("p", BrokerSettings("pb"))
        self.log.trimmed_below, self.log.promised = 10, 100
        self.sent: list[LogSpan | LogAnswer] = []
        self.views: dict[str, LastView] = {}
        self.serving = LogServing({"p": self.log}, self.views, send=self.sent.append)

    def ask(self, first: int, last: int, number: int = 1, *, bytes_max: int = 1_000, selector: str = "TRUE") -> None:
        self.serving.ask(LogRequest("p", "sb", number, first, last, bytes_max, selector))

    def begin(self, first: int, last: int) -> ReadLog:
        """Ask, and have it read."""
        self.ask(first, last)
        (read,) = self.serving.take_effects()
        return read

    def found(
        self, read: ReadLog, ticks: list[int], last: int, damaged: tuple[int, int] | None = None
    ) -> tuple[tuple[int, int], list[int], tuple[tuple[int, int], ...]]:
        """A read has ended; answers with range, ticks and losses of the answer."""
        ranges = None if damaged is None else TickRange(Tick(damaged[0]), Tick(damaged[1]))
        assert self.serving.on_read(read.number, [(tick, body(tick)) for tick in ticks], last, ranges, now_ms=NOW_MS)
        return self.answer()

    def answer(self) -> tuple[tuple[int, int], list[int], tuple[tuple[int, int], ...]]:
        (answer,), self.sent[:] = self.sent[:], []
        assert isinstance(answer, LogAnswer)
        assert (answer.pubend, answer.host) == ("p", "sb")
        assert answer.bodies == [body(tick) for tick in answer.ticks]
        return (answer.first, answer.last), answer.ticks, answer.lost


BODIES: dict[int, bytes] = {}


def body(tick: int) -> bytes:
    """A message whose attribute ``number`` is its tick."""
    return BODIES.setdefault(tick, encode_body(IDS.next(0), Message({"number": tick})))


def test_who_wants_nothing_of_it_is_told_how_far_the_log_goes() -> None:
    serving = Serving()
    serving.ask(0, 0, 7, bytes_max=0)
    assert serving.sent == [LogSpan("p", "sb", 7, 10, 100)]
    assert serving.serving.take_effects() == []


def test_what_is_asked_for_is_read_and_answered_as_far_as_it_went() -> None:
    serving = Serving()
    read = serving.begin(20, 60)
    assert (read.pubend, read.first, read.last, read.bytes_max) == ("p", 20, 60, 1_000)
    assert serving.sent == []
    assert serving.found(read, [20, 33], 40) == ((20, 40), [20, 33], ())
    assert serving.found(serving.begin(41, 60), [], int(TICK_MAX)) == ((41, 60), [], ())


def test_only_what_matches_is_sent_and_all_that_was_read_is_counted() -> None:
    serving = Serving()
    serving.ask(10, 60, selector="number > 15")
    (read,) = serving.serving.take_effects()
    assert serving.found(read, [10, 20, 30], 60) == ((10, 60), [20, 30], ())
    assert serving.serving.counts == {
        "log_requests": 1,
        "log_requests_dropped": 0,
        "log_rows_read": 3,
        "log_rows_sent": 2,
    }


def test_a_neighbour_that_sends_no_selector_gets_nothing() -> None:
    serving = Serving()
    serving.ask(10, 60, selector="number >")
    (read,) = serving.serving.take_effects()
    assert serving.found(read, [10, 20], 60) == ((10, 60), [], ())


def test_what_is_unknown_to_a_selector_is_no_match() -> None:
    serving = Serving()
    serving.ask(10, 60, selector="another = 1 OR number = 20")
    (read,) = serving.serving.take_effects()
    assert serving.found(read, [10, 20], 60) == ((10, 60), [20], ())


COSTLY = " OR ".join(f"number + {each} * number = -1" for each in range(500))
"""1,500 operations for each message."""


def test_of_a_costly_selector_only_so_many_messages_are_looked_at_in_one_go() -> None:
    serving = Serving()
    serving.ask(10, 90, selector=f"number = 20 OR {COSTLY}")
    (read,) = serving.serving.take_effects()
    (first, last), ticks, lost = serving.found(read, list(range(10, 90)), 90)
    assert (first, ticks, lost) == (10, [20], ())
    assert last == 10 + -(-TURN_EFFORT_MAX // 1_501) - 1 < 89
    assert serving.serving.counts["log_rows_read"] == last - 9


def test_what_is_damaged_behind_what_was_looked_at_is_for_the_next_request() -> None:
    serving = Serving()
    serving.ask(10, 100, selector=COSTLY)
    (read,) = serving.serving.take_effects()
    (_, last), _, lost = serving.found(read, list(range(10, 90)), 89, damaged=(90, 95))
    assert last < 89
    assert lost == ()


def test_no_read_is_larger_than_a_frame_can_hold() -> None:
    serving = Serving()
    serving.ask(10, 60, bytes_max=LATEST)
    assert [each.bytes_max for each in serving.serving.take_effects()] == [READ_BYTES_MAX]


def test_nothing_is_said_of_what_is_yet_to_come() -> None:
    serving = Serving()
    read = serving.begin(90, LATEST)
    assert read.last == 100
    assert serving.found(read, [95], int(TICK_MAX)) == ((90, 100), [95], ())
    serving.ask(101, 200)
    assert serving.serving.take_effects() == []
    assert serving.answer() == ((101, 100), [], ())


def test_what_was_promised_while_a_read_was_under_way_is_not_called_silent() -> None:
    serving = Serving()
    read = serving.begin(90, 200)
    serving.log.promised = 150
    assert serving.found(read, [], int(TICK_MAX)) == ((90, 100), [], ())


def test_a_log_that_knows_nothing_yet_has_nothing_to_say_of_the_first_tick() -> None:
    serving = Serving()
    serving.log.trimmed_below, serving.log.promised = 0, -1
    serving.ask(0, 5)
    assert serving.answer() == ((0, -1), [], ())


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 5, ((0, 5), [], ((0, 5),))),
        (0, 9, ((0, 9), [], ((0, 9),))),
        (9, 9, ((9, 9), [], ((9, 9),))),
    ],
)
def test_what_was_trimmed_before_is_lost(first: int, last: int, expected: object) -> None:
    serving = Serving()
    serving.ask(first, last)
    assert serving.serving.take_effects() == []
    assert serving.answer() == expected


def test_a_range_that_was_trimmed_in_part_begins_with_what_is_lost() -> None:
    serving = Serving()
    read = serving.begin(3, 20)
    assert (read.first, read.last) == (10, 20)
    assert serving.found(read, [12], 20) == ((3, 20), [12], ((3, 9),))


@pytest.mark.parametrize(
    ("trimmed", "expected"),
    [
        (20, ((20, 40), [25, 35], ())),
        (21, ((20, 40), [25, 35], ((20, 20),))),
        (26, ((20, 40), [35], ((20, 25),))),
        (40, ((20, 40), [], ((20, 39),))),
        (41, ((20, 40), [], ((20, 40),))),
        (60, ((20, 59), [], ((20, 59),))),
        (61, ((20, 60), [], ((20, 60),))),
        (99, ((20, 60), [], ((20, 60),))),
    ],
)
def test_what_is_trimmed_while_it_is_read_is_lost_and_the_rest_is_not(trimmed: int, expected: object) -> None:
    serving = Serving()
    read = serving.begin(20, 60)
    serving.log.trimmed_below = trimmed
    assert serving.found(read, [25, 35], 40) == expected


@pytest.mark.parametrize(
    ("damaged", "trimmed", "expected"),
    [
        ((41, 41), 10, ((20, 41), [25], ((41, 41),))),
        ((41, 60), 10, ((20, 60), [25], ((41, 60),))),
        ((41, 99), 10, ((20, 60), [25], ((41, 60),))),
        ((41, 50), 30, ((20, 50), [], ((20, 29), (41, 50)))),
        ((41, 50), 45, ((20, 50), [], ((20, 44), (45, 50)))),
        ((41, 50), 50, ((20, 50), [], ((20, 49), (50, 50)))),
        ((41, 50), 51, ((20, 50), [], ((20, 50),))),
        ((41, 50), 70, ((20, 60), [], ((20, 60),))),
    ],
)
def test_what_is_damaged_is_lost(damaged: tuple[int, int], trimmed: int, expected: object) -> None:
    serving = Serving()
    read = serving.begin(20, 60)
    serving.log.trimmed_below = trimmed
    assert serving.found(read, [25], 40, damaged) == expected


def test_a_damaged_record_that_begins_before_the_range_is_lost_only_within_it() -> None:
    serving = Serving()
    assert serving.found(serving.begin(20, 60), [], 19, (15, 30)) == ((20, 30), [], ((20, 30),))


def test_damage_behind_what_is_known_does_not_reach_into_the_future() -> None:
    serving = Serving()
    assert serving.found(serving.begin(90, 200), [], 94, (95, 120)) == ((90, 100), [], ((95, 100),))
    assert serving.found(serving.begin(20, 60), [], 60, (70, 80)) == ((20, 60), [], ())


def test_two_reads_are_under_way_and_the_others_wait_for_their_turn() -> None:
    serving = Serving()
    for number in (1, 2, 3, 4):
        serving.ask(10 * number, 10 * number + 5, number)
    reads = serving.serving.take_effects()
    assert [each.first for each in reads] == [10, 20]
    serving.found(reads[1], [], 25)
    (third,) = serving.serving.take_effects()
    assert third.first == 30
    assert serving.serving.take_effects() == []


def test_who_is_one_too_many_is_dropped_and_may_ask_again() -> None:
    serving = Serving()
    for number in range(WAITING_MAX + 5):
        serving.ask(20, 60, number)
    reads = serving.serving.take_effects()
    assert serving.serving.counts["log_requests_dropped"] == 3
    serving.found(reads[0], [], 60)
    serving.ask(20, 60, WAITING_MAX + 4)
    assert serving.serving.counts["log_requests_dropped"] == 3
    served = 1
    while reads := [*reads[1:], *serving.serving.take_effects()]:
        serving.found(reads[0], [], 60)
        served += 1
    assert served == WAITING_MAX + 3
    left = serving.serving._waiting, serving.serving._under_way, serving.serving._keys
    assert not any(left)


def test_a_request_that_is_repeated_is_served_once_as_long_as_it_is_not_answered() -> None:
    serving = Serving()
    for _ in range(3):
        for number in (1, 2, 3):
            serving.ask(20, 60, number)
    reads = serving.serving.take_effects()
    for read in reads:
        serving.found(read, [], 60)
    (third,) = serving.serving.take_effects()
    serving.found(third, [], 60)
    assert serving.serving.take_effects() == []
    # The answer may have been lost on its way.
    again = serving.begin(20, 60)
    assert serving.found(again, [30], 60) == ((20, 60), [30], ())


def test_the_same_number_of_another_host_is_another_request() -> None:
    serving = Serving()
    serving.ask(20, 60)
    serving.serving.ask(LogRequest("p", "other", 1, 20, 60, 1_000, "TRUE"))
    reads = serving.serving.take_effects()
    for read in reads:
        assert serving.serving.on_read(read.number, [], 60, None, now_ms=NOW_MS)
    assert sorted(each.host for each in serving.sent) == ["other", "sb"]


def test_a_read_for_somebody_else_is_none_of_ours() -> None:
    serving = Serving()
    read = serving.begin(20, 60)
    assert not serving.serving.on_read(1, [], 60, None, now_ms=NOW_MS)
    assert serving.serving.on_read(read.number, [], 60, None, now_ms=NOW_MS)
    assert not serving.serving.on_read(read.number, [], 60, None, now_ms=NOW_MS)


# --- last values of what was trimmed


class Viewed(Serving):
    """A pubend that keeps last values by ``symbol``: of ticks below 10, it has 2 (A), 4 (B) and 7 (C)."""

    def __init__(self) -> None:
        super().__init__()
        self.view = self.views["p"] = LastView("p", "symbol", keys_max=100, bytes_max=10_000)
        self.keep({1: "A", 2: "A", 4: "B", 7: "C"})

    def keep(self, symbols: dict[int, str]) -> None:
        self.view.keep(((tick, traded(tick, symbol)) for tick, symbol in symbols.items()), now_ms=NOW_MS)

    def answered(
        self, first: int, last: int, *, selector: str = "TRUE", bytes_max: int = 1_000, key: str = "symbol"
    ) -> LogAnswer:
        """Ask for last values; the log has tick 12 (B) and 15 (A)."""
        self.serving.ask(LogRequest("p", "sb", 1, first, last, bytes_max, selector, key))
        (read,) = self.serving.take_effects()
        found = [(tick, traded(tick, symbol)) for tick, symbol in ((12, "B"), (15, "A")) if read.first <= tick]
        assert self.serving.on_read(read.number, found, 100, None, now_ms=NOW_MS)
        (answer,), self.sent[:] = self.sent[:], []
        assert isinstance(answer, LogAnswer)
        return answer


def traded(tick: int, symbol: str) -> bytes:
    return encode_body(IDS.next(0), Message({"symbol": symbol, "tick": tick}))


def shown(answer: LogAnswer) -> tuple[int, int, list[int], bool]:
    assert not answer.lost
    return answer.first, answer.last, answer.ticks, answer.is_compacted


def test_what_was_trimmed_is_answered_with_what_is_kept_of_it_and_then_comes_the_log() -> None:
    serving = Viewed()
    assert shown(serving.answered(0, 60)) == (0, 9, [2, 4, 7], True)
    assert shown(serving.answered(10, 60)) == (10, 60, [12, 15], False)
    assert shown(serving.answered(0, 5)) == (0, 5, [2, 4], True)


def test_who_reads_the_log_alone_or_by_another_key_is_told_of_what_was_trimmed() -> None:
    for key in ("", "price"):
        assert Viewed().answered(0, 60, key=key).lost == ((0, 9),)


def test_last_values_of_trimmed_ticks_are_selected_like_messages_of_the_log() -> None:
    assert shown(Viewed().answered(0, 60, selector="symbol <> 'B'")) == (0, 9, [2, 7], True)


def test_last_values_come_in_parts_that_fit() -> None:
    serving = Viewed()
    assert shown(serving.answered(0, 60, bytes_max=1)) == (0, 3, [2], True)
    assert shown(serving.answered(4, 60, bytes_max=1)) == (4, 6, [4], True)
    assert shown(serving.answered(7, 60, bytes_max=1)) == (7, 9, [7], True)


def test_what_is_trimmed_during_a_read_is_answered_from_what_is_kept() -> None:
    serving = Viewed()
    serving.serving.ask(LogRequest("p", "sb", 1, 10, 60, 1_000, "TRUE", "symbol"))
    (read,) = serving.serving.take_effects()
    serving.keep({12: "B", 15: "A"})
    serving.log.trimmed_below = 20
    assert serving.serving.on_read(read.number, [(12, traded(12, "B"))], 60, None, now_ms=NOW_MS)
    (answer,), serving.sent[:] = serving.sent[:], []
    assert isinstance(answer, LogAnswer)
    assert shown(answer) == (10, 19, [12, 15], True)


def test_a_scan_that_trimming_overtakes_again_and_again_finds_the_newest_of_each_key() -> None:
    """Between any two parts of the scan some more is trimmed, and newer messages take the place of older ones."""
    serving = Viewed()
    newest: dict[object, int] = {}
    first = 0
    for below in (11, 13, 14, 16, 16):
        serving.keep({tick: symbol for tick, symbol in ((12, "B"), (15, "A")) if tick < below})
        serving.log.trimmed_below = below
        answer = serving.answered(first, 20, bytes_max=1)
        for tick, found in zip(answer.ticks, answer.bodies, strict=True):
            newest[decode_attributes(found)["symbol"]] = tick
        first = answer.last + 1
    while first <= 20:
        answer = serving.answered(first, 20)
        for tick, found in zip(answer.ticks, answer.bodies, strict=True):
            newest[decode_attributes(found)["symbol"]] = tick
        first = answer.last + 1
    assert newest == {"A": 15, "B": 12, "C": 7}


def test_who_asks_where_a_log_begins_is_told_whether_last_values_are_kept() -> None:
    for key, is_keeping in (("symbol", True), ("price", False), ("", False)):
        serving = Viewed()
        serving.serving.ask(LogRequest("p", "sb", 7, 0, 0, key=key))
        assert serving.sent == [LogSpan("p", "sb", 7, 10, 100, is_keeping)]


def test_answers_from_memory_wait_for_their_turn_like_reads() -> None:
    serving = Viewed()
    for number in range(5):
        serving.serving.ask(LogRequest("p", "sb", number, 0, 60, 1_000, "TRUE", "symbol"))
    reads = serving.serving.take_effects()
    assert [(each.first, each.last, each.bytes_max) for each in reads] == [(10, 10, 1)] * 2
    assert serving.sent == []
