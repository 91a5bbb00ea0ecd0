"""What a view keeps of trimmed messages, and what it makes durable."""

from __future__ import annotations

from random import Random

import pytest

from penstock.broker.pubend.last_values import LastView, stale_values
from penstock.model.body import decode_attributes, encode_body
from penstock.model.expiry import expires_at_ms
from penstock.model.keys import key_of
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue

SENT_MS = 1_000
NOW_MS = 2_000


def body(value: AttributeValue, lifetime_s: float | None = None, size: int = 0) -> bytes:
    message = Message({"symbol": value}, bytes(size), expires=lifetime_s)
    return encode_body(MessageId(1, 1, SENT_MS, 1), message)


class Stored:
    """A view with its named values, which outlive it."""

    def __init__(self, *, keys_max: int = 100, bytes_max: int = 100_000) -> None:
        self.values: dict[str, bytes] = {}
        self.bounds = {"keys_max": keys_max, "bytes_max": bytes_max}
        self.view = LastView("p", "symbol", keys_max=keys_max, bytes_max=bytes_max)

    def keep(self, messages: dict[int, bytes], now_ms: int = NOW_MS) -> None:
        self.view.keep(messages.items(), now_ms=now_ms)
        self.store()

    def store(self) -> list[str]:
        changes = self.view.take_changes()
        for change in changes:
            if change.value is None:
                del self.values[change.name]
            else:
                self.values[change.name] = change.value
        self.view.check_invariants()
        return [change.name for change in changes]

    def restart(self) -> None:
        self.view = LastView("p", "symbol", self.values, **self.bounds)
        self.store()

    def ticks(self, first: int = 0, last: int = 10**9, now_ms: int = NOW_MS) -> list[int]:
        return [tick for tick, _ in self.view.between(first, last, now_ms=now_ms)]


def test_the_newest_of_each_key_is_kept_in_the_order_of_ticks() -> None:
    stored = Stored()
    stored.keep({1: body("A"), 2: body("B"), 3: body("A"), 4: body(None), 5: body("C")})
    assert stored.ticks() == [2, 3, 5]
    stored.keep({8: body("B")})
    assert stored.ticks() == [3, 5, 8]
    assert (stored.ticks(4), stored.ticks(3, 5), stored.ticks(9), stored.ticks(4, 4)) == ([5, 8], [3, 5], [], [])
    assert len(stored.view) == 3


def test_only_what_has_changed_is_written_under_the_tick_of_each_message() -> None:
    stored = Stored()
    stored.view.keep({1: body("A"), 3: body("A"), 5: body("C")}.items(), now_ms=NOW_MS)
    assert stored.store() == ["last/p/3/symbol", "last/p/5/symbol"]
    stored.view.keep({8: body("A")}.items(), now_ms=NOW_MS)
    assert sorted(stored.store()) == ["last/p/3/symbol", "last/p/8/symbol"]
    assert sorted(stored.values) == ["last/p/5/symbol", "last/p/8/symbol"]
    assert stored.values["last/p/8/symbol"] == body("A")
    assert stored.store() == []


def test_a_later_life_goes_on_with_what_was_written() -> None:
    stored = Stored()
    stored.keep({1: body("A"), 9: body("B"), 10: body("C", 50.0)})
    stored.restart()
    assert stored.ticks() == [1, 9, 10]
    stored.keep({11: body("A")})
    stored.restart()
    assert stored.ticks() == [9, 10, 11]
    assert stored.ticks(now_ms=SENT_MS + 50_000) == [9, 11]


def test_the_same_messages_may_come_again_after_a_crash() -> None:
    stored = Stored()
    messages = {1: body("A"), 2: body("B"), 3: body("A")}
    stored.keep(messages)
    stored.restart()
    stored.keep(messages)
    assert stored.ticks() == [2, 3]
    assert len(stored.values) == 2


def test_an_older_message_that_comes_later_does_not_replace_a_newer_one() -> None:
    stored = Stored()
    stored.keep({5: body("A")})
    stored.keep({3: body("A"), 4: body("B")})
    assert stored.ticks() == [4, 5]


def test_what_has_expired_is_not_kept() -> None:
    stored = Stored()
    stored.keep({1: body("A"), 2: body("A", 1.0), 3: body("B", 1.0)})
    assert stored.ticks() == [1]


def test_what_expires_is_not_served_and_not_kept_for_ever() -> None:
    stored = Stored()
    stored.keep({1: body("A", 2.0), 2: body("B")})
    assert stored.ticks(now_ms=SENT_MS + 1_999) == [1, 2]
    assert stored.ticks(now_ms=SENT_MS + 2_000) == [2]
    assert len(stored.values) == 2
    stored.view.expire(now_ms=SENT_MS + 2_000)
    assert stored.store() == ["last/p/1/symbol"]
    assert [*stored.values] == ["last/p/2/symbol"]


def test_what_lives_longer_comes_back_when_a_newer_message_expires() -> None:
    stored = Stored()
    stored.keep({1: body("A"), 2: body("A", 9.0), 3: body("A", 5.0), 4: body("A", 5.0)})
    assert stored.ticks() == [1, 2, 4]
    stored.restart()
    stored.view.expire(now_ms=SENT_MS + 5_000)
    assert stored.ticks() == [1, 2]
    stored.keep({6: body("A")})
    assert stored.ticks() == [6]
    assert len(stored.values) == 1


def test_values_are_told_apart_as_selectors_do() -> None:
    stored = Stored()
    values: list[AttributeValue] = [1, True, 1.0, "1", float("nan"), float("nan"), "nan", 0, False]
    stored.keep({tick: body(value) for tick, value in enumerate(values, start=1)})
    assert stored.ticks() == [2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize("bounds", [{"keys_max": 2}, {"bytes_max": 2 * len(body("A", size=500)) + 1}])
def test_at_a_bound_the_oldest_goes_and_is_counted(bounds: dict[str, int]) -> None:
    stored = Stored(**bounds)
    stored.keep({1: body("A", size=500), 2: body("B", size=500)})
    assert stored.view.dropped == 0
    stored.keep({3: body("C", size=500), 4: body("B", size=500)})
    assert stored.ticks() == [3, 4]
    assert stored.view.dropped == 1
    assert len(stored.values) == 2
    stored.restart()
    assert stored.ticks() == [3, 4]
    assert stored.view.dropped == 0


def test_a_message_that_is_larger_than_everything_may_be_is_dropped_and_counted() -> None:
    stored = Stored(bytes_max=100)
    stored.keep({1: body("A", size=200)})
    assert (stored.ticks(), stored.view.dropped, stored.values) == ([], 1, {})


def test_a_lower_bound_holds_from_the_start() -> None:
    stored = Stored()
    stored.keep({tick: body(tick) for tick in range(10)})
    stored.bounds["keys_max"] = 3
    stored.restart()
    assert stored.ticks() == [7, 8, 9]
    assert stored.view.dropped == 7
    assert len(stored.values) == 3


@pytest.mark.parametrize("damage", [b"", b"nonsense", body("A")[:-1]])
def test_a_stored_message_that_cannot_be_read_is_dropped_and_counted(damage: bytes) -> None:
    stored = Stored()
    stored.keep({1: body("A"), 2: body("B")})
    stored.values["last/p/1/symbol"] = damage
    stored.restart()
    assert stored.ticks() == [2]
    assert stored.view.damaged == 1
    assert [*stored.values] == ["last/p/2/symbol"]


def test_values_of_others_are_left_alone() -> None:
    others = {
        "last/q/1/symbol": body("A"),
        "durable/p/x": b"1",
        "last/p/1/other": body("A"),
        "last/p": b"",
        "work/p//g": b"",
    }
    view = LastView("p", "symbol", others, keys_max=9, bytes_max=999)
    assert (len(view), view.damaged, view.take_changes()) == (0, 0, [])


def test_views_that_are_not_kept_up_to_date_are_stale() -> None:
    names = ["last/p/1/a", "last/p/2/b", "last/q/3/a", "last/gone/4/a", "last/r/5/a/b", "durable/p/1/a", "last/p/x/a"]
    assert stale_values(names, ["p", "q", "r"], {"p": "b", "r": "a/b"}) == ["last/p/1/a", "last/q/3/a"]


@pytest.mark.parametrize("seed", range(30))
def test_the_newest_that_lives_is_found_at_any_time_whatever_came_in_whatever_pieces(seed: int) -> None:
    chance = Random(seed)
    stored = Stored()
    messages = {
        tick: body(chance.choice("ABC"), chance.choice((None, 3.0, 10.0, chance.uniform(0.1, 20.0))))
        for tick in sorted(chance.sample(range(1_000), 60))
    }
    trimmed: dict[int, bytes] = {}
    now_ms, place = SENT_MS, 0
    ticks = [*messages]
    while place < len(ticks):
        count = chance.randrange(1, 12)
        # After a crash, a piece may begin before the last one ended.
        piece = ticks[max(0, place - chance.choice((0, 0, 3))) : place + count]
        place += count
        trimmed |= {tick: messages[tick] for tick in piece}
        stored.keep({tick: messages[tick] for tick in piece}, now_ms)
        if chance.random() < 0.2:
            stored.restart()
        if chance.random() < 0.3:
            stored.view.expire(now_ms=now_ms)
            stored.store()
        now_ms += chance.choice((0, 100, 2_000))
        expected: dict[object, int] = {}
        for tick, each in sorted(trimmed.items()):
            attributes = decode_attributes(each)
            end_ms = expires_at_ms(each, attributes)
            if end_ms is None or end_ms > now_ms:
                expected[key_of(attributes["symbol"])] = tick
        found: dict[object, int] = {}
        for tick, each in stored.view.between(0, 10**9, now_ms=now_ms):
            found[key_of(decode_attributes(each)["symbol"])] = tick
        assert found == expected
