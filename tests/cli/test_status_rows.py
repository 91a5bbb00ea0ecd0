"""Rows of what brokers say of groups, congestion control and balancing."""

from __future__ import annotations

from typing import Any

from penstock.cli.status_rows import (
    BALANCING,
    GROUPS,
    RATES,
    STREAMS,
    balancing_rows,
    group_rows,
    outboxes,
    rate_rows,
    stream_rows,
)
from statuses import broker_status

EDGE: dict[str, Any] = {
    "role": "edge",
    "cluster": "h",
    "state": "BUSY",
    "input": 0.512,
    "output": 0.25,
    "delay_s": 0.0251,
    "session": {"phase": "moving", "partner": "e2"},
    "counts": {"migrations": 1_200},
    "last": {
        "partner": "e2",
        "metric": "delay",
        "difference": 0.254,
        "overload": False,
        "moved": 12,
        "cards": [{"interest": "a = 1", "subscribers": 3}],
    },
}


def pubend(**changes: Any) -> dict[str, Any]:
    usual = {"rate_msg_s": 1234.5, "allowed_msg_s": None, "decreases": 0, "increases": 0, "uca_seq": 0}
    return {**usual, "uca_rate": None, "uca_host": "", **changes}


def group(**changes: Any) -> dict[str, Any]:
    return {"known": 1_234, "held": 12, "dying": 1, "members": {}, "counts": {"done": 5_000}, **changes}


def test_a_group_shows_what_is_not_done_and_who_has_most_of_it() -> None:
    crowd = group(members={f"w{number}": number for number in range(7)})
    vain = group(counts={"refused": 1, "run_out": 2, "left": 4, "late": 100})
    pubends = {"p": {"groups": {"vain": vain, "crowd": crowd}}, "q": {}}
    first, second = group_rows({"pb": broker_status({"guaranteed": {"pubends": pubends}})})
    members = "w6 6\nw5 5\nw4 4\nw3 3\nw2 2\nand 2 more"
    assert first == ("crowd", "p", "pb", "1,234", "12", "1", "5,000", "0", members)
    assert second == ("vain", "p", "pb", "1,234", "12", "1", "0", "7", "none")
    assert len(first) == len(GROUPS)
    assert not list(group_rows({"pb": broker_status()}))


def test_a_pubend_shows_its_rate_and_who_limits_it() -> None:
    limited = pubend(allowed_msg_s=20.0, decreases=3, increases=1_200, uca_rate=0.456, uca_host="sb1")
    free = pubend(uca_rate=0.9, uca_host="sb1")
    rows = list(rate_rows({"pb": broker_status({"congestion": {"pubends": {"a": limited, "b": free}}})}))
    assert rows[0] == ("a", "pb", "1,234.5", "20.0", "sb1", "0.46", "3", "1,200")
    assert rows[1] == ("b", "pb", "1,234.5", "", "", "0.90", "0", "0"), "who is not limited is limited by nobody"
    assert {len(row) for row in rows} == {len(RATES)}


def test_a_stream_shows_how_it_moves() -> None:
    stream = {"horizon_rate": 1.875, "lag_ms": 12_340, "recovering": True, "nack_window_ms": 1_200}
    told = broker_status({"congestion": {"streams": {"a": stream, "b": {**stream, "recovering": False}}}})
    rows = list(stream_rows({"sb": told}))
    assert rows[0] == ("sb", "a", "1.88", "12.3\u00a0s", "1,200\u00a0ms", "yes")
    assert rows[1][-1] == "no"
    assert len(rows[0]) == len(STREAMS)


def test_a_broker_that_says_nothing_of_it_is_no_problem() -> None:
    assert not list(rate_rows({"old": broker_status()}))
    assert not list(stream_rows({"old": broker_status()}))
    assert outboxes(broker_status()) == "0"


def test_what_waits_is_told_by_link_the_fullest_first_or_in_all() -> None:
    assert outboxes(broker_status({"outboxes": {"a": 5, "b": 7_000, "c": 0}, "outbox_bytes": 7_005})) == "b 7,000\na 5"
    assert outboxes(broker_status({"outboxes": {"a": 0}, "outbox_bytes": 1_000})) == "1,000"
    assert outboxes(broker_status({"outbox_bytes": 1_000})) == "1,000"


def balancing_row(**changes: Any) -> dict[str, str]:
    (found,) = balancing_rows(
        {"e1": broker_status({"mechanisms": {"balancing": {**EDGE, **changes}}}), "other": broker_status()}
    )
    return dict(zip(BALANCING, found, strict=True))


def test_a_session_and_the_last_decision_are_told() -> None:
    found = balancing_row()
    assert (found["broker"], found["state"], found["input"], found["delay"]) == ("e1", "BUSY", "0.51", "25.10\u00a0ms")
    assert found["session"] == "moving with e2"
    assert found["moved"] == "1,200"
    assert found["last decision"] == "12 to e2 (delay +0.25); first 3 x a = 1"


def test_a_head_that_shares_its_own_clients_has_a_row_for_that() -> None:
    head = {"role": "head", "cluster": "h", "state": "OK", "own": {**EDGE, "role": "head", "cluster": "$heads"}}
    rows = list(balancing_rows({"h": broker_status({"mechanisms": {"balancing": head}})}))
    cluster, own = (dict(zip(BALANCING, row, strict=True)) for row in rows)
    assert (cluster["broker"], cluster["role"], cluster["cluster"], cluster["state"]) == ("h", "head", "h", "OK")
    assert (own["broker"], own["role"], own["cluster"], own["state"]) == (
        "h",
        "head, own clients",
        "group heads",
        "BUSY",
    )
    assert (own["session"], own["moved"]) == ("moving with e2", "1,200")


def test_overload_and_idleness_are_told() -> None:
    assert "(overload)" in balancing_row(last={**EDGE["last"], "overload": True, "cards": []})["last decision"]
    idle = balancing_row(session=None, last={}, counts={})
    assert (idle["session"], idle["last decision"], idle["moved"]) == ("", "", "0")


def test_a_broker_whose_figures_of_balancing_cannot_be_read_has_a_row() -> None:
    unreadable: list[dict[str, Any]] = [{"last": []}, {"role": "edge", "cluster": "c", "input": "x", "output": 1}]
    for figures in unreadable:
        (row,) = balancing_rows({"b1": broker_status({"mechanisms": {"balancing": figures}})})
        assert row == ("b1", "unreadable", *[""] * 8)
