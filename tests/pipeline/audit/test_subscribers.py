"""Who asked for what: selectors are matched as brokers do, positions are the newest."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.pipeline.audit.subscribers import Subscribers, gather_subscribers, read_values


def subscription(name: str, selector: str | None, number: int = 1, **more: Any) -> dict[str, Any]:
    plain = {"incarnation": 1, "sequence": 1, "broker": "b", "number": number, "subscriber": name, "is_durable": True}
    return {**plain, "selector": selector, "began_at": 1_000_000, "starts": {"p": 50 << 16}, **more}


def position(tick: int, sequence: int = 1, *, forgotten: bool = False) -> dict[str, Any]:
    row = {"incarnation": 1, "sequence": sequence, "pubend": "p", "subscription": "s", "is_forgotten": forgotten}
    return {**row, "acknowledged": None if forgotten else tick}


def gathered(*rows: dict[str, Any], positions: tuple[dict[str, Any], ...] = ()) -> Subscribers:
    return gather_subscribers(rows, positions, slack_ms=100)


def test_selectors_are_matched_by_the_index() -> None:
    found = gathered(subscription("s", "price > 5"), subscription("t", "symbol = 'X'", 2), subscription("u", None, 3))
    assert found.selectors == ("price > 5", "symbol = 'X'")
    assert found.matching({"price": "7.5", "symbol": "X"}) == {0, 1}
    assert found.matching({"price": "5", "symbol": "Y"}) == frozenset()
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert again.matching({"price": "6"}) == {0}


def test_a_subscription_begins_with_its_first_tick_or_with_its_time() -> None:
    each = gathered(subscription("s", "TRUE")).by_name["s"]
    assert [each.is_due("p", tick << 16, 100) for tick in (49, 50)] == [False, True]
    assert [each.is_due("q", ms << 16, 100) for ms in (1_099, 1_100)] == [False, True]


def test_it_may_receive_once_for_each_time_it_was_attached() -> None:
    found = gathered(subscription("s", "TRUE"), subscription("s", "TRUE", 2, starts={"p": 80 << 16}))
    each = found.by_name["s"]
    assert [each.deliveries_max("p", tick << 16, 0, 0) for tick in (40, 60, 90)] == [0, 1, 2]
    assert each.hosts() == {"b"}


def test_what_was_published_after_its_end_an_attachment_cannot_have_received() -> None:
    found = gathered(subscription("s", "TRUE", ended_at=70_000), subscription("s", "TRUE", 2, starts={"p": 60 << 16}))
    each = found.by_name["s"]
    assert [each.deliveries_max("p", 90 << 16, ms, 5) for ms in (50, 75, 76)] == [2, 2, 1]
    assert each.deliveries_max("p", 50 << 16, 0, 5) == 1


def test_positions_are_the_newest_and_forgotten_ones_are_none() -> None:
    rows = (position(70, 2), position(60, 1))
    assert gathered(subscription("s", "TRUE"), positions=rows).by_name["s"].acknowledged == {"p": 70}
    gone = (*rows, position(0, 3, forgotten=True))
    assert gathered(subscription("s", "TRUE"), positions=gone).by_name["s"].acknowledged == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("5.5", 5.5),
        ("1e+20", 1e20),
        ("true", True),
        ("false", False),
        ("5 ", "5 "),
        ("", ""),
        (None, None),
    ],
)
def test_texts_are_read_as_they_look(text: str | None, value: object) -> None:
    found = read_values({"a": text})["a"]
    assert (found, type(found)) == (value, type(value))
    assert read_values({"a": text}, frozenset({"a"}))["a"] == text
