"""Receipts that are owed: each comes when its turn is, and once."""

from __future__ import annotations

import pytest

from penstock.protocol.stomp import StompError
from penstock.stomp.promises import Promises


def kept(promises: Promises) -> list[str]:
    return [receipt for receipt, _ in promises.take_kept()]


def test_receipts_come_when_what_they_promise_is_done() -> None:
    promises, done = Promises(), set[str]()
    for name in "ab":
        promises.add("key", name, lambda name=name: name in done)  # type: ignore[misc]
    assert promises
    assert kept(promises) == []
    done.add("a")
    assert kept(promises) == ["a"]
    done.add("b")
    assert kept(promises) == ["b"]
    assert not promises


def test_receipts_of_one_key_come_in_order_and_those_of_others_do_not_wait() -> None:
    promises = Promises()
    promises.add("slow", "1", lambda: False)
    promises.add("slow", "2", lambda: True)
    promises.add("quick", "3", lambda: True)
    assert kept(promises) == ["3"]


def test_what_a_receipt_says_besides_is_asked_for_when_it_comes() -> None:
    promises, told = Promises(), {"n": "1"}
    promises.add("key", "1", lambda: True, headers=lambda: dict(told))
    told["n"] = "2"
    assert [*promises.take_kept()] == [("1", {"n": "2"})]


def test_what_nobody_asked_a_receipt_for_is_awaited_all_the_same() -> None:
    promises = Promises()
    promises.add("key", "", lambda: True)
    assert promises
    assert kept(promises) == []
    assert not promises


def test_their_size_is_known_and_nothing_when_all_are_kept() -> None:
    promises = Promises()
    assert promises.size == 0
    for key in "ab":
        promises.add(key, "r" * 1_000, lambda: True)
    assert 2_000 < promises.size < 3_000
    assert kept(promises) == ["r" * 1_000] * 2
    assert promises.size == 0


def test_a_receipt_is_found_by_its_place() -> None:
    promises = Promises()
    promises.add("p", "1", lambda: False, place=5)
    promises.add("p", "2", lambda: False, place=7)
    assert promises.receipt_of("p", 7) == "2"
    assert promises.receipt_of("p", 6) == ""
    assert promises.receipt_of("q", 5) == ""


def test_receipts_before_an_error_have_been_said() -> None:
    def fails() -> bool:
        raise StompError("never")

    promises = Promises()
    promises.add("a", "1", lambda: True)
    promises.add("b", "2", fails)
    taken = promises.take_kept()
    assert next(taken) == ("1", {})
    with pytest.raises(StompError):
        next(taken)
    assert promises.failing == "2"
