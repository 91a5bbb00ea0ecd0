"""Rows of the table of balancing."""

from __future__ import annotations

from typing import Any

from penstock.cli.balancing_rows import BALANCING, balancing_rows
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


def row(**changes: Any) -> dict[str, str]:
    (found,) = balancing_rows(
        {"e1": broker_status({"mechanisms": {"balancing": {**EDGE, **changes}}}), "other": broker_status()}
    )
    return dict(zip(BALANCING, found, strict=True))


def test_a_session_and_the_last_decision_are_told() -> None:
    found = row()
    assert (found["broker"], found["state"], found["input"], found["delay"]) == ("e1", "BUSY", "0.51", "25.10\u00a0ms")
    assert found["session"] == "moving with e2"
    assert found["moved"] == "1,200"
    assert found["last decision"] == "12 to e2 (delay +0.25); first 3 x a = 1"


def test_overload_and_idleness_are_told() -> None:
    assert "(overload)" in row(last={**EDGE["last"], "overload": True, "cards": []})["last decision"]
    idle = row(session=None, last={}, counts={})
    assert (idle["session"], idle["last decision"], idle["moved"]) == ("", "", "0")
